"""The ground that sign-in is tried on: a vault in memory, a person with a browser, and an app behind a real server."""

# ruff: noqa: D102 - the protocols say what their methods are for

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, final
from urllib.parse import urlencode, urlsplit

from tests import certificates
from tests.accounts.provider import PASSWORD, Provider
from tests.caching import CACHES
from tests.net.web import Names as Lookup
from tests.net.web import this_machine_too

from switchboard.accounts.sign_in import SignIn
from switchboard.actions.ports import Call, Client, Clock
from switchboard.catalog.bindings import Auth, Binding, Execution, Http, OAuth2, Route
from switchboard.catalog.caches import Caches
from switchboard.catalog.errors import NotSupported, VaultUnavailable
from switchboard.catalog.model import App, Caller, Capability, Names
from switchboard.net.fetch import Fetch
from switchboard.prompts.forms import Form, Prompt, Reply, Shown
from switchboard.vaults.vault import Change, Vault

CLIENT_ID = "the-gateway"


@final
class MemoryVault(Vault):
    """Keeps texts as long as the test; `locked` is what it says when it does not open."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.changes = 0
        self.reads = 0
        self.locked: str | None = None
        self.read_only = False
        self._lock = Lock()

    def read(self, name: str) -> str | None:
        self._require_open()
        self.reads += 1
        return self.texts.get(name)

    def change(self, name: str, change: Change) -> str | None:
        self._require_open()
        if self.read_only:
            raise VaultUnavailable("Nothing can be kept here.")
        with self._lock:
            after = change(self.texts.get(name))
            self.changes += 1
            if after is None:
                self.texts.pop(name, None)
            else:
                self.texts[name] = after
            return after

    def names(self) -> list[str]:
        self._require_open()
        return sorted(self.texts)

    def version(self) -> object:
        return self.changes

    def _require_open(self) -> None:
        if self.locked is not None:
            raise VaultUnavailable(self.locked)


@final
class Time(Clock):
    """The time, which a test can move."""

    def __init__(self) -> None:
        self.later = 0.0

    def now(self) -> float:
        return 1_800_000_000.0 + self.later

    def passed(self) -> float:
        return self.later


@final
class Quiet(Client):
    """A client that can be asked nothing, and remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.pages: list[str] = []

    def patience(self, most_s: float) -> float:
        return most_s

    def progress(self, message: str) -> None:
        self.told.append(message)

    async def open_page(self, address: str, message: str) -> bool:
        del message
        self.pages.append(address)
        return False

    async def choose(self, message: str, choices: Mapping[str, str]) -> str | None:
        raise NotSupported(message, choices=list(choices))


@final
class Hand(Prompt):
    """A person who fills in a form as told; told nothing, they leave it open."""

    def __init__(self) -> None:
        self.forms: list[Form] = []
        self.replies: list[Reply | None] = []
        self.open: list[asyncio.Future[Reply | None]] = []
        self.address: str | None = None
        self.is_there = True

    async def show(self, form: Form) -> Shown | None:
        if not self.is_there:
            return None
        self.forms.append(form)
        reply: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
        if self.replies:
            reply.set_result(self.replies.pop(0))
        self.open.append(reply)
        return Shown(reply, address=self.address)

    async def close(self) -> None:
        for reply in self.open:
            reply.cancel()


class Page(NamedTuple):
    """What a browser sees."""

    status: int
    body: str
    location: str | None
    address: str


