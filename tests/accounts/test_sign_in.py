"""Which secret a call gets: keys, app credentials and cookies, what is asked, where it goes, and when it does not."""

# ruff: noqa: S105, S106 - nobody's secrets

import asyncio
import json
import subprocess
import sys
import timeit
from collections.abc import Mapping

import msgspec
import pytest
from msgspec.structs import replace
from tests.accounts.sign_in_ground import Trust, app_of, call_of, ground
from tests.builders import agent
from tests.net.web import Asked, Reply, Site, Web, redirect, reply

from switchboard.accounts.sign_in_forms import credential_form, read_values
from switchboard.actions.ports import Call, Secret
from switchboard.catalog.bindings import (
    ApiKey,
    AppCredential,
    Auth,
    Cookie,
    McpHttp,
    Stdio,
)
from switchboard.catalog.caches import USUAL
from switchboard.catalog.errors import (
    AuthDenied,
    AuthInvalid,
    AuthRequired,
    ConsentRequired,
    ServiceUnavailable,
    SwitchboardError,
    VaultUnavailable,
)
from switchboard.catalog.model import App, Caller, Names
from switchboard.prompts import forms

SECRET = "k3y-of-the-user"
KEY = ApiKey(
    location="header",
    name="Authorization",
    prefix="Bearer",
    obtain_url="https://app.test/keys",
    instructions="Click\u202e here\nand copy.",
)
COOKIE = Cookie(login_url="https://app.test/login", required_cookies=("sid", "csrf"), domain="app.test")
CREDENTIAL = AppCredential(token_endpoint="https://api.app.test/token")
OK = forms.Reply("ok", {"key": SECRET})
NAME = "secret https://app.test com.example.notes"


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Trust:
    return Trust(tmp_path_factory.mktemp("trust"))


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Web:
    return Web(tmp_path_factory.mktemp("web"))


def shown(error: SwitchboardError) -> str:
    return f"{error!r} {error.message} {error.details} {error.__cause__!r} {error.__context__!r}"


@pytest.mark.parametrize(
    ("auth", "values", "expected"),
    [
        (KEY, {"key": f"  {SECRET}\n"}, Secret(headers=(("Authorization", f"Bearer {SECRET}"),))),
        (ApiKey(location="header", name="X-Key"), {"key": SECRET}, Secret(headers=(("X-Key", SECRET),))),
        (
            ApiKey(location="header", name="X-Key", prefix=""),
            {"key": SECRET},
            Secret(headers=(("X-Key", SECRET),)),
        ),
        (ApiKey(location="query", name="key"), {"key": SECRET}, Secret(query=(("key", SECRET),))),
        (ApiKey(location="query", name="key"), {"key": "schlüssel"}, Secret(query=(("key", "schlüssel"),))),
        (COOKIE, {"sid": "1", "csrf": "2"}, Secret(headers=(("Cookie", "sid=1; csrf=2"),))),
        (COOKIE, {"sid": "sid=1", "csrf": "a=="}, Secret(headers=(("Cookie", "sid=1; csrf=a=="),))),
        (
            COOKIE,
            {"sid": "Cookie: tracking=9; csrf=2; sid=1", "csrf": ""},
            Secret(headers=(("Cookie", "sid=1; csrf=2"),)),
        ),
    ],
)
def test_what_the_user_typed_opens_the_app(
    trust: Trust, auth: Auth, values: Mapping[str, str], expected: Secret
) -> None:
    """Once; after that it comes from memory, and in another gateway from the vault."""

    async def story() -> None:
        async with ground(trust) as world:
            sign_in = world.sign_in()
            world.hand.replies = [forms.Reply("ok", values)]

            assert await sign_in.secret_for(call_of(app_of(auth)), world.client) == expected
            assert await sign_in.secret_for(call_of(app_of(auth)), world.client) == expected
            assert await world.sign_in().secret_for(call_of(app_of(auth)), world.client) == expected
            assert len(world.hand.forms) == 1
            assert "tracking" not in world.memory.texts[NAME]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("auth", "values"),
    [
        (KEY, {}),
        (KEY, {"key": "   "}),
        (KEY, {"key": f"{SECRET}\r\nX-Evil: 1"}),
        (KEY, {"key": f"{SECRET}\x00"}),
        (KEY, {"key": "schlüssel"}),
        (KEY, {"key": SECRET * 1000}),
        (ApiKey(location="query", name="key"), {"key": f"{SECRET}\n{SECRET}"}),
        (COOKIE, {"sid": SECRET, "csrf": ""}),
        (COOKIE, {"sid": SECRET, "csrf": f"1; admin={SECRET}"}),
        (CREDENTIAL, {"app_id": "a", "app_secret": ""}),
        (CREDENTIAL, {"app_id": "a", "app_secret": f"{SECRET}\x1b"}),
    ],
)
def test_what_cannot_be_sent_is_not_kept(trust: Trust, auth: Auth, values: Mapping[str, str]) -> None:
    """And the message says which field it is, never what was in it; the next call asks again."""

    async def story() -> None:
        async with ground(trust) as world:
            world.hand.replies = [forms.Reply("ok", values)]
            with pytest.raises(AuthInvalid) as error:
                await world.sign_in().secret_for(call_of(app_of(auth)), world.client)

            assert SECRET not in shown(error.value)
            assert world.memory.texts == {}

    asyncio.run(story())


