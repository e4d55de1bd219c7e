"""Every suite of the benchmarks runs, in a size too small for its numbers to mean anything, so that none can rot."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.figures import Figure, figure, not_built, repeated, table
from tests.support import requirement

from bench import (
    catalog,
    claims,
    cluster,
    context,
    crowds,
    discovery,
    execute,
    growth,
    plots,
    profiles,
    scan,
    sdk,
    seed,
    store,
)


def test_discovery_is_measured_with_its_targets() -> None:
    """Against the floor, cold, in a crowd; heartbeats, registrations and memory."""
    figures = discovery.figures(discovery.QUICK)

    names = [one.name for one in figures]
    targets = {one.target for one in figures} - {None}
    assert len(set(names)) == len(names)
    assert all(math.isfinite(one.value) for one in figures)
    assert targets == {0.85, 0.5, 50.0, 100.0, 200.0, 0.0, 3.0, 0.95, 10_000, crowds.P95_MS}
    assert seed.TARGETS == {"page": 100.0, "page, no cache": 8.0, "lookup": 3.0}


def test_growth_is_measured_and_drawn(tmp_path: Path) -> None:
    """Flat for one agent, by what is found for a pattern; each line has a point for each size."""
    figures = growth.figures(growth.QUICK)
    tokens = [
        Figure(f"context: {what}", 10.0 * count, "")
        for count in (10, 50)
        for what in (f"whole list, {count} apps", f"every tool of {count} apps, if all were listed")
    ]
    plain = [one._asdict() for one in (*figures, *tokens)]

    written = plots.draw({"growth": {"figures": plain}}, tmp_path)

    assert [one.name for one in figures if one.target is not None] == [
        "growth: q6, 20 agents against 10",
        "growth: q2, per agent found, 20 agents against 10",
    ]
    assert [file.name for file in written] == ["cost-by-agents.svg", "context-by-apps.svg"]
    assert written[0].read_text().count("<polyline") == 4
    assert written[0].read_text().count("<circle") == 8


@requirement("mcp:context:per-app")
def test_one_app_on_demand_costs_a_small_part_of_all_of_them_at_once() -> None:
    """A guide of ten tools is under 5,000 tokens; with the list of 50 apps, a tenth of what their tools would be."""
    encode = context.tokenizer()
    assert encode is not None, "the development requirements bring a tokenizer"
    figures = {one.name: one for one in context.figures(context.Plan(apps=(50,)))}

    guide = figures["context: one guide, ten tools"].value
    listed = figures["context: whole list, 50 apps"].value
    every = figures["context: every tool of 50 apps, if all were listed"].value
    assert guide < 5_000
    assert listed + guide < every / 5
    assert listed + guide < 250_000 / 10
    assert figures["context: one app in a list of 50, on average"].verdict == "held"
    assert figures["context: fixed tools together"].verdict == "held"


@pytest.mark.parametrize(
    "measure",
    [
        lambda: scan.figures(apps=3, runs=1),
        lambda: catalog.figures(sizes=(5, 10), runs=1),
        lambda: store.figures(runs=1, each=20),
        lambda: execute.figures(execute.QUICK),
        lambda: sdk.figures(execute.QUICK),
        lambda: cluster.figures(cluster.QUICK),
    ],
    ids=["scan", "catalog", "store", "execute", "sdk", "cluster"],
)
def test_every_other_suite_runs(measure: Callable[[], list[Figure]]) -> None:
    """Each figure once, each a number, and something held to a target."""
    figures = measure()

    names = [one.name for one in figures]
    assert len(set(names)) == len(names)
    assert all(math.isfinite(one.value) for one in figures)
    assert any(one.target is not None for one in figures)


def test_what_is_not_built_is_said_and_not_measured() -> None:
    """There is no search yet."""
    line = table([not_built("context: one search answer")]).splitlines()[1]

    assert line.split() == ["context:", "one", "search", "answer", "not", "built"]


def test_without_a_tokenizer_the_run_says_so_and_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    """Tokens are counted where the package is installed."""
    assert context.tokenizer("no-such-tokenizer") is None
    assert capsys.readouterr().err == "tokens: not counted, no-such-tokenizer is missing\n"


def test_a_target_has_to_hold_in_every_run() -> None:
    """The value is the median of the runs, the spread theirs."""
    runs = [[Figure("a", value, "ms", target=5.0)] for value in (1.0, 6.0, 2.0)]

    (one,) = repeated(runs)

    assert (one.value, one.spread, one.runs, one.verdict) == (2.0, 5.0, (1.0, 6.0, 2.0), "MISSED")
    assert repeated(runs[:1]) == runs[0]


def test_a_figure_is_the_median_and_says_how_far_its_middle_half_lies_apart() -> None:
    """Single measurements stray far."""
    one = figure("a", [1, 2, 3, 4, 100], "µs", scale=2.0)

    assert (one.value, one.spread) == (6.0, 4.0)
    assert figure("a", [1], "").spread is None


def test_a_profile_is_taken_of_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a server under load, and of a gateway that starts and looks around."""
    assert profiles.main([], count=4, share=0.005) == 0

    said = capsys.readouterr().out
    assert said.count("\n== ") == 5
    assert "rest/server.py" in said
    assert "descriptors/cursor.py" in said


@pytest.mark.parametrize("document", [claims.README, claims.CHINESE_README, claims.PERFORMANCE])
def test_a_document_claims_what_was_measured(document: Path) -> None:
    """`python -m bench claims` writes all of them; nobody edits one by hand."""
    current = claims.claims()

    assert all(claim["shown"] for claim in current)
    assert claims.table_in(document.read_text(encoding="utf-8")) == claims.documents(current)[document]


def test_every_claim_names_its_command() -> None:
    """And a figure of the suite that it runs."""
    for claim in claims.claims():
        suite = claim["command"].removeprefix("python -m bench ")
        source = (claims.CLAIMS.parent / f"{suite}.py").read_text()
        assert claim["figure"].partition(":")[0] in source, claim["figure"]


def test_a_document_without_a_place_for_claims_is_refused() -> None:
    """Rather than left as it is."""
    with pytest.raises(ValueError, match="measured"):
        claims.with_table("# Nothing\n", "| a |")