class Browser:
    """A small browser: it trusts the test's certificate, and follows the login form to where it is sent."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls = tls
        self.opened: list[str] = []
        self.last: Page | None = None
        self.works = True
        self.tasks: set[asyncio.Task[Page]] = set()
        self.decision = "allow"
        self.before: Callable[[str], Awaitable[None]] | None = None

    async def open(self, address: str) -> bool:
        """Sign in there, in the background, as a person would."""
        self.opened.append(address)
        if self.works:
            task = asyncio.create_task(self.sign_in(address))
            self.tasks.add(task)
        return self.works

    async def sign_in(self, address: str) -> Page:
        """Fill in the form at an address, and go where it leads."""
        if self.before is not None:
            await self.before(address)
        location = await self.decide(address)
        self.last = await self.visit(location)
        return self.last

    async def decide(self, address: str) -> str:
        """Fill in the form, and return where it leads."""
        shown = await self.visit(address)
        assert shown.status == 200, shown
        assert "password" in shown.body
        done = await self.visit(address, {"password": PASSWORD, "decision": self.decision})
        assert done.location is not None, done
        return done.location

    async def visit(self, address: str, form: Mapping[str, str] | None = None) -> Page:
        return await asyncio.to_thread(self._visit, address, form)

    def _visit(self, address: str, form: Mapping[str, str] | None) -> Page:
        parts = urlsplit(address)
        connection: HTTPConnection = (
            HTTPSConnection(parts.hostname or "", parts.port, context=self._tls, timeout=20)
            if parts.scheme == "https"
            else HTTPConnection(parts.hostname or "", parts.port, timeout=20)
        )
        try:
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            headers = {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
            connection.request("POST" if form else "GET", target, urlencode(form) if form else None, headers)
            answer: HTTPResponse = connection.getresponse()
            return Page(answer.status, answer.read().decode(), answer.getheader("Location"), address)
        finally:
            connection.close()


def redirect_of(address: str) -> str:
    """Return where an authorisation request wants the browser to come back to."""
    found = re.search(r"redirect_uri=http%3A%2F%2F127\.0\.0\.1%3A(\d+)%2Fcallback", address)
    assert found, address
    return f"http://127.0.0.1:{found[1]}/callback"


class Trust:
    """A certificate for localhost, and clients that trust it."""

    def __init__(self, folder: Path) -> None:
        self.key, self.certificate = certificates.make(folder, "DNS:localhost,DNS:other.test,IP:127.0.0.1")

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))

    def provider(self) -> Provider:
        return Provider(self.certificate, self.key)

    def fetch(self) -> Fetch:
        return Fetch(permitted=this_machine_too, resolve=Lookup(), tls=self.context())


def oauth(provider: Provider, **changes: Any) -> OAuth2:
    given: dict[str, Any] = {
        "authorization_endpoint": f"{provider.url}/authorize",
        "token_endpoint": f"{provider.url}/token",
        "client_id": CLIENT_ID,
        "scopes": ("read", "write"),
    }
    return OAuth2(**{**given, **changes})


def app_of(auth: Auth | None, *, origin: str = "https://app.test", base_url: str = "https://api.app.test") -> App:
    execution = Http(base_url=base_url)
    return App(
        id="com.example.notes",
        version="1.0.0",
        platform="web",
        names=Names((("en", "Notes"), ("zh-CN", "笔记")), "en"),
        description="Notes on the web",
        execution=execution,
        auth=auth,
        capabilities=tuple(
            Capability(kind="tool", id=name, binding=Binding(execution, Route(path=f"/{name}", method="GET")))
            for name in ("me", "search")
        ),
        origin=origin,
    )


def call_of(app: App, execution: Execution | None = None) -> Call:
    tool = app.capabilities[0]
    if execution is not None:
        tool = Capability(kind="tool", id="me", binding=Binding(execution))
    return Call(id="1", caller=Caller("a test"), owner=app, capability=tool, arguments={})


class Ground:
    """Everything around one sign-in."""

    def __init__(self, trust: Trust) -> None:
        self.trust = trust
        self.vault: Vault = MemoryVault()
        self.time = Time()
        self.hand = Hand()
        self.browser = Browser(trust.context())
        self.client = Quiet()
        self.trusted: Callable[[App], None] = lambda _: None
        self.environment: dict[str, str] = {}
        self.fetch = trust.fetch()
        self.locale = "en"

    def sign_in(self, *, patience_s: float = 20.0, dev: bool = False, caches: Caches = CACHES) -> SignIn:
        return SignIn(
            vault=self.vault,
            fetch=lambda: self.fetch,
            prompt=self.hand,
            open_page=self.browser.open,
            trusted=self._trust,
            clock=self.time,
            locale=self.locale,
            environment=self.environment,
            dev=dev,
            patience_s=patience_s,
            caches=caches,
        )

    def _trust(self, app: App) -> None:
        self.trusted(app)

    @property
    def memory(self) -> MemoryVault:
        assert isinstance(self.vault, MemoryVault)
        return self.vault


@asynccontextmanager
async def ground(trust: Trust) -> AsyncGenerator[Ground]:
    made = Ground(trust)
    try:
        yield made
    finally:
        for task in made.browser.tasks:
            await asyncio.wait_for(task, 20)
        await made.fetch.close()
