"""`aai-gateway` with a part that fails in a way nobody thought of: the same process, wired with that part."""

from typing import final

from switchboard.actions.ports import Call, Client, Consent
from switchboard.gateway import Options, serve


@final
class Broken(Consent):
    """Fails, and not by refusing."""

    async def require(self, call: Call, client: Client) -> None:
        """Fail."""
        del call, client
        raise ZeroDivisionError


if __name__ == "__main__":
    serve(Options(dev=True), consent=Broken())
