"""The first contact with a web app: where its calls go, who vouches for that, and what must not change unseen."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from tests.actions.fakes import HandClock
from tests.builders import app, call_of
from tests.caching import CACHES
from tests.net.web import Names, Web, reply, this_machine_too
from tests.security.hands import Hand, MemoryVault, Told

from switchboard.catalog.bindings import AppCredential, Cookie, Http, OAuth2
from switchboard.catalog.errors import ConsentRequired, RefusedAddress, ServiceUnavailable
from switchboard.catalog.model import App
from switchboard.net.fetch import Fetch
from switchboard.prompts.questions import Questions
from switchboard.security.consent import UsersConsent
from switchboard.security.grants import Confirmed, Decision
from switchboard.security.records import Records
from switchboard.security.trust import Contacts, Differences, differences, places

SIGN_IN = OAuth2(
    authorization_endpoint="https://login.shop.test/authorize",
    token_endpoint="https://login.shop.test:8443/token",  # noqa: S106 - an address
    scopes=("orders:read",),
)
NOW = Confirmed(at=1, issuers={"shop.test": "Good CA"}, scopes=("read",), tools={"buy": "1", "sell": "2"})


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        (replace(app("a", "t"), origin="https://shop.test"), ("https://shop.test", "https://a.test")),
        (replace(app("a", "t"), origin="file:///x/aai.json"), ("https://a.test",)),
        (
            replace(app("a", "t"), origin="https://a.test", auth=SIGN_IN),
            ("https://a.test", "https://login.shop.test", "https://login.shop.test:8443"),
        ),
        (
            replace(app("a"), auth=AppCredential(token_endpoint="https://open.test/t")),  # noqa: S106 - an address
            ("https://a.test", "https://open.test"),
        ),
        (
            replace(app("a"), auth=Cookie(login_url="https://in.test/", required_cookies=("s",), domain="a.test")),
            ("https://a.test", "https://in.test"),
        ),
        (replace(app("a"), execution=Http(base_url="https://A.TEST:443/v1")), ("https://a.test",)),
        (replace(app("a"), execution=Http(base_url="https://[::1]:8/v1")), ("https://[::1]:8",)),
        # Cyrillic letters that look like Latin ones, and an address that leads nowhere: seen for what they are.
        (replace(app("a"), execution=Http(base_url="https://аррӏе.test/v1")), ("https://xn--80ak6aa92e.test",)),  # noqa: RUF001
        (replace(app("a"), execution=Http(base_url="https://a.test:99999/v1")), ("https://a.test:99999/v1",)),
    ],
)
def test_every_host_that_is_called_is_one_the_user_sees(owner: App, expected: tuple[str, ...]) -> None:
    """The site, the API, and where the sign-in goes; one spelling each."""
    assert places(owner) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, Differences()),
        ({"issuers": {"shop.test": "Other CA"}}, Differences(issuers=(("shop.test", "Good CA", "Other CA"),))),
        ({"issuers": {"shop.test": "Good CA", "api.shop.test": "Any CA"}}, Differences()),
        ({"issuers": {"shop.test": "Good CA", "evil.test": "Good CA"}}, Differences(hosts=("evil.test",))),
        ({"issuers": {"notshop.test": "Good CA"}}, Differences(hosts=("notshop.test",))),
        ({"issuers": {"shop.test:8443": "Good CA"}}, Differences(hosts=("shop.test:8443",))),
        ({"scopes": ("read", "write")}, Differences(scopes=("write",))),
        ({"scopes": ()}, Differences()),
        ({"tools": {"buy": "1", "sell": "2", "steal": "3"}}, Differences(added=("steal",))),
        ({"tools": {"buy": "1"}}, Differences(removed=("sell",))),
        ({"tools": {"buy": "9", "sell": "2"}}, Differences(changed=("buy",))),
    ],
)
def test_what_was_confirmed_is_compared_part_by_part(change: Mapping[str, Any], expected: Differences) -> None:
    """A host below a confirmed one is its own; everything else that is new is news."""
    assert differences(NOW, replace(NOW, **change)) == expected


class Shop:
    """A web app, and a user."""

    def __init__(self, fetch: Fetch, *choices: object) -> None:
        self.hand, self.vault, self.clock = Hand(*choices), MemoryVault(), HandClock()
        self.fetch = fetch
        self.consent = self.process()

    def process(self) -> UsersConsent:
        """Start a gateway's consent anew, with the same user and the same vault."""
        questions: Questions[Decision] = Questions(self.hand, patience_s=0.05)
        contacts = Contacts(lambda: self.fetch, self.clock, CACHES)
        return UsersConsent(
            Records(self.vault, self.clock, caches=CACHES), contacts, questions, self.clock, caches=CACHES
        )

    async def buy(self, owner: App, tool: str = "buy") -> str:
        """Call a tool; return `allowed`, or why not."""
        try:
            await self.consent.require(call_of(owner, tool=tool), Told())
        except ConsentRequired as refusal:
            return str(refusal.details["decision"])
        return "allowed"


def shop(url: str, *tools: str, **changes: Any) -> App:
    """Return the app of a site."""
    execution = Http(base_url=url)
    built = app("com.shop.api", *(tools or ("buy",)))
    bound = tuple(replace(tool, binding=replace(tool.binding, execution=execution)) for tool in built.capabilities)
    return replace(built, origin=url, execution=execution, capabilities=bound, **changes)


