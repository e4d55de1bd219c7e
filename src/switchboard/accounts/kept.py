"""What the user has signed in with, kept in the vault: one item for each (origin, app), read again where it changed.

An item says whose it is and where its secrets go; one that says something else than it is asked for opens nothing.
"""

from asyncio import to_thread
from collections.abc import Callable, Mapping
from typing import Literal, final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from switchboard.actions.ports import Clock
from switchboard.catalog.caches import USUAL, Cache, Caches
from switchboard.vaults.vault import Vault

PREFIX = "secret "
_FRESH_S = 60.0
_MOST_KNOWN = 1000
"""For how long what was read counts, whatever the version says: people have other programs to change it with."""

Kind = Literal["oauth2", "apiKey", "appCredential", "cookie"]
Key = tuple[str, str]
"""Origin and app id."""


class Registered(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who we are for a server that registered us."""

    id: str
    secret: str = ""
    in_body: bool = False

    def __repr__(self) -> str:
        return "Registered(…)"


class Account(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One sign-in. Never shown, logged or put in an error."""

    origin: str
    app: str
    kind: Kind
    since: float
    goes_to: tuple[str, ...]
    """Every origin that gets a part of it, as it was when the user signed in."""
    values: Mapping[str, str] = {}
    """What the user typed, by the name of its field."""
    access_token: str = ""
    refresh_token: str = ""
    renew_at: float | None = None
    expires_at: float | None = None
    scopes: tuple[str, ...] = ()
    refused: bool = False
    """Whether the app said that it opens nothing: the user is asked again."""
    client_id: str = ""
    """Who we were: nobody else's refresh token is of any use."""
    client: Registered | None = None
    claimed_by: str = ""
    """Who is renewing it: a refresh token is used once, by one of all processes."""
    claimed_until: float = 0.0

    @property
    def key(self) -> Key:
        """Whose it is."""
        return self.origin, self.app

    @property
    def opens(self) -> bool:
        """Whether there is anything in it that may open the app."""
        return not self.refused and bool(self.values or self.access_token)

    def with_tokens(self, access: str, refresh: str, *, at: float, lasts: float | None) -> "Account":
        """Return it with new tokens, which are renewed a minute before they end, or at half their life if it is short.

        Nobody is renewing it any more.
        """
        return replace(
            self,
            access_token=access,
            refresh_token=refresh,
            expires_at=None if lasts is None else at + lasts,
            renew_at=None if lasts is None else at + max(lasts - 60.0, lasts / 2),
            refused=False,
            claimed_by="",
            claimed_until=0.0,
        )

    def without_tokens(self) -> "Account":
        """Return what is left when the tokens are worth nothing: who we are, not whose account it was."""
        return replace(
            self,
            access_token="",
            refresh_token="",
            expires_at=None,
            renew_at=None,
            claimed_by="",
            claimed_until=0.0,
        )

    def __repr__(self) -> str:
        return f"Account({self.origin!r}, {self.app!r}, …)"


class Listed(Struct, frozen=True, kw_only=True):
    """What may be shown of an account."""

    origin: str
    app: str
    kind: Kind
    since: float
    expires_at: float | None
    renews: bool
    """Whether it is renewed without the user when that time comes."""
    scopes: tuple[str, ...]
    refused: bool


Changing = Callable[[Account | None], Account | None]


class _Known(Struct, frozen=True):
    account: Account | None
    version: object
    until: float


@final
class Accounts:
    """The accounts of every app."""

    def __init__(self, vault: Vault, clock: Clock, caches: Caches = USUAL) -> None:
        self._vault = vault
        self._clock = clock
        self._known: Cache[Key, _Known] = Cache(caches.most(_MOST_KNOWN))
        self._read_at: dict[Key, object] = {}
        """Of which version of the vault it was that an account was last read."""

    async def read(self, key: Key) -> Account | None:
        """Return an account, from memory while nothing has changed.

        Raises:
            VaultUnavailable: it cannot be read; the message says what to do.
        """
        found = self._current(key)  # looked up once: a change in another thread forgets it at any moment
        return await to_thread(self._read, key) if found is None else found.account

    def is_current(self, key: Key) -> bool:
        """Say whether what was read last is what is kept now, without asking the vault."""
        return key in self._read_at and self._read_at[key] == self._vault.version()

    async def change(self, key: Key, changing: Changing) -> Account | None:
        """Replace an account, and return it as it then is; nobody else changes it meanwhile. None forgets it.

        Raises:
            VaultUnavailable: it cannot be kept; the message says what to do.
        """
        return await to_thread(self._change, key, changing)

    async def require_vault(self, key: Key) -> None:
        """Make sure that something could be kept, before anybody types it.

        Raises:
            VaultUnavailable: it could not; the message says what to do.
        """
        await self.change(key, lambda account: account)

    async def all(self) -> list[Listed]:
        """Return what may be shown of every account that opens something, or did until the app refused it.

        Raises:
            VaultUnavailable: nobody knows.
        """
        return await to_thread(self._all)

    def _current(self, key: Key) -> _Known | None:
        found = self._known.get(key)
        is_so = found is not None and found.until > self._clock.passed() and found.version == self._vault.version()
        return found if is_so else None

    def _read(self, key: Key) -> Account | None:
        version = self._vault.version()
        account = _account(self._vault.read(name_of(key)), key)
        self._known.keep(key, _Known(account, version, self._clock.passed() + _FRESH_S))
        self._read_at[key] = version
        return account

    def _change(self, key: Key, changing: Changing) -> Account | None:
        after: Account | None = None

        def replaced(text: str | None) -> str | None:
            nonlocal after
            before = _account(text, key)
            after = changing(before)
            if after is before:
                return text  # also where it could not be read: nothing is lost by looking
            return None if after is None else msgspec.json.encode(after).decode()

        try:
            self._vault.change(name_of(key), replaced)
        finally:
            self._known.pop(key, None)
            self._read_at.pop(key, None)
        return after

    def _all(self) -> list[Listed]:
        texts = [self._vault.read(name) for name in self._vault.names() if name.startswith(PREFIX)]
        accounts = [account for account in map(_decoded, texts) if account is not None]
        return [_listed(account) for account in accounts if account.opens or account.refused]


def name_of(key: Key) -> str:
    """Return under which name an account is kept."""
    return f"{PREFIX}{key[0]} {key[1]}"


def _account(text: str | None, key: Key) -> Account | None:
    """Return an account as it was kept; one that is damaged, or somebody else's, is none."""
    account = _decoded(text)
    return account if account is not None and account.key == key else None


def _decoded(text: str | None) -> Account | None:
    try:
        return None if text is None else msgspec.json.decode(text, type=Account)
    except (msgspec.DecodeError, UnicodeError):
        return None


def _listed(account: Account) -> Listed:
    return Listed(
        origin=account.origin,
        app=account.app,
        kind=account.kind,
        since=account.since,
        expires_at=account.expires_at,
        renews=bool(account.refresh_token) or account.kind == "appCredential",
        scopes=account.scopes,
        refused=account.refused,
    )
