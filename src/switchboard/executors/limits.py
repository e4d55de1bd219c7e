"""How long one call may take and how much it may bring, the same for every way of calling."""

from switchboard.catalog.bindings import AgentServer, Binding, Registered, Script, Skill

LARGEST = 4 * 1024 * 1024
"""The longest answer, in bytes."""
_DEFAULT_S = 30.0
_LONGEST_S = 600.0
"""No descriptor makes us wait longer than this, whatever it says."""


def seconds(binding: Binding) -> float:
    """Return the time limit: the capability's own, else its owner's, else half a minute."""
    execution = binding.execution
    general = None if isinstance(execution, AgentServer | Registered | Script | Skill) else execution.timeout_ms
    milliseconds = binding.route.timeout_ms or general
    return min(milliseconds / 1000, _LONGEST_S) if milliseconds else _DEFAULT_S
