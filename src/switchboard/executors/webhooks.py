"""Tell somebody's address that an execution has ended, signed with their secret."""

import hmac
import re
from asyncio import Semaphore, sleep
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, final

from switchboard.actions.ports import Messenger
from switchboard.catalog.errors import InvalidRequest, ServiceUnavailable, SwitchboardError
from switchboard.catalog.executions import Webhook

if TYPE_CHECKING:
    from switchboard.net.fetch import Fetch

_AT_ONCE = 50
_PAUSES_S = (0.0, 1.0, 5.0)
_SUCCESS = range(200, 300)
_FINAL = range(400, 500)
_ADDRESS = re.compile(r"(https?://[^\s/?#]+)\S*")
SIGNATURE = "X-AgentField-Signature"
"""The header that carries `signature`."""


@final
class Webhooks(Messenger):
    """Sends webhooks through the guarded client, a few times if need be."""

    def __init__(self, fetch: "Callable[[], Fetch]", pauses_s: Sequence[float] = _PAUSES_S) -> None:
        self._fetch = fetch
        self._pauses_s = pauses_s
        self._room = Semaphore(_AT_ONCE)

    async def tell(self, webhook: Webhook, body: bytes) -> None:
        """Send it until it is taken, or refused for good. What is raised shows of the address only its origin."""
        try:
            await self._tell(webhook, body)
        except SwitchboardError as error:
            error.message = _without_path(error.message)
            error.args = (error.message,)
            error.details = {
                key: _without_path(value) if isinstance(value, str) else value for key, value in error.details.items()
            }
            raise

    async def _tell(self, webhook: Webhook, body: bytes) -> None:
        ours = {"Content-Type": "application/json"}
        if webhook.secret:
            ours[SIGNATURE] = signature(webhook.secret, body)
        names = {name.lower() for name in ours}
        headers = [*ours.items(), *((name, value) for name, value in webhook.headers if name.lower() not in names)]
        problem: SwitchboardError | None = None
        for pause in self._pauses_s:
            await sleep(pause)
            try:
                async with self._room:
                    answer = await self._fetch().send("POST", webhook.url, headers=headers, content=body)
            except InvalidRequest:  # the address or a header: it will be refused again
                raise
            except SwitchboardError as error:
                problem = error
                continue
            if answer.status in _SUCCESS:
                return
            problem = ServiceUnavailable(f"The webhook answers {answer.status}.", status=answer.status)
            if answer.status in _FINAL:
                break
        raise problem or ServiceUnavailable("The webhook was not sent.")


def _without_path(text: str) -> str:
    """Show of addresses only where they lead: paths of webhooks are secrets often enough."""
    return _ADDRESS.sub(r"\1", text)


def signature(secret: str, body: bytes) -> str:
    """Return what proves that a body comes from whoever knows the secret."""
    return "sha256=" + hmac.digest(secret.encode(), body, "sha256").hex()
