"""Where the calls of a web app go, and who vouches for it: what is shown at the first contact, and what is new later.

Certificates are looked at through the guarded client, which accepts only chains of the system's trust store. What the
user has confirmed is a value (`Confirmed`); whether it still holds is decided here, without any I/O.
"""

from asyncio import gather
from collections.abc import Callable, Container, Mapping
from ssl import SSLError
from typing import TYPE_CHECKING, final

from msgspec import Struct

from switchboard.actions.ports import Clock
from switchboard.catalog.bindings import AppCredential, Cookie, Http, OAuth2
from switchboard.catalog.caches import USUAL, Cache, Caches
from switchboard.catalog.errors import CallTimeout, Unreached
from switchboard.catalog.model import App
from switchboard.catalog.text import clean
from switchboard.net.guard import read as read_address
from switchboard.security.grants import Confirmed
from switchboard.security.tools import Seen

if TYPE_CHECKING:
    from switchboard.net.fetch import Fetch

_FRESH_S = 3600.0
_MOST_SEEN = 1000
_LONGEST = 120
_MARK = 16
PLAIN = "-"
"""What stands in the place of an issuer where there is no certificate: plain http on this machine."""


class Vouched(Struct, frozen=True, kw_only=True):
    """A host that is called, and what its certificate says; without one, `issuer` is `PLAIN`."""

    host: str
    issuer: str = PLAIN
    subject: str = ""
    names: tuple[str, ...] = ()
    since: str = ""
    until: str = ""


