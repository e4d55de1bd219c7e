"""What a measurement is, and how it is taken: repeated, with its spread, on CPU time."""

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple


class Figure(NamedTuple):
    """One measured number; `target` is what it is held to, where there is one.

    Without a `spread` it was measured once in its run; a count that cannot vary has none either. `runs` are the values
    of whole runs, where there were several: then the target has to hold in each of them. What is not built has a `note`
    instead of a value.
    """

    name: str
    value: float
    unit: str
    spread: float | None = None
    target: float | None = None
    sense: Literal["at most", "at least"] = "at most"
    runs: tuple[float, ...] = ()
    note: str = ""

    @property
    def verdict(self) -> str:
        """Say whether the target holds, in every run."""
        if self.target is None or self.note:
            return ""
        target, values = self.target, self.runs or (self.value,)
        held = [value <= target if self.sense == "at most" else value >= target for value in values]
        return "held" if all(held) else "MISSED"

    @property
    def shown(self) -> str:
        """The value as people read it."""
        if self.note:
            return self.note
        digits = f"{self.value:,.0f}" if abs(self.value) >= 1000 else f"{self.value:.3g}"
        return f"{digits} {self.unit}".rstrip()


class Timing(NamedTuple):
    """CPU seconds of one call: the median of the runs, and how far they lie apart."""

    median: float
    spread: float


def not_built(name: str) -> Figure:
    """Return a line that says that there is nothing to measure yet."""
    return Figure(name, math.nan, "", note="not built")


def figure(  # noqa: PLR0913, PLR0917 - what a figure is made of
    name: str,
    values: Sequence[float],
    unit: str,
    target: float | None = None,
    sense: Literal["at most", "at least"] = "at most",
    scale: float = 1.0,
) -> Figure:
    """Return the median of several measurements, and how far their middle half lies apart: single ones stray far."""
    ordered = sorted(value * scale for value in values)
    quarter = len(ordered) // 4
    spread = ordered[-1 - quarter] - ordered[quarter] if len(ordered) > 1 else None
    return Figure(name, statistics.median(ordered), unit, spread, target, sense)


def repeated(runs: Sequence[Sequence[Figure]]) -> list[Figure]:
    """Make one figure of those of the same name in several runs; its spread is that of the runs."""
    if len(runs) == 1:
        return list(runs[0])
    by_name: dict[str, list[Figure]] = {}
    for run in runs:
        for one in run:
            by_name.setdefault(one.name, []).append(one)
    return [_over_runs(same) for same in by_name.values()]


def _over_runs(same: list[Figure]) -> Figure:
    values = tuple(one.value for one in same)
    if same[0].note:
        return same[0]
    return same[0]._replace(value=statistics.median(values), spread=max(values) - min(values), runs=values)


def cpu(work: Callable[[], object], runs: int = 7, calls: int = 1) -> Timing:
    """Run the work repeatedly and return the CPU time of one call."""
    seconds: list[float] = []
    for _ in range(runs):
        begin = time.process_time()
        for _ in range(calls):
            work()
        seconds.append((time.process_time() - begin) / calls)
    return Timing(statistics.median(seconds), max(seconds) - min(seconds))


def table(figures: Iterable[Figure]) -> str:
    """Lay the figures out for people."""
    rows = list(figures)
    width = max([62, *(len(row.name) for row in rows)])
    lines = [f"{'figure':<{width}} {'value':>12} {'±':>8} {'target':>14}  verdict"]
    for row in rows:
        target = "" if row.target is None else f"{row.sense} {row.target:g}"
        spread = "" if row.spread is None else f"{row.spread:.2g}"
        lines.append(f"{row.name:<{width}} {row.shown:>12} {spread:>8} {target:>14}  {row.verdict}".rstrip())
    return "\n".join(lines)
