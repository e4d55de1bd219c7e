"""Find the app somebody means: by id in any spelling, by address, or by one of its names.

What is installed or registered comes before what a web site said of itself, so that no site can take the place of an
app by claiming its id. Only an address, or a domain where one is asked for, is ever looked up on the network.
"""

from collections.abc import Iterable

from msgspec import Struct

from switchboard.actions.collection import Collection
from switchboard.actions.ports import Web, WebApp
from switchboard.catalog import mentions
from switchboard.catalog.errors import AmbiguousName, InvalidDescriptor, StillLoading, UnknownApp
from switchboard.catalog.model import App
from switchboard.catalog.names import GUIDE_PREFIX, PORTABLE_PREFIX, PortableNames
from switchboard.catalog.text import nearest

_NOT_ON_THE_WEB = (
    "nothing installed, registered or remembered is called that. For a web app, give its address (https://…)"
)
PATIENCE_S = 5.0
"""How long a request for something unknown waits for the first look at everything."""


class Found(Struct, frozen=True):
    """An app, what to write to mean exactly it, and why its description may be out of date, if it may."""

    app: App
    address: str
    stale: str | None = None


class Lookup:
    """Answers who is meant."""

    def __init__(self, collection: Collection, web: Web) -> None:
        self._collection = collection
        self._web = web
        self._portable: tuple[int, PortableNames] = (-1, PortableNames(()))

    def names(self) -> PortableNames:
        """Return the portable names of the apps as they are now."""
        snapshot = self._collection.current()
        if self._portable[0] != snapshot.version:
            self._portable = (snapshot.version, PortableNames(snapshot.apps))
        return self._portable[1]

    async def app(self, text: str) -> Found:
        """Return the app of this id, portable name, address or name.

        Raises:
            UnknownApp: nobody is called that; `nearest` are those who nearly are.
            AmbiguousName: several are.
            InvalidDescriptor: there is such an app, and its description cannot be used.
            StillLoading: nobody is yet, and not everything has been looked at.
            SwitchboardError: what `Web.at` raises, for an address.
        """
        mention = mentions.read(text)
        if mention.origin is not None and mention.explicit:
            return _at(await self._web.at(mention.origin))
        return await self._named(mention, fetch=False)

    async def discover(self, text: str) -> Found:
        """Return the web app at this address or domain, or of this name.

        Raises:
            As `app` does.
        """
        mention = mentions.read(text)
        if mention.origin is not None and mention.explicit:
            return _at(await self._web.at(mention.origin))
        return await self._named(mention, fetch=True)

    async def _named(self, mention: mentions.Mention, *, fetch: bool) -> Found:
        known = self._installed(mention.name)
        if known is None and not self._collection.is_settled:
            await self._collection.settled(PATIENCE_S)
            known = self._installed(mention.name)
        if known is not None:
            return Found(known, known.id)
        if fetch and mention.origin is not None:
            return _at(await self._web.at(mention.origin))
        remembered = await self._web.remembered()
        copy = _only(mention, remembered)
        if copy is not None:
            return _at(await self._web.at(copy.origin))
        raise self._refusal(mention, remembered)

    def _installed(self, name: str) -> App | None:
        apps = self._collection.current().apps
        plain = name.removeprefix(GUIDE_PREFIX)
        if plain in apps:
            return apps[plain]
        if name.startswith(PORTABLE_PREFIX):
            try:
                return apps[self.names().id_of(name)]
            except UnknownApp:
                pass
        called = [app for app in apps.values() if _is_called(app, plain)]
        if len(called) > 1:
            raise AmbiguousName(plain, [app.id for app in called])
        return called[0] if called else None

    def _refusal(self, mention: mentions.Mention, remembered: Iterable[WebApp]) -> Exception:
        name = mention.name.removeprefix(GUIDE_PREFIX)
        broken = self._broken(name)
        if broken is not None:
            return broken
        if not self._collection.is_settled:
            return StillLoading(
                f"{name!r} is not known yet: the apps are still being looked at. Try again in a moment."
            )
        apps = self._collection.current().apps
        others = [copy.app for copy in remembered]
        ids = nearest(name, (*apps, *(app.id for app in others)))
        by_name = {text: app.id for app in (*apps.values(), *others) for text in (*app.names.all, *app.aliases)}
        alike = list(dict.fromkeys([*ids, *(by_name[text] for text in nearest(name, by_name))]))[:3]
        return UnknownApp(name, alike, because=_NOT_ON_THE_WEB)

    def _broken(self, name: str) -> InvalidDescriptor | None:
        """Return what is wrong with the description of an app of this id, where there is one that cannot be used."""
        for finding in self._collection.findings:
            if finding.app is None and f"/{name}/" in finding.location.replace("\\", "/"):
                problems = [str(problem) for problem in finding.problems if problem.severity == "error"]
                message = f"The description of {name!r} cannot be used: {problems[0]}."
                return InvalidDescriptor(message, problems=problems)
        return None


def _at(copy: WebApp) -> Found:
    """Say how to mean a site's app: by its address, because anybody can claim an id."""
    return Found(copy.app, copy.origin, copy.stale)


def _is_called(app: App, name: str) -> bool:
    folded = name.casefold()
    return any(text.casefold() == folded for text in (*app.names.all, *app.aliases))


def _only(mention: mentions.Mention, remembered: Iterable[WebApp]) -> WebApp | None:
    """Return the one copy that is meant: by its host, by its id, or by its name, whatever says most."""
    copies = list(remembered)
    name = mention.name.removeprefix(GUIDE_PREFIX)
    for fits in (
        [copy for copy in copies if copy.origin == mention.origin],
        [copy for copy in copies if copy.app.id == name],
        [copy for copy in copies if _is_called(copy.app, name)],
    ):
        if len(fits) > 1:
            raise AmbiguousName(name, [copy.origin for copy in fits])
        if fits:
            return fits[0]
    return None
