"""Answer questions about the catalogue. Reads never write."""

from msgspec import Struct

from switchboard.actions.directory import Directory, View
from switchboard.catalog.query import Query
from switchboard.catalog.snapshot import Page


class Answer(Struct, frozen=True):
    """A page, and the view of the catalogue it was taken from."""

    page: Page
    view: View


class Browse:
    """Discovery, as a caller sees it."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    async def view(self) -> View:
        """Return the catalogue as it is now."""
        return await self._directory.view()

    def fresh_view(self) -> View | None:
        """Return the catalogue as it is now, if nobody has to be asked first."""
        return self._directory.fresh_view()

    def seen_at(self, agent_id: str) -> float | None:
        """Return when an agent last showed a sign of life, in seconds since 1970."""
        return self._directory.seen_at.get(agent_id)

    async def discover(self, query: Query) -> Answer:
        """Answer a discovery query."""
        view = await self._directory.view()
        return Answer(view.snapshot.select(query), view)
