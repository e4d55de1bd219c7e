"""New tokens in the place of old ones: once, however many calls and processes want them.

A refresh token is worth one use; who uses an old one again may lose the account. So whoever renews puts a claim on the
account first, and what it gets is kept before anybody uses it. A claim is over after some seconds: its process may be
gone.
"""

from asyncio import Task, create_task, shield, sleep, wait
from collections.abc import Awaitable, Callable
from secrets import token_hex
from typing import final

from msgspec.structs import replace

from switchboard.accounts.kept import Account, Accounts, Key
from switchboard.accounts.tokens import Refused, Tokens
from switchboard.actions.ports import Clock
from switchboard.catalog.errors import ServiceUnavailable

CLAIM_S = 20.0
"""How long a claim holds; a request for tokens takes ten seconds at most."""
_LOOK_EVERY_S = 0.05
_PATIENCE_S = 25.0
_LAST_WORDS_S = 5.0
# The server does not say that the grant is over, only that it cannot look now.
_PASSING = frozenset({"", "temporarily_unavailable", "server_error", "slow_down"})
_ABOUT_US = frozenset({"invalid_client", "unauthorized_client"})

Renew = Callable[[Account], Awaitable[Tokens]]


class Over(Exception):
    """The account cannot be renewed: the user has to sign in again. `said` are the server's words, safe to show."""

    def __init__(self, said: str = "") -> None:
        super().__init__(said)
        self.said = said


@final
class Renewals:
    """Renews accounts, one at a time for each app."""

    def __init__(self, accounts: Accounts, clock: Clock, pause: Callable[[float], Awaitable[None]] = sleep) -> None:
        self._accounts = accounts
        self._clock = clock
        self._pause = pause
        self._running: dict[Key, Task[Account]] = {}

    async def renewed(self, account: Account, renew: Renew) -> Account:
        """Return the account with another access token than it had; somebody else may have brought it meanwhile.

        Raises:
            Over: there is none.
            ServiceUnavailable, CallTimeout: there is none now, and nothing is lost.
        """
        task = self._running.get(account.key)
        if task is None:
            task = self._running[account.key] = create_task(self._renewed(account, renew))
            task.add_done_callback(lambda _: self._running.pop(account.key, None))
        # A call that is cancelled does not take the others' tokens with it.
        return await shield(task)

    async def close(self) -> None:
        """Let what is under way end: an answer that nobody takes would cost the account."""
        if self._running:
            await wait(list(self._running.values()), timeout=_LAST_WORDS_S)

    async def _renewed(self, account: Account, renew: Renew) -> Account:
        me = token_hex(8)
        claimed = await self._claimed(account, me)
        if claimed.claimed_by != me:
            return claimed
        try:
            tokens = await renew(claimed)
        except Refused as refusal:
            return await self._refused(claimed, refusal)
        except BaseException:
            await self._accounts.change(claimed.key, lambda kept: _released(kept, me))
            raise
        return await self._kept(claimed, tokens)

    async def _claimed(self, account: Account, me: str) -> Account:
        """Return the account claimed by us, or renewed by somebody else."""
        patience = _PATIENCE_S
        while patience > 0:
            found = await self._accounts.change(account.key, lambda kept: self._claim(kept, account, me))
            if found is None or not found.opens:
                raise Over
            if found.access_token != account.access_token or found.claimed_by == me:
                return found
            holder = found.claimed_by
            while patience > 0 and found is not None and found.claimed_by == holder and self._holds(found):
                await self._pause(_LOOK_EVERY_S)
                patience -= _LOOK_EVERY_S
                found = await self._accounts.read(account.key)
        raise ServiceUnavailable("Another process is renewing the sign-in and does not come to an end. Try again.")

    def _claim(self, kept: Account | None, account: Account, me: str) -> Account | None:
        if kept is None or kept.access_token != account.access_token or self._holds(kept):
            return kept
        return replace(kept, claimed_by=me, claimed_until=self._clock.now() + CLAIM_S)

    def _holds(self, account: Account) -> bool:
        # A claim that ends later than any can was made under another clock.
        return bool(account.claimed_by) and 0 < account.claimed_until - self._clock.now() <= CLAIM_S

    async def _kept(self, used: Account, tokens: Tokens) -> Account:
        at = self._clock.now()

        def changed(kept: Account | None) -> Account | None:
            if not _is_same(kept, used):
                return kept  # signed out, or in again: not ours to undo
            after = used.with_tokens(
                tokens.access_token, tokens.refresh_token or used.refresh_token, at=at, lasts=tokens.expires_in
            )
            return after if tokens.scopes is None else replace(after, scopes=tokens.scopes)

        after = await self._accounts.change(used.key, changed)
        if after is None or not after.opens:
            raise Over
        return after

    async def _refused(self, used: Account, refusal: Refused) -> Account:
        """Forget what the server does not take any more, unless somebody brought something else meanwhile."""
        passing = refusal.error in _PASSING and used.kind == "oauth2"

        def changed(kept: Account | None) -> Account | None:
            if kept is None or not _is_same(kept, used):
                return kept
            if passing:
                return _released(kept, used.claimed_by)
            if kept.kind == "appCredential":
                return replace(kept.without_tokens(), refused=True)
            if refusal.error not in _ABOUT_US:
                return kept.without_tokens()
            # A client of the user's settings may be set up wrongly in this process only.
            return (
                _released(kept, used.claimed_by) if kept.client is None else replace(kept.without_tokens(), client=None)
            )

        after = await self._accounts.change(used.key, changed)
        if passing:
            raise ServiceUnavailable(f"The sign-in could not be renewed now: {refusal.said}. Call again later.")
        if after is not None and after.opens and after.access_token not in ("", used.access_token):
            return after
        raise Over(refusal.said)


def _is_same(kept: Account | None, used: Account) -> bool:
    return kept is not None and (kept.refresh_token, kept.values, kept.access_token) == (
        used.refresh_token,
        used.values,
        used.access_token,
    )


def _released(kept: Account | None, me: str) -> Account | None:
    return kept if kept is None or kept.claimed_by != me else replace(kept, claimed_by="", claimed_until=0.0)
