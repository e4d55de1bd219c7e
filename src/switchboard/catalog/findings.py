"""What a source has found: descriptors, the problems in them, and who wins when two claim one id.

Nothing that was found is ever dropped silently: a descriptor that lost, or could not be read, stays in the list with
its reason. One that cannot be read keeps the id it stands for, so that nobody else takes its place meanwhile.
"""

import unicodedata
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from switchboard.catalog.model import App

Severity = Literal["error", "warning"]
ProblemKind = Literal[
    "unreadable", "syntax", "missing", "type", "value", "cross", "alias", "default", "unknown", "conflict"
]


class Problem(Struct, frozen=True):
    """One thing that is wrong with a descriptor, where it is (JSON path, `$` for the whole), and how bad that is.

    An error makes the descriptor unusable; a warning was mended by the reader.
    """

    severity: Severity
    kind: ProblemKind
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class Finding(Struct, frozen=True, kw_only=True):
    """One descriptor at one place; `app` is None where it could not be used."""

    source: str
    location: str
    app: App | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether there is an app, and no error speaks against it."""
        return self.app is not None and not any(problem.severity == "error" for problem in self.problems)

    @property
    def stands_for(self) -> str:
        """The id this is about, as far as the place says it where the descriptor cannot be read."""
        if self.app is not None:
            return self.app.id
        match self.location.replace("\\", "/").split("/"):
            case [*_, bundle, "Contents", "Resources", _]:
                return bundle.removesuffix(".app")
            case [*_, folder, "aai.json"]:
                return folder
            case [*_, file]:
                return file.removesuffix(".json").removesuffix(".desktop")
            case _:
                return ""


def folded(name: str) -> str:
    """Return an id or a name as it is compared: two that differ in letter case or width only are one."""
    return unicodedata.normalize("NFKC", name).casefold().strip()


def settle(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Let the first finding of each id win; every later one is kept, with an error that names the winner.

    A finding that cannot be used wins as well, and nobody has the id then: a file that is being written, or that
    somebody has broken, must not be replaced by what a registry offers under its id.
    """
    winners: dict[str, Finding] = {}
    settled: list[Finding] = []
    for finding in findings:
        winner = winners.setdefault(folded(finding.stands_for), finding)
        settled.append(finding if winner is finding or not finding.usable else _lost(finding, winner))
    return tuple(settled)


def apps(findings: Iterable[Finding]) -> tuple[App, ...]:
    """Return the apps of the usable findings, by id."""
    found = (finding.app for finding in findings if finding.usable)
    return tuple(sorted((app for app in found if app is not None), key=lambda app: app.id))


def _lost(finding: Finding, winner: Finding) -> Finding:
    wanted, place = finding.stands_for, f"{winner.location} ({winner.source})"
    if not winner.usable:
        message = f"{wanted} is described by {place}, which cannot be used; this copy does not take its place"
    elif winner.stands_for != wanted:
        message = f"{wanted} cannot be told from {winner.stands_for}, described by {place}; this one is not used"
    else:
        message = f"{wanted} is already described by {place}; this copy is not used"
    return replace(finding, problems=(*finding.problems, Problem("error", "conflict", "$", message)))
