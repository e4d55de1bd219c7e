"""What becomes of executions when something ends before they do: an instance, their agent, or the word of the store.

What was not sent is sent then. What may have reached its agent is never sent again: it ends by the agent's report, or
as failed, with what is known.
"""

from asyncio import TimerHandle, sleep
from collections.abc import Sequence

from switchboard.actions.directory import Directory
from switchboard.actions.dispatch import Dispatch
from switchboard.actions.ledger import Ledger, Live, Rules
from switchboard.actions.ports import Clock, Followers
from switchboard.actions.store_ports import ExecutionStore
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.catalog.executions import Execution
from switchboard.catalog.model import Agent


class Recovery(Followers):
    """Picks up what others have left."""

    def __init__(  # noqa: PLR0913 - what picking up meets
        self,
        *,
        ledger: Ledger,
        dispatch: Dispatch,
        directory: Directory,
        store: ExecutionStore,
        clock: Clock,
        rules: Rules,
    ) -> None:
        self._ledger = ledger
        self._dispatch = dispatch
        self._directory = directory
        self._store = store
        self._clock = clock
        self._rules = rules
        self._gone: dict[str, TimerHandle] = {}
        self._doubtful: dict[str, bool] = {}
        """Executions that may be in the store, and whether their callers can ask for them again."""

    async def take_over(self, left: Sequence[Execution]) -> None:
        """Look after executions that another process has left: send what was not sent, wait for reports of the rest.

        Raises:
            ServiceUnavailable: the store does not answer.
        """
        for execution in left:
            known = self._ledger.live.get(execution.id)
            if known is not None and known.task is not None:
                continue  # it was taken from here and came back while it is being sent; the store decides
            if known is not None:
                self._ledger.drop(known)
            if execution.handed_at is None:
                nested = await self._dispatch.is_nested(execution)
                self._dispatch.enqueue(Live(execution, stored=True, nested=nested))
            else:
                live = Live(execution, stored=True)
                self._ledger.add(live)
                self._ledger.await_report(live)
        agents = self._directory.current().agents
        for agent_id in {execution.agent_id for execution in left}:
            agent = agents.get(agent_id)
            if agent is None or agent.health == "inactive":  # nobody will say so once more
                self.agent_gone(agent_id)
            else:
                self.agent_came(agent)

    def doubt(self, execution: Execution) -> None:
        """Find out what became of an execution whose caller was told no, because the store did not say yes."""
        self._doubtful[execution.id] = execution.idempotency_key is not None
        if len(self._doubtful) == 1:
            self._ledger.spawn(self._clear_up())

    async def _clear_up(self) -> None:
        """See to everything doubtful, one after the other, as soon as the store answers."""
        while self._doubtful:
            execution_id, may_be_repeated = next(iter(self._doubtful.items()))
            try:
                await (self._adopt(execution_id) if may_be_repeated else self._withdraw(execution_id))
            except ServiceUnavailable as error:
                self._ledger.not_saved(execution_id, error)
                await sleep(self._rules.retry_s)
            else:
                del self._doubtful[execution_id]

    async def _adopt(self, execution_id: str) -> None:
        """Run what the store has after all: whoever has sent a key repeats it, is told yes, and waits."""
        found = (await self._store.executions([execution_id])).get(execution_id)
        if found is not None and found.ended is None and await self._store.is_ours(execution_id):
            await self.take_over([found])

    async def _withdraw(self, execution_id: str) -> None:
        """End what the store has after all: its caller has given up, or sent it once more; it is not done twice."""
        why = "the store did not confirm it in time, and its caller was told so"
        await self._store.settle(execution_id, self._ledger.failed(why, "not_accepted"))

    def agent_gone(self, agent_id: str) -> None:
        """Note that an agent is inactive; if it stays so, what it was working on has failed."""
        known = self._gone.pop(agent_id, None)
        if known is not None:  # it came back in between, so its absence is counted anew
            self._ledger.timers.discard(known)
            known.cancel()
        since = self._clock.now()
        self._gone[agent_id] = self._ledger.later(self._rules.lost_s, lambda: self._fail_if_gone(agent_id, since))

    def agent_came(self, agent: Agent) -> None:
        """Note a registration; another process than before knows nothing of what that one was working on."""
        for execution in self._ledger.handed_to(agent.id):
            was = execution.instance_id
            if was and agent.instance_id and was != agent.instance_id:
                ended = self._ledger.failed("the agent was restarted while it worked on this", "agent_restarted")
                self._ledger.spawn(self._ledger.settle_surely(execution.id, ended, stop=True))

    def _fail_if_gone(self, agent_id: str, since: float) -> None:
        self._gone.pop(agent_id, None)
        agent = self._directory.current().agents.get(agent_id)
        if agent is not None and agent.health != "inactive":
            return
        handed = self._ledger.handed_to(agent_id)
        lost = [execution for execution in handed if (execution.handed_at or 0.0) <= since]
        for execution in lost:
            ended = self._ledger.failed("the agent is gone and has not said how this ended", "agent_gone")
            self._ledger.spawn(self._ledger.settle_surely(execution.id, ended, stop=True))
        if len(lost) < len(handed):  # some were sent to it since, and it may be gone for them, too
            self.agent_gone(agent_id)