def test_the_form_says_where_to_get_it_and_where_it_goes() -> None:
    """The app's words are cleaned and marked; the careful choices come first, and OK needs something to send."""
    form = credential_form(app_of(KEY), KEY, ("https://api.app.test:443",), "en")

    assert form.title == "Notes sign-in"
    assert [(line.text, line.theirs) for line in form.lines] == [
        ("api.app.test", False),
        ("https://app.test/keys", True),
        ("Click here and copy.", True),
    ]
    assert [(choice.id, choice.needs_fields) for choice in form.choices] == [
        ("help", False),
        ("cancel", False),
        ("ok", True),
    ]
    assert [(field.name, field.secret) for field in form.fields] == [("key", True)]


def test_the_form_speaks_chinese() -> None:
    form = credential_form(app_of(CREDENTIAL), CREDENTIAL, ("https://api.app.test:443",), "zh-CN")

    assert (form.title, form.language) == ("笔记 登录", "zh")
    assert [choice.label for choice in form.choices] == ["帮助", "取消", "确定"]
    assert [(field.name, field.secret) for field in form.fields] == [("app_id", False), ("app_secret", True)]


def test_a_name_full_of_tricks_is_only_a_name() -> None:
    app = replace(app_of(KEY), names=Names((("en", "No\u202etes\n{0.__class__}" + "x" * 500),), "en"))

    form = credential_form(app, KEY, (), "en")

    assert form.title.startswith("Notes {0.__class__}xxx")
    assert len(form.title) < 130


def test_help_tells_the_model_how_to_explain_it(trust: Trust) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            world.locale = "zh-TW"
            world.hand.replies = [forms.Reply("help")]
            with pytest.raises(AuthRequired) as error:
                await world.sign_in().secret_for(call_of(app_of(KEY)), world.client)

            assert error.value.details == {
                "app_id": "com.example.notes",
                "app_name": "笔记",
                "auth_type": "apiKey",
                "instructions": "Click here and copy.",
                "preferred_locale": "zh-TW",
                "obtain_url": "https://app.test/keys",
            }

    asyncio.run(story())


def test_cancelling_is_a_no_that_is_not_remembered(trust: Trust) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            world.hand.replies = [forms.Reply("cancel"), OK]
            sign_in = world.sign_in()
            with pytest.raises(AuthDenied):
                await sign_in.secret_for(call_of(app_of(KEY)), world.client)

            assert await sign_in.secret_for(call_of(app_of(KEY)), world.client) is not None

    asyncio.run(story())