class Differences(Struct, frozen=True, kw_only=True):
    """What is not as the user confirmed it."""

    issuers: tuple[tuple[str, str, str], ...] = ()
    """Host, who vouched for it, and who does now."""
    hosts: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether there is anything to ask about."""
        return any((self.issuers, self.hosts, self.scopes, self.added, self.removed, self.changed))


def places(app: App, *, own: bool = True) -> tuple[str, ...]:
    """Return every `scheme://host[:port]` that a web app's calls and sign-in go to, its `own` site first.

    An address that cannot be read is one of them as it is: whoever looks there finds that out.
    """
    if not isinstance(app.execution, Http):
        return ()
    urls = [*((app.origin,) if own else ()), app.execution.base_url, *_endpoints(app)]
    return tuple(dict.fromkeys(_origin(url) for url in urls if url.lower().startswith(("http://", "https://"))))


def confirmation(app: App, vouched: Mapping[str, Vouched], tools: Mapping[str, Seen], at: float) -> Confirmed:
    """Return what the user confirms when they say yes now."""
    return Confirmed(
        at=at,
        issuers={one.host: one.issuer for one in vouched.values()},
        scopes=_scopes(app),
        tools={name: seen.mark[:_MARK] for name, seen in tools.items()},
    )


def differences(before: Confirmed, now: Confirmed) -> Differences:
    """Return what is new since the user last said yes."""
    return Differences(
        issuers=tuple(
            (host, before.issuers[host], issuer)
            for host, issuer in now.issuers.items()
            if host in before.issuers and before.issuers[host] != issuer
        ),
        hosts=tuple(host for host in now.issuers if not _is_within(host, before.issuers)),
        scopes=tuple(scope for scope in now.scopes if scope not in before.scopes),
        added=tuple(name for name in now.tools if name not in before.tools),
        removed=tuple(name for name in before.tools if name not in now.tools),
        changed=tuple(name for name, mark in now.tools.items() if before.tools.get(name, mark) != mark),
    )


@final
class Contacts:
    """Looks at the certificates of hosts, each at most once an hour."""

    def __init__(self, fetch: "Callable[[], Fetch]", clock: Clock, caches: Caches = USUAL) -> None:
        self._fetch = fetch
        self._clock = clock
        self._seen: Cache[str, tuple[float, Vouched]] = Cache(caches.most(_MOST_SEEN))
        self._places: Cache[str, tuple[App, tuple[str, ...]]] = Cache(caches.most(_MOST_SEEN))

    def known(self, app: App) -> dict[str, Vouched] | None:
        """Return who vouches for every place of an app, if all were looked at lately; nobody for one that has none."""
        now, found = self._clock.passed(), dict[str, Vouched]()
        for place in self._places_of(app):
            until, vouched = self._seen.get(place, (0.0, None))
            if vouched is None or until < now:
                return None
            found[place] = vouched
        return found

    def _places_of(self, app: App) -> tuple[str, ...]:
        """Return the places of an app; to read its addresses with every call costs more than to look them up."""
        known, found = self._places.get(app.id, (None, ()))
        return found if known is app else self._places.keep(app.id, (app, places(app)))[1]

    async def look(self, app: App, confirmed: Container[str] = ()) -> dict[str, Vouched]:
        """Return who vouches for every place of an app.

        The site that an app's description is from, and that is not called itself, need not be there when the user has
        `confirmed` that host: a registry that is down keeps nobody from what it once listed.

        Raises:
            SwitchboardError: one of them cannot be reached, must not be, or shows a certificate that nobody trusts.
        """
        wanted, needed = places(app), places(app, own=False)
        found = await gather(
            *(self._look(place, needed=place in needed or _host(place) not in confirmed) for place in wanted)
        )
        until, vouched = self._clock.passed() + _FRESH_S, dict[str, Vouched]()
        for place, one in zip(wanted, found, strict=True):
            if one is not None:
                vouched[place] = one
                self._seen.keep(place, (until, one))
        return vouched

    async def _look(self, place: str, *, needed: bool) -> Vouched | None:
        try:
            return await self._shown(place)
        except (Unreached, CallTimeout) as error:
            if needed or _is_about_its_certificate(error):
                raise
            return None

    async def _shown(self, place: str) -> Vouched:
        host = _host(place)
        if place.startswith("http:"):
            await self._fetch().knock(place)  # the guard lets it through on this machine only, and only for developers
            return Vouched(host=host)
        return read(host, await self._fetch().certificate(place))


def _is_about_its_certificate(error: BaseException) -> bool:
    """Tell whether somebody is there who cannot show who they are."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, SSLError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def read(host: str, certificate: bytes) -> Vouched:
    """Return what a certificate says, cleaned: whoever asks for one chooses what is in it."""
    from cryptography import x509  # noqa: PLC0415 - with the first web app
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    shown = x509.load_der_x509_certificate(certificate)

    def said(name: x509.Name) -> str:
        parts = [
            *name.get_attributes_for_oid(NameOID.ORGANIZATION_NAME),
            *name.get_attributes_for_oid(NameOID.COMMON_NAME),
        ]
        return clean(str(parts[0].value), _LONGEST) if parts else ""

    try:
        alternative = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = [str(name) for name in alternative.get_values_for_type(x509.DNSName)]
    except x509.ExtensionNotFound:
        names = []
    return Vouched(
        host=host,
        issuer=said(shown.issuer) or "?",
        subject=said(shown.subject),
        names=tuple(clean(name, _LONGEST) for name in names[:5]),
        since=shown.not_valid_before_utc.date().isoformat(),
        until=shown.not_valid_after_utc.date().isoformat(),
    )


def _endpoints(app: App) -> list[str]:
    match app.auth:
        case OAuth2() as auth:
            return [auth.authorization_endpoint, auth.token_endpoint, *filter(None, [auth.refresh_endpoint])]
        case AppCredential() as auth:
            return [auth.token_endpoint]
        case Cookie() as auth:
            return [auth.login_url]
        case _:
            return []


def _scopes(app: App) -> tuple[str, ...]:
    return app.auth.scopes if isinstance(app.auth, OAuth2) else ()


def _origin(url: str) -> str:
    found = read_address(url)
    return url if found is None else f"{found.scheme}://{found.authority}"


def _host(place: str) -> str:
    return place.partition("://")[2]


def _is_within(host: str, known: Mapping[str, str]) -> bool:
    """Tell whether a host was confirmed, or belongs to one that was: `api.example.com` to `example.com`."""
    return any(host == one or host.endswith(f".{one}") for one in known)
