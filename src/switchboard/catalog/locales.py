"""Which of an app's names to show to this user: language tags, their fallbacks, and the user's own language.

Look-up follows RFC 4647 with the one refinement the seeds need: a reader of traditional Chinese is offered traditional
Chinese before simplified, and some Chinese before none.
"""

from collections.abc import Mapping

from switchboard.catalog.model import Names

_TRADITIONAL = ("zh-TW", "zh-Hant", "zh-HK", "zh-MO")
_SIMPLIFIED = ("zh-CN", "zh-SG", "zh-Hans", "zh")
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
    for tag in _chain(wanted):
        if tag.lower() in by_tag:
            return by_tag[tag.lower()]
    language = wanted.split("-", maxsplit=1)[0].lower()
    family = (text for tag, text in by_tag.items() if tag.split("-")[0] == language)
    return next(family, names.primary)


def _chain(wanted: str) -> list[str]:
    parts = wanted.split("-")
    wider = ["-".join(parts[:length]) for length in range(len(parts), 0, -1)]
    if parts[0].lower() != "zh":
        return wider
    lowered = wanted.lower()
    traditional = "hant" in lowered or any(lowered.startswith(tag.lower()) for tag in _TRADITIONAL)
    if traditional:
        return [*wider[:-1], *_TRADITIONAL, *_SIMPLIFIED]
    return [*wider[:-1], *_SIMPLIFIED, *_TRADITIONAL]
