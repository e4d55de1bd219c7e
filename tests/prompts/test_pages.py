"""Forms on pages, in a real browser and against what is no browser at all."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.async_api import Page
from tests.prompts.chromium import chromium
from tests.prompts.sample_forms import CHINESE, CONSENT, DESTROY, HOSTILE, KEY, PAYLOAD

from switchboard.prompts.forms import Choice, Form, Reply, Shown
from switchboard.prompts.page_html import notice, question
from switchboard.prompts.pages import Pages

_LIMIT_S = 90.0


class Desk:
    """Pages, and a person with or without a browser who looks at them."""

    def __init__(self, *, opens: bool = True) -> None:
        self.opened: list[str] = []
        self.fetched: list[str] = []
        self.pages = Pages(self._open, fetched=self.fetched.append)
        self._opens = opens

    async def _open(self, address: str) -> bool:
        self.opened.append(address)
        return self._opens

    async def show(self, form: Form) -> tuple[Shown, str]:
        """Show a form, and return it with its address."""
        shown = await self.pages.show(form)
        assert shown is not None
        assert shown.address is not None
        return shown, shown.address

    async def ask(self, method: str, address: str, form: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Send what a browser would, and return the status and the page."""
        return await asyncio.to_thread(_ask, method, address, urlencode(form or {}))


def _ask(method: str, address: str, body: str) -> tuple[int, str]:
    parts = urlsplit(address)
    connection = HTTPConnection(parts.netloc, timeout=20)
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{parts.netloc}"}
    try:
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body if method == "POST" else None, headers if method == "POST" else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@asynccontextmanager
async def desk(*, opens: bool = True) -> AsyncGenerator[Desk]:
    here = Desk(opens=opens)
    try:
        yield here
    finally:
        await here.pages.close()


def told(story: Callable[[Desk], Awaitable[None]], *, opens: bool = True) -> None:
    async def run() -> None:
        async with desk(opens=opens) as here:
            await story(here)

    asyncio.run(asyncio.wait_for(run(), _LIMIT_S))


def seen(story: Callable[[Desk, Page], Awaitable[None]], **settings: Any) -> None:
    async def run(here: Desk) -> None:
        async with chromium() as browser:
            context = await browser.new_context(**settings)
            context.set_default_timeout(20_000)
            await story(here, await context.new_page())

    told(run)


async def replied(shown: Shown) -> Reply | None:
    return await asyncio.wait_for(shown.reply, 20)


# In a browser.


@pytest.mark.parametrize("script", [True, False])
def test_each_choice_is_a_click(*, script: bool) -> None:
    """With and without JavaScript, of which there is none; the page after it says what was chosen."""

    async def story(here: Desk, page: Page) -> None:
        for choice in CONSENT.choices:
            shown, address = await here.show(CONSENT)
            await page.goto(address)
            await page.get_by_role("button", name=choice.label, exact=True).click()
            await page.get_by_role("heading", name="Your answer has arrived").wait_for()

            assert await replied(shown) == Reply(choice.id, {})
            assert await page.get_by_text("close this tab").is_visible()
            assert await page.get_by_text(choice.label, exact=True).is_visible()

    seen(story, java_script_enabled=script)


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_each_choice_is_reached_by_keyboard_the_careful_one_first(key: str) -> None:
    """Nothing has the focus at first, so that a key that was meant for another window chooses nothing."""

    async def story(here: Desk, page: Page) -> None:
        for steps, choice in enumerate(CONSENT.choices, start=1):
            shown, address = await here.show(CONSENT)
            await page.goto(address)
            await page.keyboard.press(key)
            for _ in range(steps):
                await page.keyboard.press("Tab")
            assert not shown.reply.done()
            focus = page.locator(":focus-visible")
            assert await focus.inner_text() == choice.label
            assert await focus.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
            await page.keyboard.press(key)
            await page.get_by_role("heading", name="Your answer has arrived").wait_for()

            assert await replied(shown) == Reply(choice.id, {})

    seen(story)


