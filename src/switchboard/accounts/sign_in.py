"""What the user has signed in with: given to calls from memory, renewed before it ends, asked for where it is missing.

A secret is given out only for an app that the user has confirmed, and only for the places it was entered for. No call
waits longer than 45 seconds for the user: the question stays open, and the next call picks the answer up.
"""

from asyncio import timeout
from collections.abc import Awaitable, Callable, Mapping
from shlex import quote
from typing import TYPE_CHECKING, NoReturn, final

from msgspec.structs import replace

from switchboard.accounts import sign_in_forms as forms
from switchboard.accounts.kept import Account, Accounts
from switchboard.accounts.needs import Need, need_of, secret_of
from switchboard.accounts.renewals import Over, Renewals
from switchboard.accounts.tokens import Tokens
from switchboard.actions.ports import Call, Client, Clock, Secret, Secrets
from switchboard.catalog.bindings import ApiKey, AppCredential, Cookie, OAuth2
from switchboard.catalog.caches import USUAL, Caches
from switchboard.catalog.errors import (
    AuthDenied,
    AuthInvalid,
    AuthRequired,
    CallTimeout,
    ServiceUnavailable,
)
from switchboard.catalog.model import App
from switchboard.catalog.text import clean
from switchboard.prompts.forms import Prompt, Reply
from switchboard.prompts.questions import PATIENCE_S, Questions, Unanswered
from switchboard.vaults.vault import Vault

if TYPE_CHECKING:
    from switchboard.accounts.oauth_flow import Flows
    from switchboard.net.fetch import Fetch

Trusted = Callable[[App], None]
"""Raises where the user has not confirmed the app, as it is now."""
OpenPage = Callable[[str], Awaitable[bool]]
"""Opens an address in the user's browser, and tells whether it could."""

_MOST_LOOKS = 10
_LEAST_S = 5.0
"""What renewing gets, however little of the call's time is left."""
_LONGEST_ADDRESS = 300
_TO_SPARE_S = 2.0
"""Between the end of a question's patience, which knows the address, and that of the call, which does not."""


