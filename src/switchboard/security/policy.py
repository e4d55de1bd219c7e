"""Who may run what over MCP on a control plane: what only reads, and beyond that what the operator's list allows.

There is nobody to ask on a server, and a model decides what is called: so what may change something is refused unless
a rule names it. A rule is `owner pattern:capability pattern`, for the owner of one API key or for everybody (`*`).
What the operator's other rules keep from a caller stays so, whatever these allow.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import final

from switchboard.actions.ports import Call, Client, Consent
from switchboard.catalog import patterns
from switchboard.catalog.errors import ConsentRequired
from switchboard.catalog.model import Capability
from switchboard.security.tools import effect

EVERYBODY = "*"


class Rule:
    """One `owner pattern:capability pattern`."""

    def __init__(self, text: str) -> None:
        owner, _, capability = text.partition(":")
        self._owner: Callable[[str], bool] = patterns.matcher(owner)
        self._capability: Callable[[str], bool] = patterns.matcher(capability)

    def allows(self, call: Call) -> bool:
        """Tell whether a call is what this rule is about."""
        return self._owner(call.owner.id) and self._capability(call.capability.id)


@final
class Policy(Consent):
    """Lets pass what only reads, and what the rules for its caller allow, if `besides` does."""

    def __init__(self, allow: Mapping[str, Sequence[str]], besides: Consent | None = None) -> None:
        self._besides = besides
        self._rules = {caller: [Rule(text) for text in rules] for caller, rules in allow.items()}

    async def require(self, call: Call, client: Client) -> None:
        """Refuse everything else, and say which setting would allow it."""
        if self._besides is not None:
            await self._besides.require(call, client)
        if self._allows(call):
            return
        caller, rule = call.caller.name, f"{call.owner.id}:{call.capability.id}"
        raise ConsentRequired(
            f"{caller} may not run {call.capability.id} of {call.owner.id} over MCP: it is not known to only read, and "
            f"no rule allows it. Nobody can be asked here. The operator of this server allows it in its settings file: "
            f'in the table [mcp_allow], "{caller}" = ["{rule}"].',
            app=call.owner.id,
            tool=call.capability.id,
            caller=caller,
            setting="mcp_allow",
            rule=rule,
        )

    def _allows(self, call: Call) -> bool:
        rules = (*self._rules.get(call.caller.name, ()), *self._rules.get(EVERYBODY, ()))
        return _only_reads(call.capability) or any(rule.allows(call) for rule in rules)


def _only_reads(capability: Capability) -> bool:
    """Tell whether a tool reads by its method, or says so and its method leaves that open: many searches are a POST."""
    found, method = effect(capability), (capability.binding.route.method or "POST").upper()
    return found == "reads" or (found == "claims" and method == "POST")