def test_enter_in_a_field_sends_what_was_filled_in() -> None:
    """Not the first button, which would cancel; and what was typed is nowhere but in the reply."""

    async def story(here: Desk, page: Page) -> None:
        shown, address = await here.show(KEY)
        await page.goto(address)
        await page.keyboard.press("Tab")
        await page.keyboard.type("my-app")
        await page.keyboard.press("Tab")
        await page.keyboard.type("hush & <hush>")
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name="Your answer has arrived").wait_for()

        assert await replied(shown) == Reply("ok", {"app_id": "my-app", "choice": "hush & <hush>"})
        assert page.url == address
        assert "hush" not in await page.content()

    seen(story, java_script_enabled=False)


def test_enter_in_a_form_with_an_empty_field_sends_nothing() -> None:
    """The browser points at the field; Cancel and Help work all the same, and take nothing along."""

    async def story(here: Desk, page: Page) -> None:
        shown, address = await here.show(KEY)
        await page.goto(address)
        await page.get_by_label("App ID").fill("my-app")
        await page.keyboard.press("Enter")
        assert await page.get_by_label("App secret").evaluate("e => e === document.activeElement")
        assert not shown.reply.done()
        await page.get_by_role("button", name="Help").click()

        assert await replied(shown) == Reply("help", {})

    seen(story)


def test_back_reload_and_a_second_tab_change_nothing() -> None:
    """The person is told that it was decided."""

    async def story(here: Desk, page: Page) -> None:
        shown, address = await here.show(CONSENT)
        other = await page.context.new_page()
        await other.goto(address)
        await page.goto(address)
        await page.get_by_role("button", name="Deny").click()
        await page.get_by_role("heading", name="Your answer has arrived").wait_for()
        await other.get_by_role("button", name="Allow all tools").click()
        await other.get_by_role("heading", name="This has already been decided").wait_for()
        await page.go_back()
        await page.goto(address)
        await page.get_by_role("heading", name="This has already been decided").wait_for()

        assert await replied(shown) == Reply("deny", {})

    seen(story)


def test_what_others_wrote_is_text() -> None:
    """HTML, Markdown, quotes and signs of direction stand on the page as they are, and do nothing."""

    async def story(here: Desk, page: Page) -> None:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("dialog", lambda _: asked.append("dialog"))
        _, address = await here.show(HOSTILE)
        await page.goto(address)

        assert asked == [address]
        assert await page.title() == f"{PAYLOAD} · Switchboard"
        assert await page.locator("main script, main img, main a, main style").count() == 0
        assert await page.locator("form").count() == 1
        assert await page.locator("h1").text_content() == PAYLOAD
        assert await page.locator("blockquote").text_content() == PAYLOAD
        assert await page.locator("dd").first.text_content() == PAYLOAD
        assert await page.locator("li").text_content() == PAYLOAD
        assert await page.locator("label").text_content() == PAYLOAD
        isolated = "e => getComputedStyle(e).unicodeBidi"
        assert {await each.evaluate(isolated) for each in await page.locator("bdi").all()} == {"isolate"}

    seen(story)


def test_the_policy_lets_the_style_in_and_nothing_else() -> None:
    """Not a style of somebody else, not a script, not a form to elsewhere."""

    async def story(here: Desk, page: Page) -> None:
        shown, address = await here.show(CONSENT)
        refused: list[str] = []
        page.on("console", lambda message: refused.append(message.text))
        await page.goto(address)
        assert await page.evaluate("getComputedStyle(document.querySelector('main')).borderRadius") == "16px"
        assert refused == []
        await page.evaluate("""() => {
            document.head.appendChild(document.createElement('style')).textContent = 'main { display: none }';
            document.body.appendChild(document.createElement('script')).textContent = 'document.title = "owned"';
            const form = document.querySelector('form');
            form.action = 'http://localhost:1/';
            form.querySelector('button').click();
        }""")

        assert await page.locator("main").is_visible()
        assert await page.title() != "owned"
        for kind in ("style-src", "script", "form-action"):
            assert any(kind in text for text in refused)
        assert not shown.reply.done()

    seen(story)


