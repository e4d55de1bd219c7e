"""Signing in and out from a terminal: what `switchboard auth list|login|logout` does.

For machines without a browser: the address is always told, and what the browser ended at can be pasted back; or the
person signs in on another device with a short code.
"""

from asyncio import FIRST_COMPLETED, create_task, sleep, wait
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol, final

from switchboard.accounts import sign_in_forms as forms
from switchboard.accounts.authorities import Authorities
from switchboard.accounts.kept import Account, Accounts, Listed
from switchboard.accounts.needs import Need, need_of
from switchboard.accounts.oauth_flow import Flow, Flows, OpenPage, Wanted
from switchboard.accounts.sign_in import Trusted, keep_values
from switchboard.actions.ports import Clock
from switchboard.catalog.bindings import OAuth2
from switchboard.catalog.caches import USUAL, Caches
from switchboard.catalog.errors import AuthDenied, AuthInvalid, NotSupported
from switchboard.catalog.model import App
from switchboard.catalog.text import clean
from switchboard.vaults.vault import Vault

if TYPE_CHECKING:
    from switchboard.net.fetch import Fetch

_LONGEST = 2000


class Terminal(Protocol):
    """The person at a terminal."""

    def tell(self, message: str) -> None:
        """Print a line."""
        ...

    async def ask(self, label: str, *, secret: bool) -> str:
        """Let them type something; a secret is not shown. Cancelling gives it up.

        Raises:
            EOFError: they are done.
        """
        ...


