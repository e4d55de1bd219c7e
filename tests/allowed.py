"""`aai-gateway` with a user who says yes to everything: the same process, wired with that hand instead of a dialog."""

from typing import final

from switchboard.actions.ports import Call, Client, Consent
from switchboard.gateway import Options, serve
from switchboard.named import named_planes, named_registries


@final
class Yes(Consent):
    """The user's own hand."""

    async def require(self, call: Call, client: Client) -> None:
        """Allow."""


if __name__ == "__main__":
    serve(Options(dev=True, registries=named_registries(()), control_planes=named_planes(())), consent=Yes())
