"""Signing in and out from a terminal, against a real server: the browser, pasting back, another device, revocation."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator

import pytest
from tests.accounts.provider import PASSWORD, Provider, secrets_in
from tests.accounts.sign_in_ground import CLIENT_ID, Ground, Trust, app_of, call_of, ground, oauth, redirect_of
from tests.caching import CACHES
from tests.net.web import Names as Lookup
from tests.net.web import this_machine_too

from switchboard.accounts.authorities import Authorities
from switchboard.accounts.logins import Logins, Terminal
from switchboard.catalog.bindings import ApiKey, Cookie
from switchboard.catalog.errors import (
    AuthDenied,
    AuthInvalid,
    ConsentRequired,
    NotSupported,
    VaultUnavailable,
)
from switchboard.catalog.model import App
from switchboard.net.fetch import Fetch

NAME = "secret https://app.test com.example.notes"
KEY = ApiKey(location="header", name="X-Key", obtain_url="https://app.test/keys")


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Trust:
    return Trust(tmp_path_factory.mktemp("trust"))


@pytest.fixture
def provider(trust: Trust) -> Generator[Provider]:
    with trust.provider() as server:
        server.know(CLIENT_ID)
        yield server


class Person(Terminal):
    """Types what it is told to, line after line, and then nothing more."""

    def __init__(self, *lines: str, leaves: bool = False) -> None:
        self.lines = list(lines)
        self.leaves = leaves
        self.told: list[str] = []
        self.asked: list[tuple[str, bool]] = []
        self.heard = asyncio.Event()

    def tell(self, message: str) -> None:
        """Read it."""
        self.told.append(message)
        self.heard.set()

    async def ask(self, label: str, *, secret: bool) -> str:
        """Type the next line."""
        self.asked.append((label, secret))
        if self.lines:
            return self.lines.pop(0)
        if self.leaves:
            raise EOFError
        return await asyncio.get_running_loop().create_future()

    async def address(self) -> str:
        """Wait until there is an address to go to."""
        async with asyncio.timeout(20):
            while True:
                found = [line for line in self.told if line.startswith("https://localhost")]
                if found:
                    return found[0]
                self.heard.clear()
                await self.heard.wait()


def logins(world: Ground, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> Logins:
    return Logins(
        pause=pause,
        vault=world.vault,
        fetch=lambda: world.fetch,
        open_page=world.browser.open,
        trusted=lambda app: world.trusted(app),  # noqa: PLW0108 - a test changes it later
        clock=world.time,
        locale=world.locale,
        environment=world.environment,
        caches=CACHES,
    )


def user_code(provider: Provider) -> str:
    return str(next(iter(provider.devices.values()))["user_code"])


def notes(provider: Provider) -> App:
    return app_of(oauth(provider), base_url=f"{provider.url}/api")


def test_the_browser_opens_and_comes_back(trust: Trust, provider: Provider) -> None:
    """The address is told all the same; the gateway then finds the account."""

    async def story() -> None:
        async with ground(trust) as world:
            person = Person()
            await logins(world).login(notes(provider), person)
            listed = await logins(world).all()

            assert world.browser.opened == [await person.address()]
            assert [(item.origin, item.app, item.kind, item.scopes) for item in listed] == [
                ("https://app.test", "com.example.notes", "oauth2", ("read", "write"))
            ]
            assert await world.sign_in().secret_for(call_of(notes(provider)), world.client) is not None
            assert not secrets_in(f"{listed} {person.told} {person.asked}", provider)

    asyncio.run(story())


@pytest.mark.parametrize("pasted", ["the address", "the code", "code and state"])
def test_what_the_browser_ended_at_can_be_pasted(trust: Trust, provider: Provider, pasted: str) -> None:
    """For a browser on another machine, where 127.0.0.1 is somebody else; what is typed is not shown."""

    async def story() -> None:
        async with ground(trust) as world:
            address, flow = await logins(world).begin(notes(provider))
            location = await world.browser.decide(address)
            query = dict(part.split("=", 1) for part in location.partition("?")[2].split("&"))
            texts = {
                "the address": location,
                "the code": query["code"],
                "code and state": f"{query['code']}#{query['state']}",
            }
            account = await flow.finish_pasted(texts[pasted])
            await flow.close()

            assert provider.living(account.access_token)
            assert NAME in world.memory.texts

    asyncio.run(story())


def test_something_else_that_is_pasted_may_be_pasted_again(trust: Trust, provider: Provider) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            person = Person("http://127.0.0.1:1/callback?code=forged&state=wrong")
            login = asyncio.create_task(logins(world).login(notes(provider), person, browser=False))
            address = await person.address()
            assert redirect_of(address)
            async with asyncio.timeout(20):
                while len(person.asked) < 2:  # noqa: ASYNC110 - the second question tells nobody
                    await asyncio.sleep(0.01)
            await world.browser.sign_in(address)
            await asyncio.wait_for(login, 20)

            assert world.browser.opened == []
            assert all(secret for _, secret in person.asked)
            assert any("not the answer" in line for line in person.told)
            assert provider.count("/token", code="forged") == 0

    asyncio.run(story())


def test_where_nobody_can_paste_the_browser_is_waited_for(trust: Trust, provider: Provider) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            await logins(world).login(notes(provider), Person(leaves=True))

            assert NAME in world.memory.texts

    asyncio.run(story())


def test_another_device_signs_in_with_a_short_code(trust: Trust, provider: Provider) -> None:
    """RFC 8628, with `slow_down` on the way; nothing listens and no browser opens here."""

    async def story() -> None:
        async with ground(trust) as world:
            pauses: list[float] = []

            async def pause(seconds: float) -> None:
                pauses.append(seconds)
                if len(pauses) == 3:
                    code = user_code(provider)
                    form = {"user_code": code, "password": PASSWORD, "decision": "allow"}
                    assert (await world.browser.visit(f"{provider.url}/device", form)).status == 200

            provider.knobs.slow_downs = 1
            commands = logins(world, pause)
            person = Person()
            await commands.login(notes(provider), person, device=True)

            code = user_code(provider)
            assert person.told[1:] == [f"{provider.url}/device?user_code={code}", code]
            assert pauses == [1, 6, 6]
            assert provider.living(json.loads(world.memory.texts[NAME])["access_token"])
            assert world.browser.opened == []

    asyncio.run(story())


def test_a_no_on_the_other_device_is_a_no(trust: Trust, provider: Provider) -> None:
    async def story() -> None:
        async with ground(trust) as world:

            async def pause(_: float) -> None:
                provider.device_answers[user_code(provider)] = False

            with pytest.raises(AuthDenied) as error:
                await logins(world, pause).login(notes(provider), Person(), device=True)

            assert error.value.details["error"] == "access_denied"
            assert NAME not in world.memory.texts

    asyncio.run(story())


def test_a_server_without_devices_says_so(trust: Trust, provider: Provider) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            provider.knobs.metadata = {"device_authorization_endpoint": None}
            with pytest.raises(NotSupported):
                await logins(world).login(notes(provider), Person(), device=True)

    asyncio.run(story())


def test_signing_out_takes_the_tokens_back(trust: Trust, provider: Provider) -> None:
    """RFC 7009: the server ends them, and nothing is left here."""

    async def story() -> None:
        async with ground(trust) as world:
            app = notes(provider)
            await logins(world).login(app, Person())
            token = provider.tokens[0].access_token
            assert provider.living(token)

            assert await logins(world).logout(app.origin, app.id, app) == (True, True)
            assert not provider.living(token)
            assert world.memory.texts == {}
            assert await logins(world).logout(app.origin, app.id, app) == (False, False)

    asyncio.run(story())


@pytest.mark.parametrize("trouble", ["no revocation", "down", "elsewhere", "unknown app"])
def test_signing_out_forgets_whatever_the_server_says(trust: Trust, provider: Provider, trouble: str) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            app = notes(provider)
            await logins(world).login(app, Person())
            known: App | None = app
            match trouble:
                case "no revocation":
                    provider.knobs.metadata = {"revocation_endpoint": None}
                case "down":
                    provider.knobs.trouble["/revoke"] = (503, "down")
                case "elsewhere":
                    provider.knobs.metadata = {"revocation_endpoint": "https://other.test/revoke"}
                case _:
                    known = None

            assert await logins(world).logout(app.origin, app.id, known) == (True, False)
            assert world.memory.texts == {}

    asyncio.run(story())


def test_tokens_are_not_taken_back_at_another_server(trust: Trust, provider: Provider) -> None:
    """A descriptor that names other endpoints by now gets nothing of what the user signed in with."""

    async def story() -> None:
        with trust.provider() as other:
            async with ground(trust) as world:
                app = notes(provider)
                await logins(world).login(app, Person())

                assert await logins(world).logout(app.origin, app.id, notes(other)) == (True, False)
                assert other.asked == []
                assert world.memory.texts == {}

    asyncio.run(story())


def test_a_key_is_typed_without_being_shown(trust: Trust) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            person = Person("k3y-of-the-user")
            await logins(world).login(app_of(KEY), person)

            assert person.asked == [("Key", True)]
            assert any("“https://app.test/keys”" in line for line in person.told)
            assert "k3y-of-the-user" not in repr(await logins(world).all())
            assert await world.sign_in().secret_for(call_of(app_of(KEY)), world.client) is not None

    asyncio.run(story())


def test_a_person_who_leaves_or_types_nonsense_is_not_signed_in(trust: Trust) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            with pytest.raises(AuthDenied):
                await logins(world).login(app_of(KEY), Person(leaves=True))
            with pytest.raises(AuthInvalid):
                await logins(world).login(app_of(KEY), Person("a\x00b"))

            assert world.memory.texts == {}

    asyncio.run(story())


def test_nothing_is_asked_that_may_not_be(trust: Trust, provider: Provider) -> None:
    """An app without a sign-in, one that is not trusted, one whose secrets would go astray, and a locked vault."""

    async def story() -> None:
        async with ground(trust) as world:
            person, commands = Person("x"), logins(world)
            with pytest.raises(NotSupported):
                await commands.login(app_of(None), person)
            with pytest.raises(NotSupported):
                await commands.begin(app_of(KEY))
            cookie = Cookie(login_url="https://bank.test", required_cookies=("sid",), domain="bank.test")
            with pytest.raises(AuthDenied):
                await commands.login(app_of(cookie), person)

            def refuse(app: App) -> None:
                raise ConsentRequired(app.id)

            world.trusted = refuse
            with pytest.raises(ConsentRequired):
                await commands.login(app_of(KEY), person)
            world.trusted = lambda _: None
            world.memory.locked = "Unlock it."
            for attempt in (commands.login(app_of(KEY), person), commands.login(notes(provider), person)):
                with pytest.raises(VaultUnavailable):
                    await attempt

            assert person.asked == []
            assert world.browser.opened == []

    asyncio.run(story())


def test_plain_http_is_for_this_machine_and_developers(trust: Trust, provider: Provider) -> None:
    """`--dev` opens http on loopback, as the client does; anything else stays shut."""

    async def story() -> None:
        async with ground(trust) as world:
            world.fetch = Fetch(loopback=True, permitted=this_machine_too, resolve=Lookup(), tls=trust.context())
            local = oauth(provider, authorization_endpoint="http://127.0.0.1:1/authorize")
            flows = Authorities(lambda: world.fetch, environment={}, dev=True)
            begun = await flows.begin(app_of(local), local, None, "http://127.0.0.1:2/callback", "state")

            assert begun.address.startswith("http://127.0.0.1:1/authorize?")

    asyncio.run(story())
