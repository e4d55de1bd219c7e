"""The way back to an MCP client while one of its calls waits: progress, a page to show, a question to put.

On the stateless protocol a question ends the call, and the client makes it again with the answer. So every question has
a key of its own: an answer to one must not pass for an answer to the next.
"""

from collections.abc import Mapping
from hashlib import sha256
from time import monotonic
from typing import Any, cast, final

from switchboard.actions.ports import Client
from switchboard.catalog.errors import NotSupported
from switchboard.mcp.messages import Fault
from switchboard.mcp.protocol import Exchange, Question

_ASK = "elicitation/create"
_TITLED = "2025-11-25"
"""The first version that has modes, and titles for the values of an enumeration."""


@final
class AskingClient(Client):
    """The client of one exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._told = 0
        self._begun = monotonic()

    def patience(self, most_s: float) -> float:
        """Return what is left of that since the call came in."""
        return max(0.0, most_s - (monotonic() - self._begun))

    def progress(self, message: str) -> None:
        """Tell it what the call waits for, if it gave a token."""
        self._told += 1
        self._exchange.progress(self._told, message=message)

    async def open_page(self, address: str, message: str) -> bool:
        """Ask it to open a page, where it has declared that it can; tell whether it says that the user agreed."""
        key = _key("page", address)
        question = Question(_ASK, {"mode": "url", "message": message, "url": address, "elicitationId": key})
        if not self._exchange.can_be_asked(question):
            return False
        try:
            return (await self._exchange.ask(key, question)).get("action") == "accept"
        except Fault:
            return False

    async def choose(self, message: str, choices: Mapping[str, str]) -> str | None:
        """Have it show a form with one choice; None where the user, or the client by itself, did not choose."""
        mode = {"mode": "form"} if self._exchange.version >= _TITLED else {}
        question = Question(_ASK, {**mode, "message": message, "requestedSchema": self._schema(choices)})
        if not self._exchange.can_be_asked(question):
            raise NotSupported("The client has not declared that it can ask the user.")
        try:
            answer = await self._exchange.ask(_key("choice", message), question)
        except Fault as fault:
            if self._exchange.modern:  # not the client's answer: the state it sent is none of ours
                raise
            raise NotSupported("The client could not ask the user.") from fault
        content = answer.get("content") if answer.get("action") == "accept" else None
        chosen = cast("dict[str, Any]", content).get("decision") if isinstance(content, dict) else None
        return chosen if isinstance(chosen, str) and chosen in choices else None

    def _schema(self, choices: Mapping[str, str]) -> dict[str, Any]:
        if self._exchange.version >= _TITLED:
            kind: dict[str, Any] = {"oneOf": [{"const": key, "title": label} for key, label in choices.items()]}
        else:
            kind = {"enum": list(choices), "enumNames": list(choices.values())}
        decision = {"type": "string", "title": "Decision", **kind}
        return {"type": "object", "properties": {"decision": decision}, "required": ["decision"]}


def _key(kind: str, about: str) -> str:
    return f"{kind}-{sha256(about.encode()).hexdigest()[:16]}"