def test_a_foreign_page_cannot_answer_even_with_the_address() -> None:
    """It posts the right form, from a file and from an empty page: the browser says whose it is."""

    async def story(here: Desk, page: Page) -> None:
        shown, address = await here.show(CONSENT)
        form = f'<form method=post action="{address}"><button name=choice value=all>win a prize</button></form>'
        await page.set_content(form)
        async with page.expect_response(address) as answer:
            await page.get_by_role("button").click()

        assert (await answer.value).status == 403
        assert not shown.reply.done()

    seen(story)


_CONTRASTS = """() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgb = colour => {
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = colour => rgb(colour).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const ground = element => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if (colour !== 'rgba(0, 0, 0, 0)') return colour;
    }
  };
  const texts = [...document.querySelectorAll('body *')]
    .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
    .map(e => [e.textContent.trim().slice(0, 40), 4.5, ratio(getComputedStyle(e).color, ground(e))]);
  const edges = [...document.querySelectorAll('input, button:not(.enter)')]
    .map(e => [e.name + ' edge', 3, ratio(getComputedStyle(e).borderTopColor, ground(e.parentElement))]);
  return [...texts, ...edges];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read(scheme: str) -> None:
    """Text has a contrast of at least 4.5, the edges of what can be used 3 (WCAG 1.4.3, 1.4.11), in either scheme."""
    forms = [CONSENT, DESTROY, KEY, CHINESE]
    documents = [
        *(question(form) for form in forms),
        question(KEY, "fields"),
        notice(200, "Done", "Well", "en", good=True),
    ]

    async def story(here: Desk, page: Page) -> None:
        del here
        for document in documents:
            await page.set_content(document.body)
            found = await page.evaluate(_CONTRASTS)

            assert len(found) >= 4
            assert [each for each in found if each[2] < each[1]] == []

    seen(story, color_scheme=scheme)


@pytest.mark.parametrize("width", [320, 450, 900])
def test_nothing_is_cut_off_on_a_narrow_screen(width: int) -> None:
    """320 px, which is also 1280 px at 400 %; no sideways scrolling, and every button large enough for a finger."""

    async def story(here: Desk, page: Page) -> None:
        for form in (CONSENT, CHINESE, KEY, HOSTILE):
            _, address = await here.show(form)
            await page.goto(address)
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
            for button in await page.locator("button:not(.enter)").all():
                box = await button.bounding_box()
                assert box is not None
                assert box["height"] >= 44
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= width

    seen(story, viewport={"width": width, "height": 640})


def test_a_screen_reader_finds_its_way() -> None:
    """One language, one heading first, facts with labels, fields with theirs, and buttons with names."""

    async def story(here: Desk, page: Page) -> None:
        for form, language in ((KEY, "en"), (CHINESE, "zh-Hans")):
            _, address = await here.show(form)
            await page.goto(address)
            assert await page.locator("html").get_attribute("lang") == language
            assert await page.get_by_role("heading", level=1).inner_text() == form.title
            assert await page.get_by_role("main").count() == 1
            assert await page.locator("dl > div > dt + dd").count() == len(form.lines)
            for field in form.fields:
                entry = page.get_by_label(field.label, exact=True)
                assert await entry.get_attribute("type") == ("password" if field.secret else "text")
                assert await entry.get_attribute("autocomplete") == "off"
            buttons = await page.get_by_role("button").all()
            assert [await button.inner_text() for button in buttons] == [choice.label for choice in form.choices]
            assert await page.locator("[autofocus]").count() == 0

    seen(story)


def test_motion_is_only_for_who_wants_it() -> None:
    """A person who asked for less gets none."""

    async def story(here: Desk, page: Page) -> None:
        _, address = await here.show(CONSENT)
        await page.goto(address)

        button = page.get_by_role("button", name="Deny")
        assert await button.evaluate("e => getComputedStyle(e).transitionDuration") in ("0s", "0s, 0s")

    seen(story, reduced_motion="reduce")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 900])
def test_pictures_for_a_person_to_look_at(tmp_path: Path, scheme: str, width: int) -> None:
    """Every page can be drawn; the pictures stand in pytest's folder."""

    async def story(here: Desk, page: Page) -> None:
        for name, form in {"consent": CONSENT, "destroy": DESTROY, "key": KEY, "chinese": CHINESE}.items():
            _, address = await here.show(form)
            await page.goto(address)
            file = tmp_path / f"{name}-{scheme}-{width}.png"
            picture = await page.screenshot(path=file, full_page=True)
            assert len(picture) > 10_000

    seen(story, color_scheme=scheme, viewport={"width": width, "height": 640})


