"""One sign-in through the browser, from the address that it opens to the account that is kept.

The gateway and the command line hold the same conversation; only how the person gets the address, and how the answer
comes back, differs.
"""

from asyncio import Future, Task, create_task, get_running_loop
from collections.abc import Awaitable, Callable
from secrets import token_urlsafe
from typing import final

from msgspec import Struct

from switchboard.accounts.authorities import Authorities, as_client
from switchboard.accounts.callbacks import Redirect
from switchboard.accounts.kept import Account, Accounts, Registered
from switchboard.accounts.oauth import Begun, Callback, Client, Foreign, read_pasted
from switchboard.accounts.oauth_server import Device
from switchboard.accounts.tokens import Refused, Tokens
from switchboard.actions.ports import Clock
from switchboard.catalog.bindings import OAuth2
from switchboard.catalog.errors import AuthDenied, AuthInvalid
from switchboard.catalog.model import App
from switchboard.prompts.forms import Form, Language, Prompt, Reply, Shown

OpenPage = Callable[[str], Awaitable[bool]]
"""Opens an address in the user's browser, and tells whether it could."""


class Wanted(Struct, frozen=True):
    """What is signed in to: an app, how, and everywhere its secrets will go."""

    app: App
    auth: OAuth2
    goes_to: tuple[str, ...]


class BrowserForm(Form, frozen=True, kw_only=True):
    """The question that the server asks in the browser; `begin` shows it."""

    flow: "Flow"


@final
class Flows:
    """Begins sign-ins. Remembers whom a server registered us as only for as long as that works."""

    def __init__(self, accounts: Accounts, authorities: Authorities, clock: Clock) -> None:
        self.accounts = accounts
        self.authorities = authorities
        self.clock = clock
        self._unproven: set[str] = set()

    def new(self, wanted: Wanted, language: Language) -> "Flow":
        """Return a sign-in that has not begun."""
        return Flow(self, wanted, language)

    async def client(self, wanted: Wanted) -> Client | None:
        """Return who we are for a server that registered us.

        A server that has forgotten us says so to the browser, not to us. So a client that a sign-in was begun with,
        and that it did not end well with, is not used again.
        """
        account = await self.accounts.read((wanted.app.origin, wanted.app.id))
        registered = account.client if account else None
        if registered is None or account is None or account.goes_to != wanted.goes_to:
            return None
        if registered.id in self._unproven:
            return None
        return as_client(registered)

    def begun_with(self, client: Client) -> None:
        """Note that a sign-in has begun."""
        if client.registered:
            self._unproven.add(client.id)

    async def keep(self, wanted: Wanted, client: Client, tokens: Tokens) -> Account:
        """Keep what a sign-in brought."""
        now = self.clock.now()
        registered = Registered(id=client.id, secret=client.secret, in_body=client.in_body)
        account = Account(
            origin=wanted.app.origin,
            app=wanted.app.id,
            kind="oauth2",
            since=now,
            goes_to=wanted.goes_to,
            scopes=wanted.auth.scopes if tokens.scopes is None else tokens.scopes,
            client_id=client.id,
            client=registered if client.registered else None,
        ).with_tokens(tokens.access_token, tokens.refresh_token or "", at=now, lasts=tokens.expires_in)
        await self.accounts.change(account.key, lambda _: account)
        self._unproven.discard(client.id)
        return account

    async def device(self, wanted: Wanted) -> "tuple[Client, Device] | None":
        """Begin a sign-in on another device; None where the server does not offer that.

        Raises:
            AuthDenied, ServiceUnavailable, CallTimeout, RefusedAddress: it does not work.
        """
        try:
            return await self.authorities.device(wanted.app, wanted.auth, await self.client(wanted))
        except Refused as refusal:
            raise AuthDenied(
                f"The sign-in was refused: {refusal.said}. Sign in again to change that.", error=refusal.error
            ) from None

    async def device_account(self, wanted: Wanted, client: Client, device: Device) -> Account:
        """Wait until the person is done on the other device, and keep what it brought.

        Raises:
            AuthDenied: they said no, or it took too long.
        """
        try:
            tokens = await self.authorities.device_tokens(wanted.auth, client, device)
        except Refused as refusal:
            raise AuthDenied(
                f"The sign-in was refused: {refusal.said}. Sign in again to change that.", error=refusal.error
            ) from None
        return await self.keep(wanted, client, tokens)


