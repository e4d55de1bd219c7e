"""Semantic versions (semver.org 2.0.0): which of two is newer, and what a new one promises about the one before.

Precedence is that of section 11, pre-releases included; build metadata is no part of it. Below 1.0.0 the MINOR number
takes the place of MAJOR, as section 4 leaves it to us.
"""

import re
from functools import total_ordering
from typing import Literal

from msgspec import Struct

Step = Literal["patch", "minor", "major"]
"""How much a change asks of those who use what was there before."""

LONGEST = 100
_NUMBER = r"(?:0|[1-9][0-9]*)"
_LABEL = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_LABEL}(?:\.{_LABEL})*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)
_STEPS: tuple[Step, ...] = ("patch", "minor", "major")


@total_ordering
class Version(Struct, frozen=True, eq=False):
    """One version; two that differ in build metadata only are the same."""

    major: int
    minor: int
    patch: int
    labels: tuple[str, ...] = ()

    def __str__(self) -> str:
        core = f"{self.major}.{self.minor}.{self.patch}"
        return f"{core}-{'.'.join(self.labels)}" if self.labels else core

    def __hash__(self) -> int:
        return hash(self._order)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._order == other._order

    def __lt__(self, other: "Version") -> bool:
        return self._order < other._order

    @property
    def is_stable(self) -> bool:
        """Whether it is a release, which promises something, and no pre-release, which promises nothing."""
        return not self.labels

    @property
    def _order(self) -> tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]:
        # A release comes after its pre-releases, a number before a text, and fewer labels before more.
        labels = tuple(
            (not label.isdecimal(), int(label) if label.isdecimal() else 0, "" if label.isdecimal() else label)
            for label in self.labels
        )
        return self.major, self.minor, self.patch, not self.labels, labels

    def step_from(self, before: "Version") -> Step:
        """Return how large a step this is after another one."""
        if self.major != before.major:
            return "major"
        if self.minor != before.minor:
            return "minor" if self.major else "major"
        return "patch"

    def allows(self, step: Step, before: "Version") -> bool:
        """Tell whether a change of this size may be published under this version after that one."""
        made = self.step_from(before)
        if step == "minor" and not self.major and not before.major:
            return True  # below 1.0.0 there is no number left to tell additions from corrections
        return _STEPS.index(made) >= _STEPS.index(step)

    def after(self, step: Step) -> "Version":
        """Return the lowest release that may follow this one with such a change."""
        if not self.is_stable and step == "patch":
            return Version(self.major, self.minor, self.patch)
        if step == "major" and self.major:
            return Version(self.major + 1, 0, 0)
        if step == "major" or (step == "minor" and self.major):
            return Version(self.major, self.minor + 1, 0)
        return Version(self.major, self.minor, self.patch + 1)


def parse(text: str) -> Version | None:
    """Read a version; None where it is none."""
    match = _SEMVER.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        return None
    return Version(int(match[1]), int(match[2]), int(match[3]), tuple(match[4].split(".")) if match[4] else ())