def test_the_first_contact_shows_domain_and_certificate(web: Web) -> None:
    """With who issued it and for how long, the scopes, and the tools; the second call asks nothing."""

    async def story() -> None:
        async with web.site({"/": reply(200, b"")}) as site, web.fetch() as fetch:
            there = Shop(fetch, "tool")
            owner = shop(site.url(""), "buy", "sell")
            assert await there.buy(owner) == "allowed"
            assert await there.buy(owner) == "allowed"

            assert len(there.hand.forms) == 1
            form = there.hand.forms[0]
            told = {line.label: line.text for line in form.lines}
            assert told["Domain"] == f"shop.test:{site.port}"
            assert told["Certificate"].startswith("Valid, issued by ")
            assert told["All operations"] == "buy, sell"
            assert any("First contact" in warning for warning in form.warnings)

    asyncio.run(story())


def test_a_later_look_asks_only_for_what_is_new(web: Web) -> None:
    """Another tool in the descriptor, and the user is asked, for a tool that they had allowed too."""

    async def story() -> None:
        async with web.site({"/": reply(200, b"")}) as site, web.fetch() as fetch:
            there = Shop(fetch, "tool", "tool")
            assert await there.buy(shop(site.url(""), "buy")) == "allowed"
            there.consent = there.process()
            assert await there.buy(shop(site.url(""), "buy")) == "allowed"
            assert len(there.hand.forms) == 1
            assert await there.buy(shop(site.url(""), "buy", "steal")) == "allowed"
            assert await there.buy(shop(site.url(""), "buy", "steal")) == "allowed"

            assert len(there.hand.forms) == 2
            assert "New operations: steal." in there.hand.forms[1].warnings

    asyncio.run(story())


def test_a_registry_that_is_down_keeps_nobody_from_what_the_user_has_confirmed(web: Web) -> None:
    """It only described the app. At the first contact it has to be there, and so has every host that is called."""

    async def story() -> None:
        pages = {"/": reply(200, b"")}
        async with web.site(pages) as site, web.fetch() as fetch:
            there = Shop(fetch, "tool")
            async with web.site(pages) as registry:
                listed = replace(shop(site.url("")), origin=registry.url("", host="other.test"))
                assert await there.buy(listed) == "allowed"
            there.consent = there.process()
            assert await there.buy(listed) == "allowed"
            assert len(there.hand.forms) == 1
            with pytest.raises(ServiceUnavailable, match=r"other\.test"):
                await there.buy(replace(listed, id="com.shop.another"))

            # Somebody is there, and cannot show that it is the registry: that is not silence.
            wrong = replace(listed, origin=f"https://wrong.test:{site.port}")
            record = Confirmed(at=1, issuers={f"wrong.test:{site.port}": "Good CA"}, scopes=(), tools={})
            with pytest.raises(ServiceUnavailable, match="certificate was not accepted"):
                await Contacts(lambda: fetch, there.clock, CACHES).look(wrong, record.issuers)
        there.consent = there.process()
        async with web.fetch() as fetch:
            there.fetch = fetch
            with pytest.raises(ServiceUnavailable, match=r"shop\.test"):
                await there.buy(listed)

    asyncio.run(story())


def test_once_is_for_the_app_that_the_user_saw(web: Web) -> None:
    """Before the call comes again, the app asks for more: the user is asked about that before any sign-in."""

    async def story() -> None:
        async with web.site({"/": reply(200, b"")}) as site, web.fetch() as fetch:
            there = Shop(fetch, "once", "once")
            there_at = replace(SIGN_IN, authorization_endpoint=site.url("/a"), token_endpoint=site.url("/t"))
            more = replace(there_at, scopes=("orders:read", "orders:write"))
            assert await there.buy(shop(site.url(""), auth=there_at)) == "allowed"
            assert await there.buy(shop(site.url(""), auth=there_at)) == "allowed"
            assert len(there.hand.forms) == 1

            assert await there.buy(shop(site.url(""), auth=more)) == "allowed"
            assert any("orders:write" in warning for warning in there.hand.forms[1].warnings)

    asyncio.run(story())


def test_what_is_not_encrypted_is_shown_to_be_here_only_where_it_is(web: Web) -> None:
    """A site elsewhere over plain http ends the call before anything is asked, for developers too."""

    async def story() -> None:
        async with web.fetch(Names(shop_test=[["93.184.215.14"]]), loopback=True) as fetch:
            there = Shop(fetch, "tool")
            with pytest.raises(RefusedAddress):
                await there.buy(shop("http://shop.test"))

            assert there.hand.forms == []

    asyncio.run(story())


def test_another_issuer_is_asked_about(web: Web) -> None:
    """The certificate is valid; but it is not from whom it was."""

    async def story() -> None:
        async with web.site({"/": reply(200, b"")}) as site, web.fetch() as fetch:
            there = Shop(fetch, "tool", None)
            owner = shop(site.url(""))
            assert await there.buy(owner) == "allowed"
            name = next(iter(there.vault.texts))
            before = there.vault.texts[name]
            issuer = next(line.text for line in there.hand.forms[0].lines if line.label == "Certificate")
            who = issuer.removeprefix("Valid, issued by ").partition(",")[0].partition(" to ")[0]
            there.vault.change(name, lambda _: before.replace(f'"{who}"', '"Somebody Else"'))
            there.consent = there.process()

            assert await there.buy(owner) == "closed"
            told = f"issued by Somebody Else, and is now issued by {who}"
            assert any(told in text for text in there.hand.forms[1].warnings)

    asyncio.run(story())


def test_a_certificate_that_nobody_trusts_ends_the_call(web: Web) -> None:
    """Before anybody is asked."""

    async def story() -> None:
        async with web.site({"/": reply(200, b"")}) as site:
            fetch = Fetch(permitted=this_machine_too, resolve=Names())
            there = Shop(fetch, "tool")
            with pytest.raises(ServiceUnavailable, match="certificate was not accepted"):
                await there.consent.require(call_of(shop(site.url(""))), Told())
            await fetch.close()

            assert there.hand.forms == []

    asyncio.run(story())
