"""`aai-gateway` with a user who says yes to everything: the same process, wired with that hand instead of a dialog."""

import os
from typing import final

from switchboard.actions.ports import Call, Client, Consent
from switchboard.gateway import Options, serve
from switchboard.settings import keys_for


@final
class Yes(Consent):
    """The user's own hand."""

    async def require(self, call: Call, client: Client) -> None:
        """Allow."""


if __name__ == "__main__":
    registries = os.environ.get("AAI_REGISTRY_URL", "").split()
    keys = keys_for(registries, os.environ.get("AAI_REGISTRY_KEY", ""))
    serve(Options(dev=True, registries=registries, registry_keys=keys or ()), consent=Yes())
