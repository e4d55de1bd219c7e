"""`make bench`: take every measurement, print a table, write bench/results.json, and draw what grows.

python -m bench [SUITE ...] [--repeat N]   measure; a target has to hold in every one of N runs
                [--when-quiet MINUTES]     before each run wait until the machine is quiet, but no longer than that
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
from bench.pace import Machine

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
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"one or more of: {', '.join(SUITES)}")
    parser.add_argument("--repeat", type=int, default=1, metavar="N")
    parser.add_argument("--when-quiet", type=float, default=0.0, metavar="MINUTES")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.suites if name not in SUITES]
    if unknown:
        print(f"no suite {', '.join(unknown)}; there are: {', '.join(SUITES)}", file=sys.stderr)
        return 2
    begin, kept, machine = time.monotonic(), results(RESULTS), Machine(_best_pace(RESULTS))
    figures: list[Figure] = []
    slowness: list[float] = []
    for name in given.suites or SUITES:
        runs: list[list[Figure]] = []
        for number in range(1, given.repeat + 1):
            if given.when_quiet:
                machine.wait(given.when_quiet * 60)
            runs.append(_run(name, number, given.repeat, begin))
            slowness.append(machine.slowness())
        measured = repeated(runs)
        figures += measured
        paces = [round(one, 2) for one in slowness[-given.repeat :]]
        kept[name] = {"figures": [_plain(one) for one in measured], "runs": given.repeat, "slowness": paces}
        _write(kept, machine)
    print(table(figures))
    missed = sum(one.verdict == "MISSED" for one in figures)
    print(
        f"{len(figures)} figures in {time.monotonic() - begin:.0f} s, {missed} targets missed; after each run, the "
        f"machine took {min(slowness):.2f} to {max(slowness):.2f} times as long for the same work as at its best",
        file=sys.stderr,
    )
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


def _best_pace(file: Path) -> float | None:
    """Return the best pace that was seen before, with the same Python."""
    try:
        machine = json.loads(file.read_text())["machine"]
    except (FileNotFoundError, KeyError):
        return None
    return machine.get("best_pace_ms") if machine.get("python") == platform.python_version() else None


def _plain(one: Figure) -> dict[str, Any]:
    value = None if math.isnan(one.value) else one.value
    return {**one._asdict(), "value": value, "shown": one.shown, "verdict": one.verdict}


def _write(kept: dict[str, Any], machine: Machine) -> None:
    about = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "best_pace_ms": round(machine.best, 3),
    }
    RESULTS.write_text(json.dumps({"machine": about, "suites": kept}, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
