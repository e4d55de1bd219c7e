"""The user's consent. Nothing runs without it, and no way to ask means no."""

from typing import Any, cast, final

import msgspec

from switchboard.actions.ports import Consent
from switchboard.catalog.errors import ConsentRequired
from switchboard.catalog.model import App, Caller, Capability, Owner
from switchboard.catalog.text import clean

_LONGEST_NAME = 100
"""Of a name in the message, which goes on after it with what to do."""


@final
class NobodyToAsk(Consent):
    """Refuses everything, and says what would have been asked."""

    async def require(self, caller: Caller, owner: Owner, capability: Capability) -> None:
        """Refuse."""
        name = owner.names.primary if isinstance(owner, App) else owner.id
        raise ConsentRequired(
            f"The user has not allowed {caller.name} to use {clean(capability.id, _LONGEST_NAME)} of "
            f"{clean(name, _LONGEST_NAME)}, and this version of the gateway has no way to ask. Tell the user; do not "
            "try again.",
            app_id=owner.id,
            app_name=name,
            tool=capability.id,
            tool_description=capability.description,
            tool_parameters=_properties(capability),
        )


def _properties(capability: Capability) -> object:
    schema = msgspec.json.decode(capability.input_schema or b"{}")
    return cast("dict[str, Any]", schema).get("properties", {}) if isinstance(schema, dict) else {}
