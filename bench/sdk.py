"""What the Python SDK costs: its import in CPU time, and a discover call over the bare HTTP client it is made of.

The bare client is httpx2 with the same question to the same server over a connection that is kept. For one agent it
only reads the bytes; for a page of a hundred it also reads the JSON, as everybody has to.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import httpx2

from agentfield import Agent
from bench import agents
from bench.execute import Plan, against
from bench.figures import Figure, figure
from bench.http_servers import PATH, Process, running

TARGETS = {"import": 150.0, "discover": 0.5}
"""Milliseconds of CPU; milliseconds over the bare client."""
_AGENTS = 100
_IMPORT = (
    "import time; begin = time.process_time(); import agentfield; print((time.process_time() - begin) * 1e3); "
    "import sys; assert not {'httpx2', 'uvicorn', 'pydantic', 'asyncio'} & sys.modules.keys()"
)


def figures(plan: Plan | None = None) -> list[Figure]:
    """Measure with a server that is made for the purpose."""
    plan = plan or Plan()
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as name:
        return [_import(plan), *_discover(Path(name), plan)]


def _import(plan: Plan) -> Figure:
    spent = [float(subprocess.check_output([sys.executable, "-c", _IMPORT])) for _ in range(plan.rounds)]  # noqa: S603 - our own code
    return figure("sdk: import, CPU", spent, "ms", TARGETS["import"])


def _discover(folder: Path, plan: Plan) -> list[Figure]:
    command = [str(Path(sys.executable).with_name("switchboard")), "serve", "--port", "0"]
    database = ["--database-url", f"sqlite:///{folder}/sdk.db"]
    log = folder / "sdk.log"
    with running(
        [*command, *database], lambda line: int(line.rpartition(":")[2]), log, XDG_DATA_HOME=str(folder)
    ) as plane:
        for document in agents.registrations()[:_AGENTS]:
            if plane.post("/api/v1/nodes/register", document) != 201:
                raise RuntimeError("an agent was not registered")
        return _over_the_client(plane, plan)


def _over_the_client(plane: Process, plan: Plan) -> list[Figure]:
    url = f"http://127.0.0.1:{plane.port}"
    one = agents.agent_id(_AGENTS // 2)
    with httpx2.Client(base_url=url, trust_env=False) as client, Agent(agentfield_server=url) as app:
        return [
            *against(
                "sdk: discover, one agent",
                lambda: _ask(client, one),
                lambda: _found(app, one),
                TARGETS["discover"],
                plan=plan,
            ),
            *against(
                "sdk: discover, 100 agents", lambda: _ask(client), lambda: _found(app), TARGETS["discover"], plan=plan
            ),
        ]


def _ask(client: httpx2.Client, agent: str = "") -> None:
    answer = client.get(PATH, params={"agent": agent} if agent else None)
    if answer.status_code != 200 or (not agent and answer.json()["total_agents"] != _AGENTS):
        raise RuntimeError(answer.text[:200])


def _found(app: Agent, agent: str = "") -> None:
    found = app.discover(agent=agent) if agent else app.discover()
    if found.total_agents != (1 if agent else _AGENTS):
        raise RuntimeError(f"{found.total_agents} agents were found")
