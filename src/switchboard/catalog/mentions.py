"""What somebody may mean by a web app: an address, a domain, or only a name.

Looks at the text alone. What reads as the id of an app (`com.example.mail`) is not taken for a domain: looking up a
guess would tell strangers what the user is doing.
"""

import re
import unicodedata

from msgspec import Struct

_URL = re.compile(r"(https?)://([^/?#\s]+)(?:[/?#].*)?", re.IGNORECASE | re.DOTALL)
_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
_DOMAIN = re.compile(rf"((?:{_LABEL}\.)+{_LABEL}\.?)(:\d{{1,5}})?(?:/[^\s]*)?")
_LOCAL = re.compile(r"((?:localhost|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?)(?:/[^\s]*)?")
_NEVER_A_SUBDOMAIN = frozenset({"com", "org", "net", "edu", "gov"})
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
    local = _LOCAL.fullmatch(said)
    if local is not None:
        return Mention(said, f"https://{local[1].lower()}")
    domain = _DOMAIN.fullmatch(said)
    if domain is None or _reads_as_id(domain[1]):
        return Mention(said)
    return Mention(said, f"https://{domain[1].lower().rstrip('.')}{domain[2] or ''}")


def _reads_as_id(domain: str) -> bool:
    """Tell `com.notion.api` from `api.notion.com`: an id begins with what a domain ends with."""
    labels = domain.lower().rstrip(".").split(".")
    if labels[0] in _NEVER_A_SUBDOMAIN:
        return True
    return labels[0] in _ENDINGS and labels[-1] not in _ENDINGS
