"""Find the app somebody means: by id in any spelling, by address, or by one of its names.

What is installed or registered comes before what a web site said of itself, so that no site can take the place of an
app by claiming its id, not even while that app is still being looked for or cannot be read. Only an address, or a
domain where one is asked for, is ever looked up on the network.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from switchboard.actions.completeness import as_data, not_ready, sentence
from switchboard.actions.ports import Catalogue, Readiness, Web, WebApp
from switchboard.catalog import mentions
from switchboard.catalog.caches import USUAL, Caches
from switchboard.catalog.errors import AmbiguousName, InvalidDescriptor, StillLoading, UnknownApp
from switchboard.catalog.findings import Finding, folded
from switchboard.catalog.model import App
from switchboard.catalog.names import GUIDE_PREFIX, PORTABLE_PREFIX, PortableNames
from switchboard.catalog.text import nearest

_NOT_ON_THE_WEB = (
    "nothing installed, registered or remembered is called that. For a web app, give its address (https://…)"
)
_PREFIXES = (GUIDE_PREFIX, PORTABLE_PREFIX)
PATIENCE_S = 5.0
"""How long a request for something unknown waits for the first look at everything."""


class Found(Struct, frozen=True):
    """An app, what to write to mean exactly it, and why its description may be out of date, if it may."""

    app: App
    address: str
    stale: str | None = None


class Lookup:
    """Answers who is meant."""

    def __init__(
        self, catalogue: Catalogue, web: Web, *, patience_s: float = PATIENCE_S, caches: Caches = USUAL
    ) -> None:
        self._catalogue = catalogue
        self._web = web
        self._patience_s = patience_s
        self._remembers = caches.most(1) > 0
        self._seen: Sequence[Finding] | None = None
        self._named_ids: frozenset[str] = frozenset()
        self._portable = PortableNames(())

    def names(self) -> PortableNames:
        """Return the portable names of the apps as they are now.

        One that is there and broken keeps others from its name as well: a conversation may still have it in a list.
        """
        if self._seen is not self._catalogue.findings or not self._remembers:
            self._seen = self._catalogue.findings
            broken = (finding.stands_for for finding in self._seen if not finding.usable)
            ids = frozenset((*self._catalogue.current().apps, *filter(None, broken)))
            if ids != self._named_ids or not self._remembers:
                self._named_ids, self._portable = ids, PortableNames(ids)
        return self._portable

    def found(self, app: App) -> Found:
        """Return an app with what to write to mean it: its id, unless that reads as something else."""
        mention = mentions.read(app.id)
        reads_back = not mention.explicit and mention.name == app.id and not app.id.startswith(_PREFIXES)
        return Found(app, app.id if reads_back else self.names().name_of(app.id))

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
        known = self._installed(mention)
        if known is None and not self._catalogue.is_settled:
            await self._catalogue.settled(self._patience_s)
            known = self._installed(mention)
        if known is not None:
            return self.found(known)
        if fetch and mention.origin is not None:
            return _at(await self._web.at(mention.origin))
        remembered = await self._web.remembered()
        if not any(copy.origin == mention.origin for copy in remembered):
            self._refuse_while_unsure(mention.name.removeprefix(GUIDE_PREFIX))
        copy = _only(mention, remembered)
        if copy is not None:
            return _at(await self._web.at(copy.origin))
        raise self._unknown(mention, remembered)

    def _installed(self, mention: mentions.Mention) -> App | None:
        """Return the app of that id or name: what is exact says more than what is alike.

        Raises:
            InvalidDescriptor: what has this id is there and broken; who only calls itself so is not asked instead.
            AmbiguousName: several are called that.
        """
        apps = self._catalogue.current().apps
        plain = mention.name.removeprefix(GUIDE_PREFIX)
        if plain in apps:
            return apps[plain]
        if mention.name.startswith(PORTABLE_PREFIX):
            plain = self._id_of(mention.name) or plain
            if plain in apps:
                return apps[plain]
        wanted = folded(plain)
        alike = [app for app in apps.values() if folded(app.id) == wanted]
        if not alike and mention.origin is None:
            self._refuse_broken(plain)
        called = alike or [app for app in apps.values() if _is_called(app, wanted)]
        if len(called) > 1:
            raise AmbiguousName(plain, [app.id for app in called])
        return called[0] if called else None

    def _id_of(self, portable: str) -> str | None:
        try:
            return self.names().id_of(portable)
        except UnknownApp:
            return None

    def _refuse_broken(self, name: str) -> None:
        wanted = folded(name)
        for finding in self._catalogue.findings:
            if not finding.usable and folded(finding.stands_for) == wanted:
                problems = [str(problem) for problem in finding.problems if problem.severity == "error"]
                message = (
                    f"The description of {name!r} cannot be used: {problems[0]}. "
                    "`switchboard check` says what to correct."
                )
                raise InvalidDescriptor(message, problems=problems)

    def _refuse_while_unsure(self, name: str) -> None:
        """Refuse what a site may only claim to be: an app that is installed and broken, or not found yet."""
        self._refuse_broken(name)
        if not self._catalogue.is_settled:
            missing = self._missing()
            said = f" {sentence(missing)}" if missing else ""
            message = f"{name!r} is not known yet: the apps are still being looked at.{said} Try again in a moment."
            raise StillLoading(message, sources=[as_data(one) for one in missing])

    def _missing(self) -> list[Readiness]:
        return not_ready(self._catalogue.readiness())

    def _unknown(self, mention: mentions.Mention, remembered: Iterable[WebApp]) -> UnknownApp:
        name = mention.name.removeprefix(GUIDE_PREFIX)
        apps = self._catalogue.current().apps
        others = [copy.app for copy in remembered]
        ids = nearest(name, (*apps, *(app.id for app in others)))
        by_name = {text: app.id for app in (*apps.values(), *others) for text in (*app.names.all, *app.aliases)}
        alike = list(dict.fromkeys([*ids, *(by_name[text] for text in nearest(name, by_name))]))[:3]
        missing = self._missing()
        because = f"{_NOT_ON_THE_WEB}. {sentence(missing)[:-1]}" if missing else _NOT_ON_THE_WEB
        return UnknownApp(name, alike, because=because, sources=[as_data(one) for one in missing])


def _at(copy: WebApp) -> Found:
    """Say how to mean a site's app: by its address, because anybody can claim an id."""
    return Found(copy.app, copy.origin, copy.stale)


def _is_called(app: App, wanted: str) -> bool:
    """Tell whether one of the app's names is this; what could be an id or a domain is nobody's name.

    Anybody can call an app `com.example.notes`, and be taken for that one where it is not installed.
    """
    if "." in wanted and " " not in wanted:
        return False
    return any(folded(text) == wanted for text in (*app.names.all, *app.aliases))


def _only(mention: mentions.Mention, remembered: Iterable[WebApp]) -> WebApp | None:
    """Return the one copy that is meant: by its host, by its id, or by its name, whatever says most."""
    copies = list(remembered)
    name = mention.name.removeprefix(GUIDE_PREFIX)
    wanted = folded(name)
    for fits in (
        [copy for copy in copies if copy.origin == mention.origin],
        [copy for copy in copies if copy.app.id == name],
        [copy for copy in copies if folded(copy.app.id) == wanted or _is_called(copy.app, wanted)],
    ):
        if len(fits) > 1:
            raise AmbiguousName(name, [copy.origin for copy in fits])
        if fits:
            return fits[0]
    return None
