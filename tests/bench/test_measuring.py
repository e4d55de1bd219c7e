"""The measuring itself: what a run of the benchmarks is held to. The figures come from `make bench` alone."""

import subprocess
import sys
from pathlib import Path

import pytest
from bench.figures import Figure, table
from bench.pace import Machine, pace
from tests.support import requirement

from bench import discovery

ROOT = Path(__file__).parents[2]


@requirement(
    "perf:response:p50",
    "perf:response:p95",
    "perf:response:p99",
    "perf:throughput:instance",
    "perf:cache:hit-rate",
    "perf:memory:instance",
)
def test_the_benchmark_holds_the_server_to_the_numbers_of_the_seed() -> None:
    """Section 4.1: latency at a thousand requests per second, hit rate and memory of one instance."""
    assert discovery.SEED == {"p50": 50, "p95": 100, "p99": 200, "rate": 1000, "hit rate": 0.95, "memory": 100}


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (Figure("a", 49.0, "ms", target=50.0), "held"),
        (Figure("a", 51.0, "ms", target=50.0), "MISSED"),
        (Figure("a", 0.96, "", target=0.95, sense="at least"), "held"),
        (Figure("a", 0.94, "", target=0.95, sense="at least"), "MISSED"),
        (Figure("a", 7.0, "µs"), ""),
    ],
)
def test_a_figure_says_whether_its_target_holds(figure: Figure, verdict: str) -> None:
    """And so does its line in the table."""
    assert figure.verdict == verdict
    assert table([figure]).splitlines()[1].endswith(verdict)


def test_an_unknown_suite_is_told_which_there_are() -> None:
    """With exit code 2."""
    run = subprocess.run(
        [sys.executable, "-m", "bench", "nonsense"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    suites = "scan, catalog, growth, discovery, gateway, context, store, execute, sdk, cluster, watch"
    assert (run.returncode, run.stderr) == (2, f"no suite nonsense; there are: {suites}\n")


def test_a_run_can_wait_until_the_machine_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As quick as it was at its best, which may be known from before; and for ever it does not wait."""
    paces = iter([10.0, 20.0, 15.0, 11.0, 9.0, 18.0])
    monkeypatch.setattr("bench.pace.pace", lambda: next(paces))
    monkeypatch.setattr("bench.pace._LOOK_EVERY_S", 0.0)
    machine = Machine(best=12.0)

    machine.wait(60.0)
    assert (machine.best, capsys.readouterr().err) == (10.0, "")
    assert (machine.slowness(), machine.best) == (1.0, 9.0)
    machine.wait(0.0)
    assert capsys.readouterr().err == "  not quiet: 2.00 x its best time; measured all the same\n"


def test_the_pace_of_a_machine_is_measured() -> None:
    """Work takes time."""
    assert 0 < pace() < 10_000
