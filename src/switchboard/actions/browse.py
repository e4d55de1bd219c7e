"""Answer questions about the catalogue. Reads never write."""

from collections.abc import Mapping

from msgspec import Struct

from switchboard.actions.directory import Directory, View
from switchboard.catalog.query import Query
from switchboard.catalog.selection import Page


class Answer(Struct, frozen=True):
    """A page, and the view of the catalogue it was taken from."""

    page: Page
    view: View


class Browse:
    """Discovery, as a caller sees it."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self.at_hand = directory.at_hand
        """The catalogue as it is now, and until when nobody has to be asked first."""

    async def view(self) -> View:
        """Return the catalogue as it is now."""
        return await self._directory.view()

    @property
    def seen_at(self) -> Mapping[str, float]:
        """When each agent last showed a sign of life, in seconds since 1970."""
        return self._directory.seen_at

    def when_seen(self, agent_id: str) -> float | None:
        """Return when an agent last showed a sign of life."""
        return self._directory.seen_at.get(agent_id)

    async def discover(self, query: Query) -> Answer:
        """Answer a discovery query."""
        view = await self._directory.view()
        return Answer(view.snapshot.select(query), view)
