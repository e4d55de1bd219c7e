"""Signing in, from the first contact with a site to the call that it opens: whole gateways, TLS, a real browser."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from flask import Response, jsonify, request
from playwright.async_api import Page
from tests.accounts.provider import PASSWORD, Provider
from tests.accounts.sign_in_ground import CLIENT_ID, Browser, Trust
from tests.gateways import Gateway, Message, install
from tests.leaks import WATCH, secret
from tests.prompts.chromium import chromium
from tests.support import requirement
from tests.users import PageUser, fetched, opened, pressed
from tests.vaults.keyrings import secret_service

APP = "com.example.shop"
KEY = {
    "type": "apiKey",
    "apiKey": {"location": "header", "name": "X-Key", "prefix": "Key", "obtainUrl": "https://a.test"},
}


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Trust:
    return Trust(tmp_path_factory.mktemp("trust"))


class Shop:
    """A site with an API, a descriptor, and a server to sign in at."""

    def __init__(self, provider: Provider, auth: Message | None = None, app: str = APP) -> None:
        self.provider = provider
        provider.know(CLIENT_ID)
        self.keys: list[str | None] = []
        self.auth: Message = auth or {
            "type": "oauth2",
            "oauth2": {
                "authorizationEndpoint": f"{provider.url}/authorize",
                "tokenEndpoint": f"{provider.url}/token",
                "clientId": CLIENT_ID,
                "scopes": ["orders:read"],
                "pkce": {"method": "S256"},
            },
        }
        self.app = app
        provider.app.add_url_rule("/.well-known/aai.json", view_func=self._descriptor)
        provider.app.add_url_rule("/api/keyed", view_func=self._keyed)

    def _descriptor(self) -> Response:
        def tool(name: str) -> Message:
            return {"name": name, "description": f"Shows {name}", "execution": {"path": f"/{name}", "method": "GET"}}

        names = {"en": "Shop"}
        return jsonify(
            {
                "schemaVersion": "1.0",
                "version": "1.0.0",
                "platform": "web",
                "app": {"id": self.app, "name": names, "defaultLang": "en", "description": "A shop"},
                "execution": {"type": "http", "baseUrl": f"{self.provider.url}/api"},
                "auth": self.auth,
                "tools": [tool("me"), tool("keyed")],
            }
        )

    def _keyed(self) -> Response:
        self.keys.append(request.headers.get("X-Key"))
        return jsonify({"echo": request.headers.get("X-Key")})


@contextmanager
def shop(trust: Trust, auth: Message | None = None) -> Generator[Shop]:
    with trust.provider() as provider:
        yield Shop(provider, auth)


def around(trust: Trust, folder: Path) -> dict[str, str]:
    """Return an environment that trusts the test's authority, with a vault that needs no daemon."""
    file = folder / "key"
    file.write_bytes(bytes(range(32)))
    file.chmod(0o600)
    vault = {"SWITCHBOARD_VAULT": "file", "SWITCHBOARD_KEY_FILE": str(file)}
    return {"SWITCHBOARD_TESTS_AUTHORITY": str(trust.certificate), **vault}


def call(gateway: Gateway, place: Shop, tool: str = "me") -> Message:
    return gateway.call("aai:exec", {"app": place.provider.url, "tool": tool})


class Person:
    """Somebody with a real Chromium, who allows the operation and signs in where the browser leads them."""

    def __init__(self, folder: Path) -> None:
        self.user = PageUser(folder)
        self._folder = folder
        self.seen: list[str] = []

    async def answer(self, gateway: Gateway, place: Shop) -> Message:
        """Make a call, and do what the browser shows meanwhile."""
        asked = asyncio.create_task(asyncio.to_thread(call, gateway, place))
        async with chromium() as browser:
            page = await (await browser.new_context(ignore_https_errors=True)).new_page()
            while not asked.done():
                for file in self._folder.glob("*.html"):
                    address = opened(file)
                    file.unlink()
                    await self._look(page, address)
                await asyncio.sleep(0.05)
        return await asked

    async def _look(self, page: Page, address: str) -> None:
        await page.goto(address)
        self.seen.append(await page.inner_text("body"))
        if await page.locator("input[name=password]").count():
            await page.fill("input[name=password]", PASSWORD)
            await page.click("button[value=allow]")
            await page.wait_for_url("http://127.0.0.1:*/callback*")
            self.seen.append(await page.inner_text("body"))
        else:
            await page.click("button[value=tool]")


