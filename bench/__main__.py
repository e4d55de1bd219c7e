"""`make bench`: take every measurement, print a table, write bench/results.json."""

import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path

from bench import catalog, cluster, discovery, execute, gateway, scan, sdk, store, watch
from bench.figures import Figure, table

SUITES: dict[str, Callable[[], list[Figure]]] = {
    "scan": scan.figures,
    "catalog": catalog.figures,
    "discovery": discovery.figures,
    "gateway": gateway.figures,
    "store": store.figures,
    "execute": execute.figures,
    "sdk": sdk.figures,
    "cluster": cluster.figures,
    "watch": watch.figures,
}


def main(wanted: list[str]) -> int:
    """Run the named suites, or all of them; exit 1 when a target is missed."""
    unknown = [name for name in wanted if name not in SUITES]
    if unknown:
        print(f"no suite {', '.join(unknown)}; there are: {', '.join(SUITES)}", file=sys.stderr)
        return 2
    figures: list[Figure] = []
    for name in wanted or SUITES:
        print(f"measuring {name} ...", file=sys.stderr)
        figures += SUITES[name]()
    print(table(figures))
    machine = {"python": platform.python_version(), "machine": platform.machine()}
    results = {"machine": machine, "figures": [{**figure._asdict(), "verdict": figure.verdict} for figure in figures]}
    Path(__file__).with_name("results.json").write_text(json.dumps(results, indent=2) + "\n")
    return 1 if any(figure.verdict == "MISSED" for figure in figures) else 0


sys.exit(main(sys.argv[1:]))