# Without a browser.


@pytest.mark.parametrize("opens", [True, False])
def test_whether_it_is_visible_is_what_the_opener_says(*, opens: bool) -> None:
    """The address is there either way, for a client to show."""

    async def story(here: Desk) -> None:
        shown, address = await here.show(CONSENT)

        assert shown.visible is opens
        assert here.opened == [address]
        assert here.fetched == []
        assert (await here.ask("GET", address))[0] == 200
        assert address in here.fetched

    told(story, opens=opens)


def test_an_answer_is_taken_once() -> None:
    """Replays, by whatever method, are told so and change nothing."""

    async def story(here: Desk) -> None:
        shown, address = await here.show(CONSENT)
        first = await here.ask("POST", address, {"choice": "once"})
        replay = await here.ask("POST", address, {"choice": "all"})
        look = await here.ask("GET", address)

        assert (first[0], replay[0], look[0]) == (200, 410, 410)
        assert "already been decided" in replay[1]
        assert "already been decided" in look[1]
        assert await replied(shown) == Reply("once", {})

    told(story)


def test_a_hundred_answers_at_once_are_one() -> None:
    """The first counts; it is never none and never two."""

    async def story(here: Desk) -> None:
        shown, address = await here.show(CONSENT)
        choices = ["deny", "all"] * 20
        answers = await asyncio.gather(*(here.ask("POST", address, {"choice": choice}) for choice in choices))

        assert sorted(status for status, _ in answers) == [200] + [410] * 39
        won = next(choice for choice, (status, _) in zip(choices, answers, strict=True) if status == 200)
        assert await replied(shown) == Reply(won, {})

    told(story)


def test_looking_decides_nothing() -> None:
    """Nor does a choice in the address, as an image or a link could carry it."""

    async def story(here: Desk) -> None:
        shown, address = await here.show(CONSENT)
        for query in ("?choice=all", "?choice=deny", "?method=POST&choice=all", ""):
            assert (await here.ask("GET", address + query))[0] == 200
        assert (await here.ask("POST", address + "?choice=all"))[0] == 400

        assert not shown.reply.done()
        assert (await here.ask("POST", address, {"choice": "deny"}))[0] == 200

    told(story)


def test_wrong_addresses_lead_nowhere() -> None:
    """Near the right one, or made up."""

    async def story(here: Desk) -> None:
        shown, address = await here.show(CONSENT)
        base, _, token = address.rpartition("/")
        swapped = token[:-1] + ("A" if token[-1] != "A" else "B")
        for wrong in (
            "",
            token[:-1],
            token + "x",
            swapped,
            token.swapcase(),
            token + "/",
            "x" * 43,
            "%2e%2e",
            token + "%00",
        ):
            status, _ = await here.ask("POST", f"{base}/{wrong}", {"choice": "all"})
            assert status == 404, wrong
        assert (await here.ask("POST", address.replace("/ask/", "/ask//"), {"choice": "all"}))[0] == 404

        assert not shown.reply.done()

    told(story)


@pytest.mark.parametrize("given", [{}, {"choice": ""}, {"choice": "ALL"}, {"choice": "all "}, {"other": "all"}])
def test_a_choice_that_was_not_offered_is_asked_again(given: dict[str, str]) -> None:
    """The question stays open."""

    async def story(here: Desk) -> None:
        shown, address = await here.show(CONSENT)
        status, page = await here.ask("POST", address, given)

        assert status == 400
        assert "Choose one of the buttons" in page
        assert not shown.reply.done()
        assert (await here.ask("POST", address, {"choice": "deny"}))[0] == 200

    told(story)


