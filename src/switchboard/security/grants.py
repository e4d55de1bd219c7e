"""What the user has decided, and what follows from it. Pure.

One record for each (origin, app): what was confirmed about where it is, and for each caller what it may do. A decision
is for the tool as it was: a tool that has changed, or that is new since all tools were allowed, is asked about again.
A no stands whatever changes, until the user takes it back.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from switchboard.security.tools import Seen

Decision = Literal["once", "tool", "all", "deny"]
Standing = Literal["allowed", "denied", "unknown", "changed", "new"]


class Grant(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A yes or a no to one tool, as it was then."""

    allowed: bool
    at: float
    seen: Seen


class Everything(Struct, frozen=True, kw_only=True):
    """A yes to all tools an app had then, by name."""

    at: float
    tools: Mapping[str, Seen]


class Caller(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one caller may do with an app."""

    tools: Mapping[str, Grant] = {}
    everything: Everything | None = None


class Confirmed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the user has seen of a web app at the first contact, and every time that it changed."""

    at: float
    issuers: Mapping[str, str] = {}
    """Who vouches for each host that is called: the organisation that issued its certificate."""
    scopes: tuple[str, ...] = ()
    tools: Mapping[str, str] = {}
    """The first characters of each tool's mark, by name."""


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that was decided about one app of one origin."""

    origin: str
    app: str
    name: str = ""
    confirmed: Confirmed | None = None
    callers: Mapping[str, Caller] = {}
    later_than: tuple[str, ...] = ()
    """Other origins whose app has the same id, and had it first: an id is theirs, and so are its secrets."""

    @property
    def is_accepted(self) -> bool:
        """Whether the user has said yes to anything about it."""
        decided = self.callers.values()
        allowed = any(caller.everything or any(grant.allowed for grant in caller.tools.values()) for caller in decided)
        return self.confirmed is not None or allowed

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it worth keeping."""
        return self.confirmed is None and not self.callers


class Verdict(Struct, frozen=True):
    """How a tool stands with a caller; `before` is what the user was shown last, where it has changed since."""

    standing: Standing
    before: Seen | None = None


def judge(record: Record, caller: str, tool: str, now: Seen) -> Verdict:
    """Return whether a caller may use a tool as it is now."""
    decided = record.callers.get(caller)
    if decided is None:
        return Verdict("unknown")
    grant = decided.tools.get(tool)
    if grant is not None and not grant.allowed:
        return Verdict("denied")
    everything = decided.everything
    shown = [grant.seen] if grant else []
    if everything is not None and tool in everything.tools:
        shown.append(everything.tools[tool])
    if any(before.mark == now.mark for before in shown):
        return Verdict("allowed")
    if shown:
        return Verdict("changed", shown[-1])
    return Verdict("unknown" if everything is None else "new")


def decided(  # noqa: PLR0913 - a decision has these parts
    record: Record, caller: str, tool: str, decision: Decision, *, tools: Mapping[str, Seen], at: float
) -> Record:
    """Return the record after a decision; `tools` are all the app has. What is allowed once is not noted."""
    before = record.callers.get(caller, Caller())
    match decision:
        case "once":
            return record
        case "tool":
            after = replace(before, tools={**before.tools, tool: Grant(allowed=True, at=at, seen=tools[tool])})
        case "all":
            # A no to another tool stands: who allows the rest has not taken it back. This one was just asked about.
            denied = {name: grant for name, grant in before.tools.items() if not grant.allowed and name != tool}
            after = Caller(tools=denied, everything=Everything(at=at, tools=dict(tools)))
        case "deny":
            after = replace(before, tools={**before.tools, tool: Grant(allowed=False, at=at, seen=tools[tool])})
    return replace(record, callers={**record.callers, caller: after})


def revoked(record: Record, caller: str | None, tool: str | None) -> Record:
    """Return the record without what was decided for a caller, or for all; about one tool, or about all.

    Taking one tool away from a caller that may use all leaves it the others.
    """
    callers: dict[str, Caller] = {}
    for name, known in record.callers.items():
        left = known if caller is not None and name != caller else _without(known, tool)
        if left.tools or left.everything is not None:
            callers[name] = left
    return replace(record, callers=callers, confirmed=record.confirmed if callers else None)


def _without(known: Caller, tool: str | None) -> Caller:
    if tool is None:
        return Caller()
    everything = known.everything
    if everything is not None:
        tools = {name: seen for name, seen in everything.tools.items() if name != tool}
        everything = Everything(at=everything.at, tools=tools) if tools else None
    return Caller(tools={name: grant for name, grant in known.tools.items() if name != tool}, everything=everything)