@final
class Flow:
    """One sign-in: `begin`, then wait for the browser or take what the person pastes, then `close`."""

    def __init__(self, flows: Flows, wanted: Wanted, language: Language) -> None:
        self._flows = flows
        self._wanted = wanted
        self._language: Language = language
        self._begun: Begun | None = None
        self._redirect: Redirect | None = None

    async def begin(self) -> str:
        """Listen for the browser, and return the address it has to go to.

        Raises:
            OSError: nothing can listen on this machine.
            RefusedAddress: an endpoint is not https.
        """
        state = token_urlsafe(32)
        redirect = Redirect(state=state, language=self._language)
        try:
            uri, known = await redirect.open(), await self._flows.client(self._wanted)
            begun = await self._flows.authorities.begin(self._wanted.app, self._wanted.auth, known, uri, state)
        except BaseException:
            await redirect.close()
            raise
        self._flows.begun_with(begun.client)
        self._begun, self._redirect = begun, redirect
        return begun.address

    @property
    def arrived(self) -> "Future[Callback]":
        """What the browser brings."""
        if self._redirect is None:
            raise RuntimeError("The sign-in has not begun.")
        return self._redirect.arrived

    async def finish(self, callback: Callback) -> Account:
        """Exchange what the browser brought, and keep the account.

        Raises:
            AuthDenied: the user or the server said no.
            AuthInvalid: the server does not take what it gave.
            ServiceUnavailable, CallTimeout: it does not answer.
            VaultUnavailable: it cannot be kept.
        """
        begun = self._begun
        if begun is None:
            raise RuntimeError("The sign-in has not begun.")
        try:
            tokens = await self._flows.authorities.finish(self._wanted.auth, begun, callback)
        except Refused as refusal:
            message = f"The sign-in was not accepted: {refusal.said}. Sign in again."
            raise AuthInvalid(message, error=refusal.error) from None
        return await self._flows.keep(self._wanted, begun.client, tokens)

    async def finish_pasted(self, text: str) -> Account:
        """Do so with what the person copied: the address they were sent back to, or the code.

        Raises:
            AuthInvalid: it belongs to another sign-in, or is neither; or as `finish`.
        """
        state = self._begun.state if self._begun else ""
        try:
            callback = read_pasted(text, state)
        except Foreign:
            message = "That is not the answer to this sign-in. Copy the whole address that the browser ended at."
            raise AuthInvalid(message) from None
        return await self.finish(callback)

    async def close(self) -> None:
        """Listen no more."""
        if self._redirect is not None:
            await self._redirect.close()


@final
class ServerPage(Prompt):
    """Asks in the user's browser, at the app's own server."""

    def __init__(self, open_page: OpenPage) -> None:
        self._open_page = open_page
        self._closing: set[Task[None]] = set()
        self._shown: set[Future[Reply | None]] = set()

    async def show(self, form: Form) -> Shown | None:
        """Open the server's page, and listen for its answer."""
        if not isinstance(form, BrowserForm):
            return None
        try:
            address = await form.flow.begin()
        except OSError:
            return None
        reply: Future[Reply | None] = get_running_loop().create_future()
        self._shown.add(reply)
        form.flow.arrived.add_done_callback(lambda _: reply.done() or reply.set_result(Reply("arrived")))
        reply.add_done_callback(lambda _: self._close(form.flow, reply))
        return Shown(reply, address=address, visible=await self._opened(address))

    async def close(self) -> None:
        """Listen no more, for anything."""
        for reply in list(self._shown):
            reply.cancel()
        while self._closing:
            await next(iter(self._closing))

    async def _opened(self, address: str) -> bool:
        try:
            return await self._open_page(address)
        except ValueError:  # no browser of ours opens such an address; the user still can
            return False

    def _close(self, flow: Flow, reply: "Future[Reply | None]") -> None:
        self._shown.discard(reply)
        task = create_task(flow.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