@pytest.mark.parametrize("missing", [{}, {"field.app_id": "a"}, {"field.app_id": "hush", "field.choice": "  "}])
def test_an_empty_field_is_asked_for_again_without_what_was_typed(missing: dict[str, str]) -> None:
    """Nothing typed comes back into the page; the question stays open."""

    async def story(here: Desk) -> None:
        shown, address = await here.show(KEY)
        status, page = await here.ask("POST", address, {"choice": "ok", **missing})

        assert status == 422
        assert "Fill in every field first" in page
        assert "hush" not in page
        assert 'value="hush' not in page
        assert not shown.reply.done()
        whole = {"choice": "ok", "field.app_id": "a", "field.choice": "b", "field.more": "c"}
        assert (await here.ask("POST", address, whole))[0] == 200
        assert await replied(shown) == Reply("ok", {"app_id": "a", "choice": "b"})

    told(story)


def test_cancelling_takes_the_page_away() -> None:
    """At once, not a turn of the loop later; the page says so in the person's language."""

    async def story(here: Desk) -> None:
        shown, address = await here.show(CHINESE)
        shown.reply.cancel()
        answers = [await here.ask("POST", address, {"choice": "once"}), await here.ask("GET", address)]

        for status, page in answers:
            assert status == 410
            assert "此问题已不再有效" in page
        assert here.fetched == [address]

    told(story)


def test_closing_ends_every_question_without_an_answer() -> None:
    """And nobody listens any more; asking again begins anew."""

    async def story(here: Desk) -> None:
        first, address = await here.show(CONSENT)
        second, _ = await here.show(KEY)
        await here.pages.close()

        assert (await replied(first), await replied(second)) == (None, None)
        with pytest.raises(ConnectionRefusedError):
            await here.ask("GET", address)
        _, again = await here.show(CONSENT)
        assert (await here.ask("GET", again))[0] == 200

    told(story)


def test_an_opener_that_fails_leaves_no_page_behind() -> None:
    """Nobody would ever hear of its address."""

    async def story() -> None:
        addresses: list[str] = []

        async def fail(address: str) -> bool:
            addresses.append(address)
            raise ValueError("no such address")

        pages = Pages(fail)
        with pytest.raises(ValueError, match="no such address"):
            await pages.show(CONSENT)
        status, _ = await asyncio.to_thread(_ask, "GET", addresses[0], "")
        await pages.close()

        assert status == 410

    asyncio.run(story())


def test_no_two_addresses_are_alike() -> None:
    """Two hundred, none like another, each with 256 random bits."""

    async def story(here: Desk) -> None:
        tokens = {(await here.show(CONSENT))[1].rpartition("/")[2] for _ in range(200)}

        assert len(tokens) == 200
        assert {len(token) for token in tokens} == {43}
        assert len({token[:8] for token in tokens}) == 200

    told(story)


def test_ended_questions_are_forgotten_in_the_end() -> None:
    """A gateway that runs for months does not keep them all."""

    async def story(here: Desk) -> None:
        first, oldest = await here.show(CONSENT)
        first.reply.cancel()
        newest = ""
        for _ in range(1001):
            shown, newest = await here.show(CONSENT)
            shown.reply.cancel()
        await asyncio.sleep(0)

        assert (await here.ask("GET", oldest))[0] == 404
        assert (await here.ask("GET", newest))[0] == 410

    told(story)


def test_what_was_typed_and_the_address_are_in_no_log(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nor in what a debugger prints of a reply."""

    async def story(here: Desk) -> None:
        shown, address = await here.show(KEY)
        await here.ask("GET", address)
        await here.ask("POST", address, {"choice": "ok", "field.app_id": "hush-hush"})
        await here.ask("POST", address, {"choice": "ok", "field.app_id": "hush-hush", "field.choice": "hush-hush"})
        reply = await replied(shown)
        said = f"{reply!r} {reply} {caplog.text} {''.join(capfd.readouterr())}"

        assert "hush-hush" not in said
        assert address.rpartition("/")[2] not in said

    caplog.set_level(1)
    logging.getLogger("uvicorn").setLevel(1)
    try:
        told(story)
    finally:
        logging.getLogger("uvicorn").setLevel(logging.NOTSET)


def test_a_form_without_facts_is_a_short_page() -> None:
    """No empty lists or boxes."""
    body = question(Form(title="Go on?", question="", choices=(Choice(id="no", label="No"),))).body.partition("<body>")[
        2
    ]

    assert "<dl>" not in body
    assert "<section" not in body
    assert "<p class" not in body