@requirement(
    "consent:web:first-contact",
    "consent:web:before-sign-in",
    "oauth:first:starts",
    "oauth:step:browser",
    "oauth:step:website",
    "oauth:step:callback",
    "oauth:step:exchange",
    "oauth:step:executes",
    "oauth:user:only-website",
    "exec:order:web",
    "storage:oauth:keychain",
)
def test_a_user_meets_a_site_signs_in_and_the_call_is_put_through(trust: Trust, tmp_path: Path) -> None:
    """Domain and certificate first; then the site's own page; then the result. The next calls open nothing.

    With a real Chromium, a real keychain and a real authorisation server; the token is renewed, and given back.
    """
    person = Person(tmp_path / "browser")
    with shop(trust) as place, secret_service() as keyring:
        bus = {"DBUS_SESSION_BUS_ADDRESS": keyring.environment["DBUS_SESSION_BUS_ADDRESS"]}
        environment = {"SWITCHBOARD_TESTS_AUTHORITY": str(trust.certificate), **person.user.environment, **bus}
        with Gateway(tmp_path, "--dev", "--consent", "browser", environment=environment) as gateway:
            gateway.initialize("Claude")
            first = asyncio.run(person.answer(gateway, place))
            WATCH.secrets.update(text.encode() for text in place.provider.secrets())
            for token in place.provider.tokens:
                token.access_token += "-old"  # the app does not know it any more: it has to be renewed
            second = call(gateway, place)
            assert first["structuredContent"] == second["structuredContent"] == {"me": "user"}
            assert place.provider.count("/token", grant_type="authorization_code") == 1
            assert place.provider.count("/token", grant_type="refresh_token") == 1
            terminal(gateway, "auth", "logout", APP, "--dev")
            assert place.provider.count("/revoke") >= 1
        WATCH.secrets.update(text.encode() for text in place.provider.secrets())
        accounts = keyring.accounts("aai-gateway")

    consent, sign_in, end = person.seen
    host = place.provider.url.removeprefix("https://")
    for expected in (host, "Valid, issued by", "orders:read", "me, keyed", "First contact"):
        assert expected in consent
    assert "wants your account" in sign_in
    assert "close" in end
    assert [account for account in accounts if account.startswith("secret ")] == []
    assert f"consent {place.provider.url} {APP}" in accounts


@requirement("errors:gateway:token-expired")
def test_a_sign_in_that_is_over_asks_for_another(trust: Trust, tmp_path: Path) -> None:
    """AUTH_REQUIRED, with the address to sign in at; nothing is called with the old token again."""
    with shop(trust) as place:
        environment = around(trust, tmp_path)
        with Gateway(tmp_path, "--dev", "--consent", "browser", environment=environment) as gateway:
            gateway.initialize("Claude")
            decided(call(gateway, place))
            needed = refused(call(gateway, place))
            assert (needed["code"], needed["appId"], needed["authType"]) == ("AUTH_REQUIRED", APP, "oauth2")
            sign_in(trust, needed["authUrl"])
            assert call(gateway, place)["structuredContent"] == {"me": "user"}
            for token in place.provider.tokens:
                token.revoked = True  # the user ended it elsewhere
            again = refused(call(gateway, place))
            WATCH.secrets.update(text.encode() for text in place.provider.secrets())

    assert again["code"] == "AUTH_REQUIRED"


