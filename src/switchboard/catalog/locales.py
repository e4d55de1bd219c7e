"""Which of an app's names to show to this user: language tags, their fallbacks, and the user's own language.

Look-up follows RFC 4647 with the one refinement the seeds need: a reader of traditional Chinese is offered traditional
Chinese before simplified, and some Chinese before none.
"""

from collections.abc import Mapping

from switchboard.catalog.model import Names

_TRADITIONAL = frozenset({"hant", "tw", "hk", "mo"})
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")


def from_environment(environment: Mapping[str, str]) -> str:
    """Return the user's language tag from LC_ALL, LC_MESSAGES or LANG; `en` where none says anything."""
    for variable in _VARIABLES:
        tag = environment.get(variable, "").split(".")[0].split("@")[0].replace("_", "-")
        if tag and tag not in ("C", "POSIX"):
            return tag
    return "en"


def best(names: Names, wanted: str) -> str:
    """Return the name for a reader of `wanted`: exact, then wider, then the family, then the app's default."""
    by_tag = {tag.lower(): text for tag, text in names.texts}
    for tag in _wider(wanted.lower()):
        if tag in by_tag:
            return by_tag[tag]
    language = wanted.split("-", maxsplit=1)[0].lower()
    family = [(tag, text) for tag, text in by_tag.items() if tag.split("-", maxsplit=1)[0] == language]
    if language == "zh":
        same_script = _is_traditional(wanted.lower())
        family.sort(key=lambda entry: _is_traditional(entry[0]) != same_script)
    return family[0][1] if family else names.primary


def _wider(tag: str) -> list[str]:
    """Return the tag and its prefixes; plain `zh` is not among them, because it does not say which script."""
    parts = tag.split("-")
    shortest = 1 if parts[0] == "zh" and len(parts) > 1 else 0
    return ["-".join(parts[:length]) for length in range(len(parts), shortest, -1)]


def _is_traditional(tag: str) -> bool:
    return not _TRADITIONAL.isdisjoint(tag.split("-")[1:])