@final
class SignIn(Secrets):
    """Opens apps with what the user has signed in with, and lets the user sign in."""

    def __init__(  # noqa: PLR0913 - one collaborator for each thing it needs
        self,
        *,
        vault: Vault,
        fetch: "Callable[[], Fetch]",
        prompt: Prompt,
        open_page: OpenPage,
        trusted: Trusted,
        clock: Clock,
        locale: str,
        environment: Mapping[str, str],
        dev: bool = False,
        patience_s: float = PATIENCE_S,
        caches: Caches = USUAL,
    ) -> None:
        self._fetch = fetch
        self._open_page = open_page
        self._trusted = trusted
        self._clock = clock
        self._locale = locale
        self._environment = environment
        self._dev = dev
        self._patience_s = patience_s
        self._accounts = Accounts(vault, clock, caches)
        self._renewals = Renewals(self._accounts, clock)
        self._questions_s = max(patience_s - _TO_SPARE_S, patience_s / 2)
        self._typed: Questions[Account] = Questions(prompt, patience_s=self._questions_s)
        self._in_browser: Questions[Account] | None = None
        self._flows: Flows | None = None

    async def secret_for(self, call: Call, client: Client) -> Secret | None:
        """Return what opens the owner of a call, from memory where that is enough."""
        need = self._need(call)
        if need is None:
            return None
        account = await self._accounts.read(need.key)
        if account is None or not need.fits(account, self._clock.now()):
            account = await self._asked(need, client)
        try:
            async with timeout(max(client.patience(self._patience_s), _LEAST_S)):
                account = await self._fresh(need, account)
        except Over as error:
            if isinstance(need.auth, AppCredential):
                self._refuse(need, error.said)
            account = await self._asked(need, client, over=account.access_token)
        except TimeoutError:
            raise ServiceUnavailable("The sign-in is being renewed, which takes long. Call again.") from None
        return secret_of(need.auth, account)

    async def renewed(self, call: Call, refused: Secret) -> Secret | None:
        """Return something else than the app has just refused: what somebody else renewed meanwhile, or a new token."""
        need = self._need(call)
        if need is None:
            return None
        account = await self._accounts.read(need.key)
        if account is None or not need.fits(account, self._clock.now()):
            raise self._required(need, "is not signed in to")
        is_typed = isinstance(need.auth, ApiKey | Cookie)
        if (is_typed or account.access_token) and secret_of(need.auth, account) != refused:
            return secret_of(need.auth, account)
        if is_typed:
            await self._accounts.change(need.key, lambda kept: _marked(kept, account))
            self._refuse(need, "")
        return await self._replaced(need, account, refused)

    async def close(self) -> None:
        """Take every question back, and let what is under way end."""
        await self._typed.close()
        if self._in_browser is not None:
            await self._in_browser.close()
        await self._renewals.close()

    def _need(self, call: Call) -> Need | None:
        if not isinstance(call.owner, App) or call.owner.auth is None:
            return None
        need = need_of(call.owner, call.capability.binding.execution)
        self._trusted(call.owner)
        return None if need is None else replace(need, address=call.address or call.owner.id)

    async def _fresh(self, need: Need, account: Account) -> Account:
        """Return the account with a token that still lasts for a while."""
        now = self._clock.now()
        has_none = isinstance(need.auth, AppCredential) and not account.access_token
        if not has_none and (account.renew_at is None or now < account.renew_at):
            return account
        still_opens = bool(account.access_token) and (account.expires_at is None or now < account.expires_at)
        if isinstance(need.auth, OAuth2) and not account.refresh_token:
            return account
        try:
            return await self._renewals.renewed(account, lambda claimed: self._tokens(need, claimed))
        except (ServiceUnavailable, CallTimeout):
            if still_opens:
                return account  # renewing was only early
            raise

    async def _replaced(self, need: Need, account: Account, refused: Secret) -> Secret | None:
        if isinstance(need.auth, OAuth2) and not account.refresh_token:
            await self._accounts.change(need.key, lambda kept: _bare(kept, account))
            raise self._required(need, "has been signed out of")
        try:
            after = await self._renewals.renewed(account, lambda claimed: self._tokens(need, claimed))
        except Over as error:
            if isinstance(need.auth, AppCredential):
                self._refuse(need, error.said)
            raise self._required(need, "has been signed out of", error.said) from None
        if secret_of(need.auth, after) != refused:
            return secret_of(need.auth, after)
        await self._accounts.change(need.key, lambda kept: _bare(kept, after))
        return None

    async def _tokens(self, need: Need, account: Account) -> Tokens:
        if isinstance(need.auth, AppCredential):
            from switchboard.accounts.app_tokens import exchange  # noqa: PLC0415 - few apps have it

            return await exchange(self._fetch(), need.auth, account.values["app_id"], account.values["app_secret"])
        from switchboard.accounts.authorities import Stranger  # noqa: PLC0415 - authlib is heavy

        if not isinstance(need.auth, OAuth2):
            raise Over
        try:
            return await self._oauth().authorities.refresh(need.app, need.auth, account)
        except Stranger:
            raise Over from None

    async def _asked(self, need: Need, client: Client, *, over: str | None = None) -> Account:
        """Let the user sign in, and return the account; before anything is typed it is clear that it can be kept.

        An account with the token that is `over` is none.
        """
        await self._accounts.require_vault(need.key)
        found = await self._meanwhile(need, over)
        if found is not None:
            return found
        try:
            async with timeout(client.patience(self._patience_s) + _TO_SPARE_S):
                if isinstance(need.auth, OAuth2):
                    return await self._from_browser(need, need.auth, client)
                return await self._from_form(need, need.auth, client)
        except Unanswered as error:
            raise self._unanswered(need, error) from None
        except TimeoutError:
            raise self._unanswered(need, Unanswered("pending")) from None

    async def _meanwhile(self, need: Need, over: str | None) -> Account | None:
        """Return what an open question has brought meanwhile.

        What was read is current when this returns: a question that ends later is still open, and joined.
        """
        account = await self._accounts.read(need.key)
        for _ in range(_MOST_LOOKS):
            if self._accounts.is_current(need.key):
                break
            account = await self._accounts.read(need.key)
        if account is None or account.access_token == over or not need.fits(account, self._clock.now()):
            return None
        return account

    async def _from_form(self, need: Need, auth: "forms.Typed", client: Client) -> Account:
        form = forms.credential_form(need.app, auth, need.goes_to, self._locale)
        waiting = forms.text("waiting", need.app, self._locale)
        return await self._typed.answer(
            need.key, form, client, lambda reply: self._entered(need, auth, reply), waiting=waiting
        )

    async def _entered(self, need: Need, auth: "forms.Typed", reply: Reply) -> Account:
        name = forms.name_of(need.app, self._locale)
        match reply.choice:
            case "ok":
                return await keep_values(self._accounts, need, auth, reply.values, self._clock)
            case "help":
                message = (
                    f"The user wants help with signing in to {name}. Explain it in the user's language "
                    f"({self._locale}), from `instructions`, which are the app's words; then call again."
                )
                raise AuthRequired(message, **forms.help_of(need.app, self._locale))
            case _:
                message = f"The user cancelled the sign-in to {name}. Do not try again unless they ask for it."
                raise AuthDenied(message, app_id=need.app.id, app_name=name)

    async def _from_browser(self, need: Need, auth: OAuth2, client: Client) -> Account:
        from switchboard.accounts.oauth_flow import BrowserForm, ServerPage, Wanted  # noqa: PLC0415 - authlib is heavy

        if self._in_browser is None:
            self._in_browser = Questions(ServerPage(self._open_page), patience_s=self._questions_s)
        flow = self._oauth().new(Wanted(need.app, auth, need.goes_to), forms.language_of(self._locale))
        form = BrowserForm(
            title=forms.text("title", need.app, self._locale),
            question=forms.text("oauth2", need.app, self._locale),
            choices=(),
            language=forms.language_of(self._locale),
            flow=flow,
        )
        waiting = forms.text("waiting", need.app, self._locale)
        return await self._in_browser.answer(
            need.key, form, client, lambda _: flow.finish(flow.arrived.result()), waiting=waiting
        )

    def _oauth(self) -> "Flows":
        from switchboard.accounts.authorities import Authorities  # noqa: PLC0415 - authlib is heavy
        from switchboard.accounts.oauth_flow import Flows  # noqa: PLC0415

        if self._flows is None:
            authorities = Authorities(self._fetch, environment=self._environment, dev=self._dev)
            self._flows = Flows(self._accounts, authorities, self._clock)
        return self._flows

    def _unanswered(self, need: Need, error: Unanswered) -> AuthRequired:
        name = forms.name_of(need.app, self._locale)
        details = forms.help_of(need.app, self._locale)
        match error.why:
            case "pending":
                at = f" at {error.address}" if error.address else ""
                message = f"The user has to sign in to {name}{at}. Tell them, and call again when they have."
                details |= {"pending": True} | ({"auth_url": error.address} if error.address else {})
            case "closed":
                message = f"The user closed the sign-in to {name} without signing in. Ask them, then call again."
            case "nobody":
                app = quote(clean(need.address, _LONGEST_ADDRESS)) + (" --dev" if self._dev else "")
                message = (
                    f"The user has to sign in to {name}, and cannot be asked here. Tell them to run "
                    f"`switchboard auth login {app}` in a terminal, and call again when they have."
                )
            case "busy":
                message = f"The user has to sign in to {name}, and has other questions open. Call again later."
        return AuthRequired(message, **details)

    def _required(self, need: Need, how: str, said: str = "") -> AuthRequired:
        name = forms.name_of(need.app, self._locale)
        why = f" ({said})" if said else ""
        message = f"The user {how} {name}{why}. Call again, and they are asked to sign in."
        return AuthRequired(message, **forms.help_of(need.app, self._locale))

    def _refuse(self, need: Need, said: str) -> NoReturn:
        name = forms.name_of(need.app, self._locale)
        why = f": {said}" if said else ""
        message = f"{name} does not accept what the user signed in with{why}. Call again, and they are asked anew."
        raise AuthInvalid(message, **forms.help_of(need.app, self._locale))


async def keep_values(
    accounts: Accounts, need: Need, auth: "forms.Typed", given: Mapping[str, str], clock: Clock
) -> Account:
    """Keep what the user filled in.

    Raises:
        AuthInvalid: it cannot be used.
        VaultUnavailable: it cannot be kept.
    """
    account = Account(
        origin=need.app.origin,
        app=need.app.id,
        kind=auth.type,
        since=clock.now(),
        goes_to=need.goes_to,
        values=forms.read_values(auth, given),
    )
    await accounts.change(need.key, lambda _: account)
    return account


def _marked(kept: Account | None, used: Account) -> Account | None:
    """Note that what was used opens nothing, unless something else is kept by now."""
    return kept if kept is None or kept.values != used.values else replace(kept, refused=True)


def _bare(kept: Account | None, used: Account) -> Account | None:
    return kept if kept is None or kept.access_token != used.access_token else kept.without_tokens()
