"""The measuring of the gateway: what a run is held to, and that it measures what it says."""

import math

import pytest
from tests.support import requirement

from bench import gateway


@requirement("perf:startup:scan")
def test_the_benchmark_holds_the_gateway_to_the_numbers_to_reach() -> None:
    """Ratios within a run, and megabytes; a scan of 500 apps under the second that seed 002 promises."""
    assert gateway.TARGETS == {
        "handshake / asyncio": 1.2,
        "handshake / typescript": 0.25,
        "listed / original": 0.5,
        "echo / typescript": 0.5,
        "list / encoding": 1.5,
        "memory": 40.0,
    }
    assert gateway.Plan().apps == (0, 50, 500)


def test_every_figure_is_measured_once_with_its_target(capsys: pytest.CaptureFixture[str]) -> None:
    """In a run that is too short for its numbers to mean anything."""
    figures = gateway.figures(gateway.QUICK)

    names = [figure.name for figure in figures]
    said = capsys.readouterr().err
    targets = {figure.target for figure in figures} - {None}
    expected = set(gateway.TARGETS.values()) | {0}
    if "typescript: not measured" in said:
        expected -= {gateway.TARGETS["handshake / typescript"], gateway.TARGETS["echo / typescript"]}
    assert targets - {0.5} == expected - {0.5}  # two promises are a half
    assert len(set(names)) == len(names)
    assert all(math.isfinite(figure.value) for figure in figures)


def test_the_first_answer_needs_nothing_but_the_standard_library_and_the_front() -> None:
    """No event loop, no JSON library, nothing of the rest of the gateway: whoever starts a chat waits for it."""
    modules = gateway.before_the_handshake()

    assert [name for name in modules if not gateway.is_light(name)] == []
    assert modules.keys().isdisjoint({"asyncio", "msgspec", "ssl", "pathlib", "typing", "dataclasses"})
    assert "switchboard.mcp.front" in modules


@pytest.mark.parametrize(
    ("module", "light"),
    [
        ("json.decoder", True),
        ("switchboard", True),
        ("switchboard.mcp.front", True),
        ("switchboard.mcp.protocol", False),
        ("msgspec", False),
    ],
)
def test_a_module_is_light_or_is_named(module: str, light: bool) -> None:
    """What the bench would list as too much."""
    assert gateway.is_light(module) == light
