"""What a site publishes, fetched once for whoever wants to look at it: nothing is kept, and no copy is believed.

A site alone means its `/.well-known/aai.json`. What a gateway would not take from there is refused here as well.
"""

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from switchboard.catalog.errors import NotFound, ServiceUnavailable
from switchboard.sources import copies
from switchboard.sources.wellknown import PATH, is_page, is_same_site

if TYPE_CHECKING:
    from switchboard.net.fetch import Answer, Fetch

_OK = 200


class Published(NamedTuple):
    """A descriptor as it was sent, and where from: `shown` is what may be printed of that, `origin` whose it is."""

    raw: bytes
    shown: str
    origin: str


async def published(url: str, fetch: "Fetch") -> Published:
    """Fetch the descriptor at an address, or the one of a site.

    Raises:
        RefusedAddress, UnknownHost, CallTimeout, ServiceUnavailable: it cannot be fetched.
        NotFound: there is none.
    """
    address = copies.spelled(url)
    if urlsplit(address).path == "/":
        address = (copies.origin_of(address) or "") + PATH
    answer = await fetch.send("GET", address, headers=[("Accept", "application/json, application/aai+json")])
    origin, shown = copies.origin_of(address) or "", copies.shown_address(address)
    elsewhere = copies.origin_of(answer.url) or ""
    if elsewhere != origin and not is_same_site(origin, elsewhere):
        raise ServiceUnavailable(f"{shown} redirects to another site, {elsewhere}. Name that address instead.")
    _require_descriptor(answer, shown)
    return Published(answer.body, shown, origin)


def _require_descriptor(answer: "Answer", shown: str) -> None:
    if answer.status != _OK:
        raise NotFound(f"{shown} answers {answer.status}. Put the descriptor there, or name where it is.")
    if is_page(answer):
        raise NotFound(f"{shown} answers with a page, not with JSON. Put the descriptor there, or name where it is.")
