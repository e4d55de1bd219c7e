"""What a server says of itself, in the handshake and in `server/discover`.

Imports nothing, because the first answer of a gateway must not wait for anything (see `front`). The whole protocol
layer answers with the same functions, so both say the same.
"""

LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Protocol versions that begin with `initialize`, newest first."""
MODERN = ("2026-07-28",)
"""Protocol versions in which every request says for itself who sends it."""
META = "io.modelcontextprotocol/"
PROTOCOL_VERSION = META + "protocolVersion"
CLIENT_CAPABILITIES = META + "clientCapabilities"
CLIENT_INFO = META + "clientInfo"
SERVER_INFO = META + "serverInfo"
DISCOVER_TTL_MS = 3_600_000


class Greeting:
    """Who a server is, what it can do, and how a model goes about it."""

    __slots__ = ("capabilities", "info", "instructions")

    def __init__(self, info: "dict[str, str]", capabilities: "dict[str, object]", instructions: str) -> None:
        self.info = info
        self.capabilities = capabilities
        self.instructions = instructions

    def initialized(self, requested: object) -> "dict[str, object]":
        """Return the result of `initialize`: the version that was asked for, or else the newest of that kind."""
        return {
            "protocolVersion": requested if requested in LEGACY else LEGACY[0],
            "capabilities": self.capabilities,
            "serverInfo": self.info,
            "instructions": self.instructions,
        }

    def discovered(self) -> "dict[str, object]":
        """Return the result of `server/discover`."""
        return {
            "supportedVersions": [*MODERN, *LEGACY],
            "capabilities": self.capabilities,
            "serverInfo": self.info,
            "instructions": self.instructions,
            "ttlMs": DISCOVER_TTL_MS,
            "cacheScope": "public",
            **self.complete(),
        }

    def complete(self) -> "dict[str, object]":
        """Return what every finished result of the stateless protocol carries."""
        return {"resultType": "complete", "_meta": {SERVER_INFO: self.info}}
