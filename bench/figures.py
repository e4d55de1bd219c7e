"""What a measurement is, and how it is taken: repeated, with its spread, on CPU time."""

import statistics
import time
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple


class Figure(NamedTuple):
    """One measured number; `target` is what it is held to, where there is one."""

    name: str
    value: float
    unit: str
    spread: float = 0.0
    target: float | None = None
    sense: Literal["at most", "at least"] = "at most"

    @property
    def verdict(self) -> str:
        """Say whether the target holds."""
        if self.target is None:
            return ""
        held = self.value <= self.target if self.sense == "at most" else self.value >= self.target
        return "held" if held else "MISSED"


class Timing(NamedTuple):
    """CPU seconds of one call: the median of the runs, and how far they lie apart."""

    median: float
    spread: float


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
    lines = [f"{'figure':<62} {'value':>12} {'±':>8} {'target':>14}  verdict"]
    for figure in figures:
        target = "" if figure.target is None else f"{figure.sense} {figure.target:g}"
        value = f"{figure.value:.3g} {figure.unit}"
        lines.append(f"{figure.name:<62} {value:>12} {figure.spread:>8.2g} {target:>14}  {figure.verdict}")
    return "\n".join(lines)
