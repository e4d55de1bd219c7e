"""Who may execute what on a control plane: whoever has a key, unless a rule for the agent names others.

There is nobody to ask on a server, so its operator decides beforehand. An agent that no rule is about is open to every
caller that came in; one that a rule is about is closed to all that the rules do not name.
"""

from collections.abc import Mapping, Sequence
from typing import final

from switchboard.actions.ports import Call, Client, Consent, Gate
from switchboard.catalog import patterns
from switchboard.catalog.errors import ConsentRequired
from switchboard.catalog.model import Caller


@final
class AllowRules(Consent, Gate):
    """Rules as `agent pattern → names of callers`; `*` in a list of callers means everybody.

    Who may not execute an agent may not take its place either: the rules would be void for whoever can register.
    """

    def __init__(self, rules: Mapping[str, Sequence[str]]) -> None:
        self._rules = [(patterns.matcher(pattern), frozenset(callers)) for pattern, callers in rules.items()]

    async def require(self, call: Call, client: Client) -> None:
        """Let a caller pass that every rule about the agent names."""
        del client
        caller, owner, capability = call.caller, call.owner, call.capability
        if not self.is_open(caller, owner.id):
            raise ConsentRequired(
                f"{caller.name} may not execute {capability.id} of {owner.id}. The operator's rules decide that: "
                "ask whoever runs this control plane.",
                agent=owner.id,
                capability=capability.id,
                caller=caller.name,
            )

    @property
    def has_rules(self) -> bool:
        """Whether there are any rules at all."""
        return bool(self._rules)

    def is_open(self, caller: Caller, agent_id: str) -> bool:
        """Tell whether every rule about an agent names the caller."""
        about = (callers for matches, callers in self._rules if matches(agent_id))
        return all("*" in callers or caller.name in callers for callers in about)
