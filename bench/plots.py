"""Pictures for the documents, drawn from bench/results.json: lines over two logarithmic scales, as SVG.

They are read on light and on dark pages: colours follow the reader's choice, and each line has its name at its end.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

PICTURES = Path(__file__).parents[1] / "docs/pictures"
_WIDTH, _HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 130, 50, 55
_COLOURS = (("#0969da", "#58a6ff"), ("#bc4c00", "#ffa657"), ("#1a7f37", "#56d364"), ("#8250df", "#d2a8ff"))

Points = Sequence[tuple[float, float]]


class Plot(NamedTuple):
    """A picture of some lines."""

    title: str
    across: str
    up: str
    lines: Mapping[str, Points]


def draw(suites: Mapping[str, Any], folder: Path = PICTURES) -> list[Path]:
    """Draw what was measured, and return the files."""
    values = {one["name"]: one["value"] for suite in suites.values() for one in suite["figures"]}
    cost = {
        f"{name} {what}": _points(values, rf"growth: {name} at ([\d,]+) agents, CPU per request")
        for name, what in (("q1", "a page"), ("q2", "*research*"), ("q7", "three agents"), ("q6", "one agent"))
    }
    tokens = {
        "every tool": _points(values, r"context: every tool of (\d+) apps, if all were listed"),
        "our list": _points(values, r"context: whole list, (\d+) apps"),
    }
    apps = [size for size, _ in tokens["our list"]]
    guide = values.get("context: one guide, ten tools")
    if guide:
        tokens["one guide"] = [(size, guide) for size in apps]
    plots = {
        "cost-by-agents.svg": Plot("CPU of one discovery request, nothing cached", "agents", "µs", cost),
        "context-by-apps.svg": Plot("What a model reads, ten tools in each app", "apps", "tokens", tokens),
    }
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, plot in plots.items():
        if all(plot.lines.values()):
            (folder / name).write_text(svg(plot), encoding="utf-8")
            written.append(folder / name)
    return written


def _points(values: Mapping[str, float], pattern: str) -> Points:
    found = ((re.fullmatch(pattern, name), value) for name, value in values.items())
    return sorted((float(match[1].replace(",", "")), value) for match, value in found if match)


def svg(plot: Plot) -> str:
    """Return the picture as a document."""
    every = [point for points in plot.lines.values() for point in points]
    across, up = _decades(x for x, _ in every), _decades(y for _, y in every)

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            _scaled(x, across, _LEFT, _WIDTH - _RIGHT),
            _scaled(y, up, _HEIGHT - _BOTTOM, _TOP),
        )

    parts = [_STYLE, f'<text class="title" x="{_LEFT}" y="25">{escape(plot.title)}</text>']
    for power in range(up[0], up[1] + 1):
        y = place(10.0 ** across[0], 10.0**power)[1]
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_number(10**power)}</text>')
    for power in range(across[0], across[1] + 1):
        x = place(10.0**power, 10.0 ** up[0])[0]
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 20}" text-anchor="middle">{_number(10**power)}</text>')
    parts.append(f'<text x="{_LEFT - 8}" y="{_TOP - 10}" text-anchor="end">{escape(plot.up)}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{_HEIGHT - 12}" text-anchor="middle">{escape(plot.across)}</text>')
    ends = _apart([place(*points[-1])[1] for points in plot.lines.values()])
    for number, ((name, points), end) in enumerate(zip(plot.lines.items(), ends, strict=True)):
        placed = [place(x, y) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline class="line c{number}" points="{path}"/>')
        parts += [f'<circle class="dot c{number}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in placed]
        parts.append(
            f'<text class="name c{number}" x="{placed[-1][0] + 10:.1f}" y="{end + 4:.1f}">{escape(name)}</text>'
        )
    body = "\n".join(parts)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
    return f'{head} aria-label="{escape(plot.title)}">\n{body}\n</svg>\n'


def _style() -> str:
    light = "".join(f".c{number}{{--c:{one}}}" for number, (one, _) in enumerate(_COLOURS))
    dark = "".join(f".c{number}{{--c:{one}}}" for number, (_, one) in enumerate(_COLOURS))
    return (
        "<style>text{font:13px system-ui,sans-serif;fill:#57606a}.title{font-size:15px;font-weight:600;fill:#24292f}"
        ".grid{stroke:#d0d7de}.line{fill:none;stroke:var(--c);stroke-width:2}.dot{fill:var(--c)}.name{fill:var(--c)}"
        f"{light}@media(prefers-color-scheme:dark){{text{{fill:#8b949e}}.title{{fill:#e6edf3}}.grid{{stroke:#30363d}}"
        f".name{{fill:var(--c)}}{dark}}}</style>"
    )


_STYLE = _style()


def _decades(values: Any) -> tuple[int, int]:
    found = [math.log10(value) for value in values]
    return math.floor(min(found)), max(math.ceil(max(found)), math.floor(min(found)) + 1)


def _scaled(value: float, decades: tuple[int, int], begin: float, end: float) -> float:
    share = (math.log10(value) - decades[0]) / (decades[1] - decades[0])
    return begin + share * (end - begin)


def _apart(places: Sequence[float], least: float = 16.0) -> list[float]:
    """Move names apart that would lie on each other, keeping their order."""
    moved = dict[int, float]()
    last = -math.inf
    for index in sorted(range(len(places)), key=lambda one: places[one]):
        last = moved[index] = max(places[index], last + least)
    return [moved[index] for index in range(len(places))]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