def test_a_machine_without_a_browser_signs_in_from_a_terminal(trust: Trust, tmp_path: Path) -> None:
    """The address is printed; what the browser of another machine ended at is pasted; the gateway finds it done."""
    with shop(trust) as place:
        environment = around(trust, tmp_path)
        with Gateway(tmp_path, "--dev", "--consent", "deny", environment=environment) as gateway:
            gateway.initialize("Claude")
            url = place.provider.url
            told = pasted(trust, gateway, "auth", "login", url, "--no-browser", "--dev", "--yes")
            assert "You are about to sign in to “Shop”." in told
            assert told.rstrip().endswith("You are signed in.")
            terminal(gateway, "consent", "grant", url, "--caller", "Claude", "--tool", "me", "--dev", "--yes")
            assert call(gateway, place)["structuredContent"] == {"me": "user"}
            listed = json.loads(terminal(gateway, "auth", "list", "--json"))["accounts"]
            WATCH.secrets.update(text.encode() for text in place.provider.secrets())

    assert [(row["app"], row["origin"], row["type"], row["renews"]) for row in listed] == [(APP, url, "oauth2", True)]


def test_a_passphrase_opens_the_vault_for_every_command(trust: Trust, tmp_path: Path) -> None:
    """Signing in, listing and signing out, each in a process of its own."""
    phrase = secret("passphrase")
    vault = {"SWITCHBOARD_VAULT": "file", "SWITCHBOARD_PASSPHRASE": phrase}
    environment = {"SWITCHBOARD_TESTS_AUTHORITY": str(trust.certificate), **vault}
    with shop(trust) as place, Gateway(tmp_path, "--dev", environment=environment) as gateway:
        pasted(trust, gateway, "auth", "login", place.provider.url, "--no-browser", "--dev", "--yes")
        assert len(json.loads(terminal(gateway, "auth", "list", "--json"))["accounts"]) == 1
        assert "You are signed out." in terminal(gateway, "auth", "logout", APP, "--dev")
        assert json.loads(terminal(gateway, "auth", "list", "--json"))["accounts"] == []
        WATCH.secrets.update(text.encode() for text in place.provider.secrets())


def test_the_terminal_tells_of_an_installed_app_with_the_same_id(trust: Trust, tmp_path: Path) -> None:
    """And what is granted there gets no secrets either."""
    install(tmp_path, APP)
    with shop(trust, KEY) as thief:
        environment = around(trust, tmp_path)
        with Gateway(tmp_path, "--dev", "--consent", "deny", environment=environment) as gateway:
            gateway.initialize("Claude")
            told = terminal(gateway, "consent", "grant", thief.provider.url, "--caller", "Claude", "--dev", "--yes")
            denied = refused(call(gateway, thief, "keyed"))

    assert "same id is known from file://" in told
    assert denied["code"] == "AUTH_DENIED"


def test_a_key_is_typed_on_the_page_and_goes_to_its_app_alone(trust: Trust, tmp_path: Path) -> None:
    """Another site that claims the app's id gets neither the key nor the consent, and the user is told of the two."""
    typed = secret("key")
    with shop(trust, KEY) as place, shop(trust, KEY) as thief:
        environment = around(trust, tmp_path)
        with Gateway(tmp_path, "--dev", "--consent", "browser", environment=environment) as gateway:
            gateway.initialize("Claude")
            decided(call(gateway, place, "keyed"), "all")
            needed = refused(call(gateway, place, "keyed"))
            pressed(needed["authUrl"], "ok", key=typed)
            result = call(gateway, place, "keyed")
            assert result["structuredContent"] == {"echo": "[secret]"}
            assert place.keys == [f"Key {typed}"]

            question = refused(call(gateway, thief, "keyed"))
            assert f"known from {place.provider.url}" in fetched(question["consentUrl"])
            pressed(question["consentUrl"], "all")
            denied = refused(call(gateway, thief, "keyed"))

    assert denied["code"] == "AUTH_DENIED"
    assert thief.keys == []


