"""What was decided, kept in the vault: one item for each (origin, app), and read again only where it has changed.

Where there is no vault, decisions last as long as the process, and whoever is asked is told so. So do those that could
not be written, as on a full disk: until something can be written again, they hold, and nobody is asked twice.
"""

from asyncio import to_thread
from collections.abc import Callable
from typing import final

import msgspec
from msgspec import Struct

from switchboard.actions.ports import Clock
from switchboard.catalog.caches import USUAL, Cache, Caches
from switchboard.catalog.errors import VaultUnavailable
from switchboard.security.grants import Record
from switchboard.vaults.vault import Vault

PREFIX = "consent "
_FRESH_S = 60.0
"""For how long what was read counts, whatever the version says: people have other programs to change it with."""

_MOST_KNOWN = 1000

Changing = Callable[[Record], Record]


class _Known(Struct, frozen=True):
    record: Record
    version: object
    until: float


class _Unkept(Struct, frozen=True):
    """What was decided and could not be written; `version` is that of the vault which did not take it."""

    changes: tuple[Changing, ...]
    version: object


@final
class Records:
    """The records of every app, from the vault or, without one, from memory."""

    def __init__(
        self,
        vault: Vault,
        clock: Clock,
        report: Callable[[str], None] = lambda _: None,
        caches: Caches = USUAL,
    ) -> None:
        self._vault = vault
        self._clock = clock
        self._known: Cache[tuple[str, str], _Known] = Cache(caches.most(_MOST_KNOWN))
        self._unkept: dict[tuple[str, str], _Unkept] = {}
        self._last: dict[tuple[str, str], Record] = {}
        self._report = report
        self._noted = object()
        self.unavailable: str | None = None
        """Why nothing can be kept beyond this process, where that is so."""

    def known(self, origin: str, app: str) -> Record | None:
        """Return a record if it is known without asking the vault."""
        found = self._known.get((origin, app))
        if found is None or found.until < self._clock.passed() or found.version != self._vault.version():
            return None
        return found.record

    def mark(self) -> object:
        """Return something that is equal for as long as nothing is decided, here or elsewhere."""
        return self._vault.version(), self._noted

    def last(self, origin: str, app: str) -> Record:
        """Return a record as it was last read or changed, without asking the vault."""
        return self._last.get((origin, app), Record(origin=origin, app=app))

    async def read(self, origin: str, app: str) -> Record:
        """Return what was decided about an app; an empty record where nothing was."""
        record = self.known(origin, app)
        return record if record is not None else await to_thread(self._read, origin, app)

    async def change(self, origin: str, app: str, changing: Changing) -> Record:
        """Note a decision, and return the record as it then is."""
        return await to_thread(self.change_now, origin, app, changing)

    def change_now(self, origin: str, app: str, changing: Changing) -> Record:
        """Do so from a thread."""
        after = Record(origin=origin, app=app)

        def replaced(text: str | None) -> str | None:
            nonlocal after
            after = changing(_record(text, origin, app))
            return None if after.is_empty else msgspec.json.encode(after).decode()

        try:
            self._vault.change(name_of(origin, app), replaced)
        except VaultUnavailable as error:
            self._noted = object()
            self._note(error.message)
            before = self._unkept.get((origin, app))
            changes = (*(before.changes if before else ()), changing)
            self._unkept[origin, app] = _Unkept(changes, self._vault.version())
            self._known.pop((origin, app), None)
            after = self._last[origin, app] = changing(self.last(origin, app))
            return after
        self._note(None)
        self._noted = object()
        self._known.pop((origin, app), None)
        self._last[origin, app] = after
        return after

    def require_kept(self) -> None:
        """Refuse to go on where what was last read or changed is only in memory: who decides beforehand is gone then.

        Raises:
            VaultUnavailable: it is.
        """
        if self.unavailable is not None:
            raise VaultUnavailable(self.unavailable)

    def all(self) -> list[Record]:
        """Return every record that is kept; from a thread.

        Raises:
            VaultUnavailable: nobody knows.
        """
        texts = (self._vault.read(name) for name in self._vault.names() if name.startswith(PREFIX))
        records = (_decoded(text) for text in texts if text is not None)
        return [record for record in records if record is not None and not record.is_empty]

    def others(self, origin: str, app: str) -> list[str]:
        """Return the other origins whose app of this id the user has allowed anything; from a thread.

        One that was only ever denied has no claim to its id.
        """
        ends, own = f" {app}", name_of(origin, app)
        try:
            named = [name for name in self._vault.names() if name.startswith(PREFIX) and name.endswith(ends)]
            texts = [self._vault.read(name) for name in named if name != own]
            known = [record for record in (_decoded(text) for text in texts if text) if record is not None]
        except VaultUnavailable:
            here = (self._with_unkept(Record(origin=one, app=name)) for one, name in list(self._unkept))
            known = [record for record in here if record.app == app and record.origin != origin]
        return [record.origin for record in known if record.is_accepted]

    def _read(self, origin: str, app: str) -> Record:
        version = self._vault.version()
        try:
            record = _record(self._vault.read(name_of(origin, app)), origin, app)
        except VaultUnavailable as error:
            self._note(error.message)
            record = self._last[origin, app] = self._with_unkept(Record(origin=origin, app=app))
            return record
        self._note(None)
        unkept = self._unkept.get((origin, app))
        if unkept is not None and unkept.version != version:
            self._unkept.pop((origin, app), None)  # somebody can write again: what stands there now is the user's word
        record = self._last[origin, app] = self._with_unkept(record)
        self._known.keep((origin, app), _Known(record, version, self._clock.passed() + _FRESH_S))
        return record

    def _with_unkept(self, record: Record) -> Record:
        unkept = self._unkept.get((record.origin, record.app))
        for changing in unkept.changes if unkept else ():
            record = changing(record)
        return record

    def _note(self, unavailable: str | None) -> None:
        if unavailable is not None and unavailable != self.unavailable:
            self._report(unavailable)
        self.unavailable = unavailable


def name_of(origin: str, app: str) -> str:
    """Return under which name a record is kept."""
    return f"{PREFIX}{origin} {app}"


def _record(text: str | None, origin: str, app: str) -> Record:
    """Return a record as it was kept; one that is damaged, or another app's, decides nothing."""
    record = None if text is None else _decoded(text)
    if record is None or (record.origin, record.app) != (origin, app):
        return Record(origin=origin, app=app)
    return record


def _decoded(text: str) -> Record | None:
    try:
        return msgspec.json.decode(text, type=Record)
    except msgspec.DecodeError:
        return None
