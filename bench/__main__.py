"""`make bench`: take every measurement, print a table, write bench/results.json, and draw what grows.

python -m bench [SUITE ...] [--repeat N]   measure; a target has to hold in every one of N runs
python -m bench plots                      draw docs/pictures from bench/results.json
python -m bench claims                     write what the documents claim anew, from bench/results.json
python -m bench profile [PART ...]         where the time goes: q1, q6, q7, start, scan
"""

import argparse
import importlib
import json
import math
import platform
import sys
import time
from pathlib import Path
from typing import Any

from bench.figures import Figure, repeated, table

SUITES = ("scan", "catalog", "growth", "discovery", "gateway", "context", "store", "execute", "sdk", "cluster", "watch")
RESULTS = Path(__file__).with_name("results.json")


def main(arguments: list[str]) -> int:
    """Do what is asked for; exit 1 when a target is missed, 2 when nobody knows what is meant."""
    match arguments:
        case ["plots"]:
            importlib.import_module("bench.plots").draw(results(RESULTS))
            return 0
        case ["claims"]:
            importlib.import_module("bench.claims").update(results(RESULTS))
            return 0
        case ["profile", *parts]:
            return importlib.import_module("bench.profiles").main(parts)
        case _:
            return _measure(arguments)


def _measure(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    parser.add_argument("--repeat", type=int, default=1, metavar="N")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.suites if name not in SUITES]
    if unknown:
        print(f"no suite {', '.join(unknown)}; there are: {', '.join(SUITES)}", file=sys.stderr)
        return 2
    begin, kept = time.monotonic(), results(RESULTS)
    figures: list[Figure] = []
    for name in given.suites or SUITES:
        runs = [_run(name, number, given.repeat, begin) for number in range(1, given.repeat + 1)]
        measured = repeated(runs)
        figures += measured
        kept[name] = {"figures": [_plain(one) for one in measured], "runs": given.repeat}
        _write(kept)
    print(table(figures))
    missed = sum(one.verdict == "MISSED" for one in figures)
    print(f"{len(figures)} figures in {time.monotonic() - begin:.0f} s, {missed} targets missed", file=sys.stderr)
    if set(kept) >= {"growth", "context"}:
        importlib.import_module("bench.plots").draw(kept)
    return 1 if missed else 0


def _run(name: str, number: int, count: int, begin: float) -> list[Figure]:
    which = f", run {number} of {count}" if count > 1 else ""
    print(f"[{time.monotonic() - begin:5.0f} s] measuring {name}{which} ...", file=sys.stderr, flush=True)
    return importlib.import_module(f"bench.{name}").figures()


def results(file: Path) -> dict[str, Any]:
    """Return what was measured before, by suite."""
    try:
        return json.loads(file.read_text())["suites"]
    except (FileNotFoundError, KeyError):
        return {}


def _plain(one: Figure) -> dict[str, Any]:
    value = None if math.isnan(one.value) else one.value
    return {**one._asdict(), "value": value, "shown": one.shown, "verdict": one.verdict}


def _write(kept: dict[str, Any]) -> None:
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    RESULTS.write_text(json.dumps({"machine": machine, "suites": kept}, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