def test_a_form_that_nobody_answers_stays_open(trust: Trust) -> None:
    """AUTH_REQUIRED says so, with the address where it is a page; the next call picks the answer up."""

    async def story() -> None:
        async with ground(trust) as world:
            sign_in = world.sign_in(patience_s=0.4)
            world.hand.address = "http://127.0.0.1:1/form"
            with pytest.raises(AuthRequired) as error:
                await sign_in.secret_for(call_of(app_of(KEY)), world.client)
            world.hand.open[0].set_result(OK)

            assert error.value.details["auth_url"] == "http://127.0.0.1:1/form"
            assert error.value.details["pending"] is True
            assert await sign_in.secret_for(call_of(app_of(KEY)), world.client) is not None
            assert len(world.hand.forms) == 1

    asyncio.run(story())


def test_a_closed_form_and_nobody_to_ask_are_no_denial(trust: Trust) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            sign_in = world.sign_in()
            world.hand.replies = [None]
            with pytest.raises(AuthRequired, match="closed"):
                await sign_in.secret_for(call_of(app_of(KEY)), world.client)
            world.hand.is_there = False
            with pytest.raises(AuthRequired, match="switchboard auth login"):
                await sign_in.secret_for(call_of(app_of(KEY)), world.client)

    asyncio.run(story())


def test_nobody_types_what_cannot_be_kept(trust: Trust) -> None:
    """Neither where the vault does not open nor where it only reads."""

    async def story() -> None:
        async with ground(trust) as world:
            world.memory.locked = "Unlock the keychain."
            with pytest.raises(VaultUnavailable, match="Unlock"):
                await world.sign_in().secret_for(call_of(app_of(KEY)), world.client)
            world.memory.locked, world.memory.read_only = None, True
            with pytest.raises(VaultUnavailable, match="Nothing can be kept"):
                await world.sign_in().secret_for(call_of(app_of(KEY)), world.client)

            assert world.hand.forms == []

    asyncio.run(story())


@pytest.mark.parametrize("auth", [KEY, COOKIE])
def test_a_secret_that_the_app_refuses_is_asked_for_again(trust: Trust, auth: Auth) -> None:
    """AUTH_INVALID says what to do; another gateway asks again too."""

    async def story() -> None:
        async with ground(trust) as world:
            sign_in, call = world.sign_in(), call_of(app_of(auth))
            values = {"key": SECRET, "sid": "1", "csrf": "2"}
            world.hand.replies = [forms.Reply("ok", values), forms.Reply("ok", dict.fromkeys(values, "new"))]
            first = await sign_in.secret_for(call, world.client)
            assert first is not None
            with pytest.raises(AuthInvalid) as error:
                await sign_in.renewed(call, first)
            second = await world.sign_in().secret_for(call, world.client)

            assert SECRET not in shown(error.value)
            assert second not in (None, first)
            assert await sign_in.renewed(call, first) == second

    asyncio.run(story())


def test_what_needs_no_sign_in_gets_nothing(trust: Trust) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            helper = agent("helper", {"think": []})
            think = Call(id="1", caller=Caller(), owner=helper, capability=helper.capabilities[0], arguments={})

            assert await world.sign_in().secret_for(call_of(app_of(None)), world.client) is None
            assert await world.sign_in().secret_for(think, world.client) is None
            assert await world.sign_in().renewed(think, Secret()) is None

    asyncio.run(story())


@pytest.mark.parametrize(
    "call",
    [
        call_of(app_of(KEY, origin="")),
        call_of(app_of(KEY), Stdio(command="notes")),
        call_of(app_of(KEY), McpHttp(transport="sse", url="https://app.test")),
        call_of(app_of(replace(COOKIE, domain="bank.test"))),
        call_of(app_of(replace(COOKIE, domain="app.test"), base_url="https://evilapp.test")),
        call_of(app_of(replace(COOKIE, domain=""))),
    ],
    ids=["no origin", "a program", "mcp", "cookies of another", "cookies of a namesake", "cookies of nobody"],
)
def test_secrets_go_to_the_apps_own_web_address_only(trust: Trust, call: Call) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            world.hand.replies = [OK]
            with pytest.raises(AuthDenied):
                await world.sign_in().secret_for(call, world.client)
            with pytest.raises(AuthDenied):
                await world.sign_in().renewed(call, Secret())

            assert world.hand.forms == []

    asyncio.run(story())


