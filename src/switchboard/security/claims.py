"""Which apps get secrets: those the user has confirmed, and whose id was nobody else's first."""

from asyncio import to_thread
from typing import final

from switchboard.catalog.errors import AuthDenied
from switchboard.catalog.model import App
from switchboard.security.consent import Namesakes
from switchboard.security.records import Records


@final
class Claims:
    """Says which apps get secrets: those the user has confirmed, and whose id is their own."""

    def __init__(self, records: Records, namesakes: Namesakes = lambda _: ()) -> None:
        self._records = records
        self._namesakes = namesakes

    def require(self, app: App) -> None:
        """Refuse an app that the user has never confirmed.

        Raises:
            AuthDenied: it gets nothing.
        """
        if self._records.last(app.origin, app.id).confirmed is None:
            raise AuthDenied(
                f"Nobody has confirmed where {app.id} is, so nothing opens it. Call it once to be asked.", app_id=app.id
            )

    async def refuse_latecomer(self, app: App) -> None:
        """Refuse an app whose id was another one's first, for as long as that one is known.

        Raises:
            AuthDenied: it gets nothing.
        """
        earlier = self._records.last(app.origin, app.id).later_than
        if not earlier:
            return
        known = {*self._namesakes(app), *await to_thread(self._records.others, app.origin, app.id)}
        still = sorted(known.intersection(earlier))
        if still:
            raise AuthDenied(
                f"Another app has the id {app.id} and had it first: {', '.join(still)}. This one, from {app.origin}, "
                f"gets no secrets. If the user means this one: switchboard consent revoke {app.id} --origin {still[0]}",
                app_id=app.id,
                origin=app.origin,
                first=still,
            )