@final
class Logins:
    """The accounts of the user, for a command line."""

    def __init__(  # noqa: PLR0913 - one collaborator for each thing it needs
        self,
        *,
        vault: Vault,
        fetch: "Callable[[], Fetch]",
        open_page: OpenPage,
        trusted: Trusted,
        clock: Clock,
        locale: str,
        environment: Mapping[str, str],
        dev: bool = False,
        pause: Callable[[float], Awaitable[None]] = sleep,
        caches: Caches = USUAL,
    ) -> None:
        self._open_page = open_page
        self._trusted = trusted
        self._clock = clock
        self._locale = locale
        self._accounts = Accounts(vault, clock, caches)
        authorities = Authorities(fetch, environment=environment, dev=dev, wait=pause)
        self._flows = Flows(self._accounts, authorities, clock)

    async def all(self) -> list[Listed]:
        """Return what may be shown of every account.

        Raises:
            VaultUnavailable: nobody knows.
        """
        return await self._accounts.all()

    async def login(self, app: App, terminal: Terminal, *, browser: bool = True, device: bool = False) -> None:
        """Sign in to an app. Without `browser` none is opened; with `device` the person uses another device.

        Raises:
            AuthDenied: the person or the app said no, or nothing may be sent to the app.
            AuthInvalid: what was entered cannot be used.
            NotSupported: there is nothing to sign in to, or no sign-in on another device.
            SwitchboardError: what the server or the vault says.
        """
        need = self._need(app)
        await self._accounts.require_vault(need.key)
        if not isinstance(need.auth, OAuth2):
            await self._typed(need, need.auth, terminal)
        elif device:
            await self._on_device(Wanted(app, need.auth, need.goes_to), terminal)
        else:
            await self._in_browser(Wanted(app, need.auth, need.goes_to), terminal, browser=browser)

    async def begin(self, app: App) -> tuple[str, Flow]:
        """Begin a sign-in in the browser: return the address, and what takes the answer (`finish_pasted`, `close`).

        Raises:
            AuthDenied, NotSupported, SwitchboardError: as `login`.
        """
        need = self._need(app)
        if not isinstance(need.auth, OAuth2):
            raise NotSupported(f"{app.id} has no sign-in in the browser. Use switchboard auth login.")
        await self._accounts.require_vault(need.key)
        flow = self._flows.new(Wanted(app, need.auth, need.goes_to), forms.language_of(self._locale))
        return await flow.begin(), flow

    async def logout(self, origin: str, app_id: str, app: App | None = None) -> tuple[bool, bool]:
        """Forget an account; tell whether there was one, and whether the server took its tokens back.

        Without the app nobody knows which server that is.

        Raises:
            VaultUnavailable: it cannot be forgotten.
        """
        account = await self._accounts.read((origin, app_id))
        if account is None:
            # Also what cannot be read, or is another's, goes.
            await self._accounts.change((origin, app_id), lambda _: None)
            return False, False
        # Forgotten first: what the server says must not keep it here.
        await self._accounts.change(account.key, lambda _: None)
        return True, await self._revoked(account, app)

    async def _revoked(self, account: Account, app: App | None) -> bool:
        if app is None or (app.origin, app.id) != account.key:
            return False
        try:
            need = need_of(app, app.execution)
        except AuthDenied:
            return False
        if need is None or not isinstance(need.auth, OAuth2) or need.goes_to != account.goes_to:
            return False
        return await self._flows.authorities.revoke(app, need.auth, account)

    def _need(self, app: App) -> Need:
        need = need_of(app, app.execution)
        if need is None:
            raise NotSupported(f"{app.id} needs no sign-in. It can be called as it is.", app_id=app.id)
        self._trusted(app)
        return need

    async def _typed(self, need: Need, auth: "forms.Typed", terminal: Terminal) -> None:
        form = forms.credential_form(need.app, auth, need.goes_to, self._locale)
        terminal.tell(form.question)
        for line in form.lines:
            terminal.tell(line.stated(form.language))
        for warning in form.warnings:
            terminal.tell(warning)
        try:
            given = {field.name: await terminal.ask(field.label, secret=field.secret) for field in form.fields}
        except EOFError:
            raise AuthDenied(
                "Nothing was entered, so nothing is kept. Sign in again to enter it.", app_id=need.app.id
            ) from None
        await keep_values(self._accounts, need, auth, given, self._clock)

    async def _in_browser(self, wanted: Wanted, terminal: Terminal, *, browser: bool) -> None:
        flow = self._flows.new(wanted, forms.language_of(self._locale))
        try:
            address = await flow.begin()
        except OSError as error:
            raise NotSupported(
                "Nothing can listen on 127.0.0.1 here. Sign in on another device, with --device."
            ) from error
        try:
            terminal.tell(forms.text("visit", wanted.app, self._locale))
            terminal.tell(address)
            if browser:
                await self._opened(address)
            await self._answered(flow, terminal, forms.text("paste", wanted.app, self._locale))
        finally:
            await flow.close()

    async def _answered(self, flow: Flow, terminal: Terminal, label: str) -> None:
        """Wait for the browser, or for what the person pastes, whatever comes first."""
        while True:
            pasted = create_task(_line(terminal, label))
            try:
                await wait((flow.arrived, pasted), return_when=FIRST_COMPLETED)
                if flow.arrived.done():
                    await flow.finish(flow.arrived.result())
                    return
            finally:
                pasted.cancel()
            text = pasted.result()
            if text is None:  # nobody can paste here: only the browser is left
                await flow.finish(await flow.arrived)
                return
            try:
                await flow.finish_pasted(text)
            except AuthInvalid as error:
                if error.details:
                    raise
                terminal.tell(error.message)  # it was something else: they may try again
            else:
                return

    async def _on_device(self, wanted: Wanted, terminal: Terminal) -> None:
        begun = await self._flows.device(wanted)
        if begun is None:
            raise NotSupported(
                f"{wanted.app.id} has no sign-in on another device. Leave out --device.", app_id=wanted.app.id
            )
        client, device = begun
        terminal.tell(forms.text("device", wanted.app, self._locale))
        terminal.tell(clean(device.complete_address or device.address, _LONGEST))
        terminal.tell(clean(device.user_code))
        await self._flows.device_account(wanted, client, device)

    async def _opened(self, address: str) -> bool:
        try:
            return await self._open_page(address)
        except ValueError:
            return False


async def _line(terminal: Terminal, label: str) -> str | None:
    try:
        return await terminal.ask(label, secret=True)
    except EOFError:
        return None