@pytest.mark.parametrize(
    "changed",
    [
        app_of(KEY, origin="https://evil.test"),
        app_of(KEY, base_url="https://evil.test"),
        app_of(KEY, base_url="http://api.app.test"),
        app_of(KEY, base_url="https://api.app.test:8443"),
        app_of(COOKIE),
        replace(app_of(KEY), id="com.example.other"),
    ],
    ids=["another site", "another address", "plain http", "another port", "another way", "another app"],
)
def test_a_key_opens_nothing_but_what_it_was_entered_for(trust: Trust, changed: App) -> None:
    """A stolen app id, a changed address: the user is asked, and the key stays where it is."""

    async def story() -> None:
        async with ground(trust) as world:
            sign_in = world.sign_in()
            world.hand.replies = [OK, forms.Reply("cancel")]
            before = await sign_in.secret_for(call_of(app_of(KEY)), world.client)
            with pytest.raises(AuthDenied):
                await sign_in.secret_for(call_of(changed), world.client)

            assert len(world.hand.forms) == 2
            assert await sign_in.secret_for(call_of(app_of(KEY)), world.client) == before

    asyncio.run(story())


def test_nothing_is_asked_or_given_out_before_the_app_is_trusted(trust: Trust) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            sign_in, call = world.sign_in(), call_of(app_of(KEY))

            def refuse(app: App) -> None:
                raise ConsentRequired(f"{app.id} was never confirmed.")

            world.hand.replies = [OK]
            world.trusted = refuse
            with pytest.raises(ConsentRequired):
                await sign_in.secret_for(call, world.client)
            assert world.hand.forms == []

            world.trusted = lambda _: None
            secret = await sign_in.secret_for(call, world.client)
            assert secret is not None
            world.trusted = refuse
            with pytest.raises(ConsentRequired):
                await sign_in.secret_for(call, world.client)
            with pytest.raises(ConsentRequired):
                await sign_in.renewed(call, secret)

    asyncio.run(story())


def test_a_kept_secret_is_found_without_the_vault(trust: Trust) -> None:
    """Far below the millisecond that a call may cost: measured by what is read, printed for people."""

    async def story() -> None:
        async with ground(trust) as world:
            sign_in, call = world.sign_in(caches=USUAL), call_of(app_of(KEY))
            world.hand.replies = [OK]
            await sign_in.secret_for(call, world.client)
            await sign_in.secret_for(call, world.client)
            reads = world.memory.reads
            begun = timeit.default_timer()
            for _ in range(1000):
                await sign_in.secret_for(call, world.client)
            print(f"{(timeit.default_timer() - begun) * 1000:.1f} µs")  # noqa: T201

            assert world.memory.reads == reads

    asyncio.run(story())


