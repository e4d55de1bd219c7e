"""What publishing needs from the rooms around it, and what is remembered of published apps."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from switchboard.catalog.findings import Problem
from switchboard.catalog.model import App

MOST_EDITIONS = 100
"""How many versions of one app are kept, the newest."""


class Edition(Struct, frozen=True, kw_only=True):
    """One version of an app: when it was published, and by whom."""

    version: str
    at: float
    by: str


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of an app beside its descriptor: whose id it is, every version in order, whether it is gone."""

    owner: str
    editions: tuple[Edition, ...]
    withdrawn_at: float | None = None
    withdrawn_by: str = ""

    @property
    def newest(self) -> Edition:
        """The version that was published last."""
        return self.editions[-1]


class StoredApp(Struct, frozen=True, kw_only=True):
    """An app as it is remembered; `descriptor` is None while it is withdrawn."""

    id: str
    record: Record
    descriptor: bytes | None
    revision: int = 0


class AppStore(Protocol):
    """What is remembered of published apps. Every change has a revision, counted together with those of agents.

    Raises (every method): ServiceUnavailable when the store does not answer.
    """

    async def keep(self, app: StoredApp, after: int) -> int | None:
        """Remember an app as it is now, and return the revision; None where it is not as it was at revision `after`.

        `after` is 0 for an app that nobody has published yet. A descriptor is also kept as that of the newest edition;
        those of versions that are no longer among the editions are forgotten.
        """
        ...

    async def app(self, app_id: str) -> StoredApp | None:
        """Return an app as the store has it, withdrawn or not."""
        ...

    async def edition(self, app_id: str, version: str) -> bytes | None:
        """Return the descriptor of one version."""
        ...

    async def changes(self, since: int) -> tuple[int, Sequence[StoredApp]]:
        """Return the newest revision and every app that changed after `since`, withdrawn ones included.

        A revision before `since` says that the store has lost what came after it, and that nothing known of it counts.
        """
        ...


class Reading(Protocol):
    """A descriptor that was read with the eyes of a publisher."""

    @property
    def app(self) -> App | None:
        """The app, where the document describes one."""
        ...

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that is wrong with it; an error keeps it from being published."""
        ...

    @property
    def tool_paths(self) -> Mapping[str, str]:
        """Where each tool stands in the document, by name."""
        ...
