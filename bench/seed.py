"""Discovery against the discovery document's own algorithm, `bench/reference`.

That is a cached list of agents, which every request filters and marshals anew (seed 004, 4.4). It is in Go, as the
original is; where there is no Go, nothing is compared, and standard error says so.

CPU per request of both processes, by turns and under the same load. The reference has no second way, so ours is shown
twice: with the answers that it remembers, and asked only for what nobody asked before.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bench.figures import Figure, figure
from bench.http_servers import Process, running
from bench.queries import CACHED, COUNTS

if TYPE_CHECKING:
    from bench.discovery import Bench

TARGETS = {"page": 100.0, "page, no cache": 8.0, "lookup": 3.0}
_GO = Path(__file__).parents[1] / "tools/go"
_COUNTS = {"q1": 16, "q2": 120, "q3": 4, "q4": 16, "q5": 12, "q6": 2400, "q7": 2000}
"""Requests to the reference: enough for its garbage collector to have its share in each round."""
_OWN = 2
"""Times the requests of one measurement of ours."""
_CONNECTIONS = 8
"""Of the load on both: so many that neither goes to sleep between two requests."""
_LOOKUPS = ("q6", "q7")
_ROUNDS = 31
"""Many and short: neighbours on the machine come and go within seconds, and a round is to have the same ones."""
_UNCACHED_ROUNDS = 9
"""Of those, in which nothing is remembered, either: they take seconds each, and are far from their target."""


def built(folder: Path) -> Path | None:
    """Build the reference; None where there is no Go."""
    found = subprocess.run([str(_GO), "version"], check=False, capture_output=True, text=True)  # noqa: S603 - our own tool
    if found.returncode != 0:
        print("  no Go: the comparison with bench/reference is left out (`make setup` brings one)", file=sys.stderr)
        return None
    binary = folder / "reference"
    source = Path(__file__).with_name("reference")
    subprocess.run([str(_GO), "build", "-o", str(binary), "."], cwd=source, check=True)  # noqa: S603 - our own tool
    return binary


def against_the_seed(bench: "Bench", folder: Path, documents: list[dict[str, Any]]) -> list[Figure]:
    """Compare with the document's own algorithm, with our cache and without."""
    binary = built(folder)
    if binary is None:
        return []
    catalogue = folder / "catalogue.json"
    catalogue.write_bytes(msgspec.json.encode(sorted(documents, key=lambda document: str(document["id"]))))
    with running([str(binary), str(catalogue)], int, folder / "reference.log", GOMAXPROCS="1") as reference:
        _require_same_answers(bench.server, reference)
        return [one for name in _COUNTS for one in _compared(bench, reference, name)]


def _compared(bench: "Bench", reference: Process, name: str) -> list[Figure]:
    is_lookup = name in _LOOKUPS
    count, own = _COUNTS[name], _OWN * COUNTS[name]
    bench.cost(reference, bench.questions.some(name, count), count, _CONNECTIONS)
    cached: list[float] = []
    uncached: list[float] = []
    for number in range(_ROUNDS):
        theirs = bench.cost(reference, bench.questions.some(name, count), count, _CONNECTIONS).cpu
        ours = bench.cost(bench.server, bench.questions.some(name, own), own, _CONNECTIONS).cpu
        cached.append(theirs / ours)
        if not is_lookup and number < _UNCACHED_ROUNDS:
            uncached.append(theirs / bench.uncached_cpu(name, _CONNECTIONS))
    label = f"discovery: {name} CPU of the Go reference against ours"
    found = [figure(label, cached, "x", TARGETS["lookup" if is_lookup else "page"], "at least")]
    if uncached:
        found.append(figure(f"{label}, no cache", uncached, "x", TARGETS["page, no cache"], "at least"))
    return found


def _require_same_answers(server: Process, other: Process) -> None:
    """See that both answer the same question with the same agents; otherwise comparing says nothing."""
    for query in (CACHED["q1"], CACHED["q3"], CACHED["q6"]):
        ours, theirs = (json.loads(process.ask(query).body) for process in (server, other))
        for key in ("total_agents", "total_reasoners", "total_skills", "pagination"):
            if ours[key] != theirs[key]:
                raise RuntimeError(f"{query!r}: {key} is {ours[key]} here and {theirs[key]} there")
