"""What somebody may mean by a web app: an address, a domain, or only a name.

Looks at the text alone. What reads as the id of an app (`com.example.mail`) is not taken for a domain: looking up a
guess would tell strangers what the user is doing.
"""

import re
import unicodedata

from msgspec import Struct

_URL = re.compile(r"([a-z][a-z0-9+.-]{0,30})://([^/?#\s]+)(?:[/?#].*)?", re.IGNORECASE | re.DOTALL)
_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
_DOMAIN = re.compile(rf"((?:{_LABEL}\.)+{_LABEL}\.?)(:\d{{1,5}})?(?:[/?#]\S*)?")
_LOCAL = re.compile(r"(localhost|\[[0-9a-f:.]+\])(:\d{1,5})?(?:[/?#]\S*)?", re.IGNORECASE)
_NUMBER = re.compile(r"\d+|0[xX][0-9a-fA-F]*")
_OCTET = re.compile(r"0|[1-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-5]")
_PARTS = 4
_HTTPS_PORT = 443
_LONGEST_DOMAIN = 253
_NEVER_A_SUBDOMAIN = frozenset({"com", "org", "net", "edu", "gov"})
_OFTEN_A_SUBDOMAIN = frozenset({"app", "cloud", "dev", "id", "info", "me", "page", "pro", "site", "store", "wiki"})
_OFTEN_ENDS_AN_ID = frozenset({"app", "cloud", "page", "pro", "site", "store", "tech", "wiki"})
# fmt: off
_ENDINGS = frozenset({
    "ai", "app", "at", "au", "be", "biz", "br", "ca", "cc", "ch", "cloud", "cn", "co", "com", "de", "dev", "edu", "es",
    "eu", "fm", "fr", "gov", "hk", "id", "in", "info", "io", "ir", "it", "jp", "kr", "ly", "me", "mx", "net", "nl",
    "nz", "org", "page", "pl", "pro", "pt", "ru", "se", "sg", "sh", "site", "so", "store", "tech", "tv", "tw", "uk",
    "us", "wiki", "xyz", "za",
})
# fmt: on
_LONGEST = 2000


class Mention(Struct, frozen=True):
    """A text that names a web app: `origin` where it is an address or a domain, else only `name`."""

    name: str
    origin: str | None = None
    explicit: bool = False
    """Whether the text is an address with a scheme, which can mean nothing else."""


def read(text: str) -> Mention:
    """Read what somebody wrote: `https://notion.com/page`, `notion.com`, or `Notion`."""
    said = unicodedata.normalize("NFKC", text[:_LONGEST]).strip()
    url = _URL.fullmatch(said)
    if url is not None:
        return Mention(said, f"{url[1].lower()}://{url[2].lower()}", explicit=True)
    local = _LOCAL.fullmatch(said) or _DOMAIN.fullmatch(said)
    if local is None:
        return Mention(said)
    labels = local[1].lower().rstrip(".").split(".")
    if _reads_as_number(labels) or _reads_as_id(labels):
        return Mention(said)
    host = ".".join(map(_ascii, labels))
    return Mention(said) if len(host) > _LONGEST_DOMAIN else Mention(said, f"https://{host}{_port(local[2])}")


def _reads_as_id(labels: list[str]) -> bool:
    """Tell `com.notion.api` from `api.notion.com`: an id begins with what a domain ends with.

    Where both could be, it is an id: who means the domain can write its address.
    """
    first, *between, last = labels if len(labels) > 1 else ["", *labels]
    if first not in _ENDINGS:
        return False
    if first in _NEVER_A_SUBDOMAIN or last not in _ENDINGS:
        return True
    return bool(between) and last in _OFTEN_ENDS_AN_ID and first not in _OFTEN_A_SUBDOMAIN


def _reads_as_number(labels: list[str]) -> bool:
    """Tell `3.14` and a version from an address, which has four parts."""
    if not _NUMBER.fullmatch(labels[-1]):
        return False
    return not (len(labels) == _PARTS and all(_OCTET.fullmatch(label) for label in labels))


def _ascii(label: str) -> str:
    """Return a label as it is looked up."""
    return label if label.isascii() else f"xn--{label.encode('punycode').decode()}"


def _port(text: str | None) -> str:
    return "" if text is None or int(text[1:]) == _HTTPS_PORT else f":{int(text[1:])}"
