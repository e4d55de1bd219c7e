"""What becomes of executions when something ends before they do: an instance, their agent, or the word of the store.

What was not sent is sent then. What may have reached its agent is never sent again: it ends by the agent's report, or
as failed, with what is known.
"""

from asyncio import Event, TimerHandle
from collections.abc import Sequence

from switchboard.actions.directory import Directory
from switchboard.actions.dispatch import Dispatch
from switchboard.actions.elsewhere import first
from switchboard.actions.ledger import Ledger, Live, Rules
from switchboard.actions.ports import Clock, Followers
from switchboard.actions.store_ports import ExecutionStore
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.catalog.executions import Execution
from switchboard.catalog.model import Agent

_DOUBT_S = 600.0
"""How long the store may take over something that it was told before the connection to it was lost."""
_LONGEST_PAUSE_S = 30.0
_LOOK_AT_ONCE = 500


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
        self._doubtful: dict[str, tuple[bool, float]] = {}
        """Executions that may be in the store: whether their callers can ask for them again, and until when to look."""
        self._doubted = Event()
        self._is_looking = False

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
        self._doubtful[execution.id] = execution.idempotency_key is not None, self._clock.passed() + _DOUBT_S
        self._doubted.set()
        if not self._is_looking:
            self._is_looking = True
            self._ledger.spawn(self._clear_up())

    async def _clear_up(self) -> None:
        """Look for everything doubtful, again and again: the store may still be about to do what it was told."""
        pause_s = 0.0
        try:
            while self._doubtful:
                is_last = self._ledger.closing  # what is not found now is for the next process
                pause_s = self._rules.retry_s if self._doubted.is_set() else min(pause_s * 2, _LONGEST_PAUSE_S)
                self._doubted.clear()
                try:
                    ids = list(self._doubtful)
                    for begin in range(0, len(ids), _LOOK_AT_ONCE):
                        await self._look_for(ids[begin : begin + _LOOK_AT_ONCE])
                except ServiceUnavailable as error:
                    self._ledger.not_saved(next(iter(self._doubtful)), error)
                if is_last:
                    return
                await first((self._ledger.stopped, self._doubted), pause_s)
        finally:
            self._is_looking = False

    async def _look_for(self, ids: Sequence[str]) -> None:
        found = await self._store.executions(ids)
        for execution_id in ids:
            doubt = has_key, until = self._doubtful.pop(execution_id)
            if execution_id not in found:
                if self._clock.passed() < until:
                    self._doubtful[execution_id] = doubt
                continue
            try:
                await self._decide(found[execution_id], has_key=has_key)
            except ServiceUnavailable:
                self._doubtful[execution_id] = doubt
                raise
            except Exception as error:  # noqa: BLE001 - one that cannot be helped must not keep the others
                self._ledger.broke(execution_id, error)

    async def _decide(self, execution: Execution, *, has_key: bool) -> None:
        """Run what the store has after all if its caller can ask for it again; end it if he cannot.

        Whoever has sent a key repeats it, is told yes, and waits. Anybody else has given up, or has sent it once more:
        then it must not be done twice.
        """
        if execution.status != "queued" or not await self._store.is_ours(execution.id):
            return  # somebody else has seen to it
        if has_key:
            await self.take_over([execution])
        else:
            why = "the store did not confirm it in time, and its caller was told so"
            ended = self._ledger.failed(why, "not_accepted")
            await self._store.settle(execution.id, ended)

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
