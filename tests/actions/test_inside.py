"""What an agent offers, run from inside its own control plane for somebody who may hang up at any moment."""

import asyncio

import pytest
from tests.actions.test_executions import Plane, tell
from tests.builders import call_of
from tests.executors.test_agent import AgentServer, until

from switchboard.actions.inside import InsideExecutor
from switchboard.actions.ports import Call
from switchboard.catalog.agent_apps import as_app


def call(plane: Plane) -> Call:
    """Return a call of the agent's reasoner as MCP makes it."""
    agent = plane.directory.current().agents["a"]
    return call_of(as_app(agent, service="here", origin="agents:here"))


@pytest.mark.parametrize("is_accepted", [False, True])
def test_an_execution_ends_with_its_client_also_while_it_is_being_accepted(is_accepted: bool) -> None:
    """It may be in the store already, where a restart would find it and send it to the agent, for nobody."""

    async def story(plane: Plane, server: AgentServer) -> None:
        rows, says_so = plane.rows, asyncio.Event()
        rows.held = says_so
        running = asyncio.create_task(InsideExecutor(plane.executions).run(call(plane), None))
        await until(lambda: bool(rows.rows))
        if is_accepted:
            says_so.set()
            await until(lambda: bool(server.calls))
        running.cancel()
        await asyncio.sleep(0)
        says_so.set()
        with pytest.raises(asyncio.CancelledError):
            await running

        (execution,) = rows.rows.values()
        assert (execution.status, execution.ended and execution.ended.reason) == (
            "cancelled",
            "the MCP client no longer waits",
        )
        assert plane.executions.unfinished == 0

    tell(story)
