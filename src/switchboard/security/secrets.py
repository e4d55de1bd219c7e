"""What opens apps where nobody can be asked, as at the control plane: nothing, so what wants a sign-in stays closed."""

from typing import final

from switchboard.actions.ports import Call, Client, Secret, Secrets
from switchboard.catalog.errors import AuthRequired
from switchboard.catalog.model import App
from switchboard.catalog.text import clean

_LONGEST_NAME = 100


@final
class NoSecrets(Secrets):
    """Opens what needs no sign-in, and refuses the rest."""

    async def secret_for(self, call: Call, client: Client) -> Secret | None:
        """Return nothing, where nothing is needed."""
        del client
        owner = call.owner
        if not isinstance(owner, App) or owner.auth is None:
            return None
        name = clean(owner.names.primary, _LONGEST_NAME)
        message = f"{name} wants a sign-in ({owner.auth.type}), which cannot be done here. Use another app for this."
        raise AuthRequired(message, app_id=owner.id, app_name=owner.names.primary, auth_type=owner.auth.type)

    async def renewed(self, call: Call, refused: Secret) -> Secret | None:
        """Return nothing: nothing was given out."""
        del call, refused
