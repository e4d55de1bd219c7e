"""How complete a catalogue is, in words and as data: "there is none" is not "not yet". Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from switchboard.actions.ports import Readiness
from switchboard.catalog.text import clean
from switchboard.telemetry.logs import timestamp

_NAMED = 2
"""Sources that a sentence names; of the others it says how many they are."""
_NAME = 50
_REASON = 200


def not_ready(readiness: Iterable[Readiness]) -> list[Readiness]:
    """Return the sources whose apps may be missing, or out of date."""
    return [one for one in readiness if one.status != "ready"]


def as_data(readiness: Readiness) -> dict[str, Any]:
    """Return how far one source is, for programs."""
    facts: dict[str, Any] = {"name": clean(readiness.source, 2 * _NAME), "status": readiness.status}
    facts["apps"] = readiness.apps
    if readiness.since is not None:
        facts["since"] = timestamp(readiness.since)
    if readiness.reason:
        facts["reason"] = clean(readiness.reason, _REASON)
    return facts


def sentence(readiness: Sequence[Readiness]) -> str:
    """Say in one short sentence what is not there or out of date; empty where nothing is."""
    missing = not_ready(readiness)
    if not missing:
        return ""
    named = [_state(one) for one in missing[:_NAMED]]
    if len(missing) > _NAMED:
        named.append(f"{len(missing) - _NAMED} more")
    return f"The list may be incomplete: {', '.join(named)}."


def _state(one: Readiness) -> str:
    name = clean(one.source.partition("://")[2] or one.source, _NAME)
    if one.status == "loading":
        return f"{name} still loading"
    return f"{name} down" if one.since is None else f"{name} down since {timestamp(one.since)[:16]}Z"
