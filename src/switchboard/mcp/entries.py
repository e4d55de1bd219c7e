"""What stands in the lists of MCP: a tool for each app, the two that are always there, addresses of resources.

Pure, and the same for every client that writes names in the same way. Knows nothing of pages and of who asks.
"""

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from switchboard.actions.completeness import sentence
from switchboard.actions.ports import Readiness
from switchboard.catalog.model import App
from switchboard.catalog.names import (
    DISCOVER,
    EXECUTE,
    PORTABLE_DISCOVER,
    PORTABLE_EXECUTE,
    PortableNames,
    guide_name,
)
from switchboard.catalog.text import clean
from switchboard.mcp.guide import Spelling, line

_PLAIN_NAME = re.compile(r"[A-Za-z0-9._:@/+~-]{1,128}")
"""The name of an app's guide that may stand in a list as it is; an agent may call itself anything."""
_LONGEST_TITLE = 200
_DISCOVERS = "Discover web app guide. Use when user mentions a web service not in list."
_EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
WEB_APP: dict[str, str] = {
    "uriTemplate": "https://{host}",
    "name": "Web app",
    "description": "The descriptor that a web site publishes at /.well-known/aai.json",
    "mimeType": "application/aai+json",
}


def _named(portable: str, aai: str, spelling: Spelling) -> dict[str, Any]:
    if not spelling.portable and _PLAIN_NAME.fullmatch(aai):
        return {"name": aai}
    return {"name": portable, "title": clean(aai, _LONGEST_TITLE), "_meta": {"org.aai-protocol/name": aai}}


def uri(app_id: str) -> str:
    """Return the address of an app as a resource."""
    name = guide_name(app_id)
    return name if _PLAIN_NAME.fullmatch(name) else guide_name(quote(app_id, safe=""))


def incomplete(readiness: Sequence[Readiness], total: int, shown: int) -> str:
    """Say what a list lacks: models do not see what programs read."""
    cut = f"{shown} of {total} apps are on this page; call any other by its id." if total > shown else ""
    return " ".join(filter(None, (sentence(readiness), cut)))


FIXED = 2
"""How many tools there are beside the apps."""


def guide_tool(app: App, names: PortableNames, spelling: Spelling) -> dict[str, Any]:
    """Return the tool that gives the guide of an app."""
    return {
        **_named(names.name_of(app.id), guide_name(app.id), spelling),
        "description": line(app),
        "inputSchema": _EMPTY,
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }


def fixed_tools(spelling: Spelling, note: str = "") -> list[dict[str, Any]]:
    """Return the tools that are there beside the apps; `note` says what the list lacks."""
    return [
        {
            **_named(PORTABLE_DISCOVER, DISCOVER, spelling),
            "description": f"{_DISCOVERS} {note}".rstrip(),
            "inputSchema": {
                "type": "object",
                "properties": {"url": {"type": "string", "description": "Web app URL, domain, or name"}},
                "required": ["url"],
            },
            "annotations": {"readOnlyHint": True, "openWorldHint": True},
        },
        {
            **_named(PORTABLE_EXECUTE, EXECUTE, spelling),
            "description": "Execute app operation. Use after reading operation guide.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "app": {"type": "string", "description": "App ID or URL"},
                    "tool": {"type": "string", "description": "Operation name"},
                    "args": {"type": "object", "description": "Operation parameters"},
                },
                "required": ["app", "tool"],
            },
        },
    ]