def counting(*answers: Mapping[str, object]) -> Reply:
    """Answer one after the other; the last stays."""
    left = list(answers)

    async def answer(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        document = left.pop(0) if len(left) > 1 else left[0]
        await reply(200, msgspec.json.encode(document), "Content-Type: application/json")(asked, reader, writer)

    return answer


def feishu(site: Site) -> Call:
    auth = AppCredential(token_endpoint=site.url("/token"), instructions="From the console.")
    return call_of(app_of(auth, base_url=site.url("")))


CREDENTIALS = forms.Reply("ok", {"app_id": "cli_1", "app_secret": SECRET})


def test_an_app_id_and_secret_become_a_token_that_is_renewed(trust: Trust, web: Web) -> None:
    """Snake case in the body; a new token before the old one ends, for twenty calls once."""

    async def story() -> None:
        tokens = [{"code": 0, "tenant_access_token": f"t-{turn}", "expire": 7200} for turn in range(3)]
        async with ground(trust) as world, web.site({"/token": counting(*tokens)}) as site, web.fetch() as fetch:
            world.fetch = fetch
            sign_in, call = world.sign_in(), feishu(site)
            world.hand.replies = [CREDENTIALS]
            first = await sign_in.secret_for(call, world.client)
            again = await sign_in.secret_for(call, world.client)
            world.time.later = 7141.0
            found = await asyncio.gather(*(sign_in.secret_for(call, world.client) for _ in range(20)))

            assert first == again == Secret(headers=(("Authorization", "Bearer t-0"),))
            assert set(found) == {Secret(headers=(("Authorization", "Bearer t-1"),))}
            assert json.loads(site.asked[0].body) == {"app_id": "cli_1", "app_secret": SECRET}
            assert len(site.asked) == 2
            assert len(world.hand.forms) == 1

    asyncio.run(story())


def test_a_refused_app_secret_is_asked_for_again(trust: Trust, web: Web) -> None:
    """`code` that is not 0, at status 200, with the secret in its words."""

    async def story() -> None:
        answers = [{"code": 10014, "msg": f"bad secret {SECRET}"}, {"tenantAccessToken": "t", "expire": 60}]
        async with ground(trust) as world, web.site({"/token": counting(*answers)}) as site, web.fetch() as fetch:
            world.fetch = fetch
            sign_in, call = world.sign_in(), feishu(site)
            world.hand.replies = [CREDENTIALS, CREDENTIALS]
            with pytest.raises(AuthInvalid) as error:
                await sign_in.secret_for(call, world.client)

            assert SECRET not in shown(error.value)
            assert "bad secret [secret]" in error.value.message
            assert await sign_in.secret_for(call, world.client) is not None
            assert len(world.hand.forms) == 2

    asyncio.run(story())


def test_a_server_in_trouble_does_not_cost_the_app_secret(trust: Trust, web: Web) -> None:
    """What the user typed is kept; the next call exchanges it. Nor does it follow to another address."""

    async def story() -> None:
        async with (
            ground(trust) as world,
            web.site({"/token": reply(200, b"{}")}) as other,
            web.site({"/token": reply(503)}) as site,
            web.fetch() as fetch,
        ):
            world.fetch = fetch
            sign_in, call = world.sign_in(), feishu(site)
            world.hand.replies = [CREDENTIALS]
            with pytest.raises(ServiceUnavailable):
                await sign_in.secret_for(call, world.client)
            site.pages["/token"] = redirect(other.url("/token", "other.test"), 307)
            with pytest.raises(ServiceUnavailable):
                await sign_in.secret_for(call, world.client)
            site.pages["/token"] = counting({"app_access_token": "t"})

            assert await sign_in.secret_for(call, world.client) is not None
            assert other.asked == []
            assert len(world.hand.forms) == 1

    asyncio.run(story())


def test_a_refused_app_token_is_exchanged_anew(trust: Trust, web: Web) -> None:
    """Once; where the server gives the same one again there is nothing new, and it is not given out as such."""

    async def story() -> None:
        tokens = [{"tenant_access_token": name} for name in ("t-0", "t-1", "t-1", "t-1")]
        async with ground(trust) as world, web.site({"/token": counting(*tokens)}) as site, web.fetch() as fetch:
            world.fetch = fetch
            sign_in, call = world.sign_in(), feishu(site)
            world.hand.replies = [CREDENTIALS]
            first = await sign_in.secret_for(call, world.client)
            assert first is not None
            second = await sign_in.renewed(call, first)
            assert second == Secret(headers=(("Authorization", "Bearer t-1"),))

            assert second is not None
            assert await sign_in.renewed(call, first) == second
            assert await sign_in.renewed(call, second) is None

    asyncio.run(story())


@pytest.mark.parametrize("auth", [KEY, COOKIE, CREDENTIAL])
def test_the_values_of_a_form_are_what_its_fields_ask_for(auth: ApiKey | Cookie | AppCredential) -> None:
    fields = credential_form(app_of(auth), auth, (), "en").fields

    assert list(read_values(auth, {field.name: "x" for field in fields})) == [field.name for field in fields]


def test_nothing_heavy_is_imported_for_a_key() -> None:
    """Authlib costs a quarter of a second, which only a sign-in in the browser pays."""
    heavy = "'authlib', 'httpx2', 'uvicorn', 'cryptography', 'keyring'"
    code = f"import sys, switchboard.accounts.sign_in; print([m for m in ({heavy}) if m in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)  # noqa: S603

    assert printed.stdout.strip() == "[]"