def test_a_site_that_claims_the_id_of_an_installed_app_is_shown_as_another(trust: Trust, tmp_path: Path) -> None:
    """In its guide, and to the user; it gets no secrets, although the installed app was never used."""
    install(tmp_path, APP)
    with shop(trust, KEY) as thief:
        environment = around(trust, tmp_path)
        with Gateway(tmp_path, "--dev", "--consent", "browser", environment=environment) as gateway:
            gateway.initialize("Claude")
            guide = gateway.call("web:discover", {"url": thief.provider.url})["structuredContent"]["guide"]
            question = refused(call(gateway, thief, "keyed"))
            assert "same id is known from file://" in fetched(question["consentUrl"])
            pressed(question["consentUrl"], "all")
            denied = refused(call(gateway, thief, "keyed"))

    assert f"Another app with the id {APP} is installed." in guide
    assert denied["code"] == "AUTH_DENIED"
    assert thief.keys == []


def test_help_and_cancel_are_told_to_the_agent(trust: Trust, tmp_path: Path) -> None:
    """Help with the app's instructions and the user's language; a cancelled sign-in is no sign-in, and not for ever."""
    auth: Message = {**KEY, "apiKey": {**KEY["apiKey"], "instructions": "Open your settings."}}  # type: ignore[dict-item]
    with shop(trust, auth) as place:
        environment = {**around(trust, tmp_path), "LANG": "zh_CN.UTF-8"}
        with Gateway(tmp_path, "--dev", "--consent", "browser", environment=environment) as gateway:
            gateway.initialize("Claude")
            decided(call(gateway, place, "keyed"))
            outcomes: list[Message] = []
            for choice in ("help", "cancel"):
                address = refused(call(gateway, place, "keyed"))["authUrl"]
                outcomes.append(meanwhile(gateway, place, address, choice))

    asked_for_help, cancelled = outcomes
    assert (asked_for_help["code"], asked_for_help["preferredLocale"]) == ("AUTH_REQUIRED", "zh-CN")
    assert asked_for_help["instructions"] == "Open your settings."
    assert cancelled["code"] == "AUTH_DENIED"
    assert place.keys == []


def meanwhile(gateway: Gateway, place: Shop, address: str, choice: str) -> Message:
    """Make a call that waits for an open page, and press a button of that page; return what the call says."""
    arguments = {"app": place.provider.url, "tool": "keyed"}
    params = {"name": "aai:exec", "arguments": arguments, "_meta": {"progressToken": address}}
    begun = gateway.begin("tools/call", params)
    waits = gateway.notification("notifications/progress")
    assert waits["params"]["progressToken"] == address
    pressed(address, choice)
    return refused(gateway.answer(begun)["result"])


def refused(result: Message) -> Message:
    assert result.get("isError"), result
    return result["structuredContent"]


def decided(result: Message, choice: str = "tool") -> None:
    """Answer the question that a call says is open."""
    pressed(refused(result)["consentUrl"], choice)


def sign_in(trust: Trust, address: str) -> None:
    """Sign in with a browser of few words."""
    asyncio.run(Browser(trust.context()).sign_in(address))


def program(gateway: Gateway, *arguments: str) -> "subprocess.Popen[str]":
    command = [str(Path(sys.executable).with_name("switchboard")), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=gateway.environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)  # noqa: S603 - our own command


def terminal(gateway: Gateway, *arguments: str) -> str:
    """Run a command of ours beside a gateway, for the same user."""
    with program(gateway, *arguments) as process:
        out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    WATCH.said += [("terminal", out.encode()), ("terminal", errors.encode())]
    return out


def pasted(trust: Trust, gateway: Gateway, *arguments: str) -> str:
    """Run a command that prints an address; sign in there elsewhere, and paste where that ended."""
    with program(gateway, *arguments) as process:
        assert process.stdout is not None
        said = ""
        while not (line := process.stdout.readline()).startswith("https://"):
            assert line, (said, process.stderr and process.stderr.read())
            said += line
        ended = asyncio.run(Browser(trust.context()).decide(line.strip()))
        out, errors = process.communicate(f"{ended}\n", timeout=60)
    assert process.returncode == 0, errors
    return said + out
