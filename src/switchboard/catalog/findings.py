"""What a source has found: descriptors, the problems in them, and who wins when two claim one id.

Nothing that was found is ever dropped silently: a descriptor that lost, or could not be read, stays in the list with
its reason.
"""

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


def settle(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Let the first finding of each id win; every later one is kept, with an error that names the winner."""
    winners: dict[str, Finding] = {}
    settled: list[Finding] = []
    for finding in findings:
        if finding.app is None or not finding.usable:
            settled.append(finding)
            continue
        winner = winners.setdefault(finding.app.id, finding)
        settled.append(finding if winner is finding else _lost(finding, finding.app.id, winner))
    return tuple(settled)


def apps(findings: Iterable[Finding]) -> tuple[App, ...]:
    """Return the apps of the usable findings, by id."""
    found = (finding.app for finding in findings if finding.usable)
    return tuple(sorted((app for app in found if app is not None), key=lambda app: app.id))


def _lost(finding: Finding, app_id: str, winner: Finding) -> Finding:
    message = f"{app_id} is already described by {winner.location} ({winner.source}); this copy is not used"
    return replace(finding, problems=(*finding.problems, Problem("error", "conflict", "$", message)))
