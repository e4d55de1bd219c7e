"""official.py legacy|modern COMMAND [ARGUMENT...] | URL: the official Python client, run by its own interpreter.

Takes the steps of README.md on stdin and prints one JSON line a step, as the TypeScript drivers do.
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation
from pydantic import BaseModel

from mcp import Client, MCPError, StdioServerParameters


class Inbox:
    """Every notification is reported once as news, and may be waited for once, also when it came before the wait."""

    def __init__(self) -> None:
        self._news: list[dict[str, Any]] = []
        self._untaken: list[dict[str, Any]] = []
        self._arrived = asyncio.Condition()

    async def put(self, message: object) -> None:
        """Take what the client hands over."""
        if not isinstance(message, BaseModel):
            return  # the client also hands over what it could not read
        async with self._arrived:
            self._news.append(plain(message))
            self._untaken.append(plain(message))
            self._arrived.notify_all()

    def news(self) -> list[dict[str, Any]]:
        """Return what came since the last time."""
        news, self._news = self._news, []
        return news

    async def take(self, method: str, seconds: float) -> dict[str, Any]:
        """Wait for a notification and return it."""

        def found() -> list[dict[str, Any]]:
            return [message for message in self._untaken if message["method"] == method]

        try:
            async with asyncio.timeout(seconds), self._arrived:
                await self._arrived.wait_for(found)
                message = found()[0]
        except TimeoutError:
            raise TimeoutError(f"no {method} within {seconds} s") from None
        self._untaken.remove(message)
        return message


def plain(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


async def act(step: dict[str, Any], client: Client, inbox: Inbox, stack: AsyncExitStack) -> dict[str, Any]:  # noqa: PLR0911 - one a step
    page = {"cursor": step.get("cursor"), "cache_mode": step.get("cache", "use")}
    match step["do"]:
        case "server_info":
            return {
                "name": client.server_info.name if client.server_info else None,
                "version": client.server_info.version if client.server_info else None,
                "protocol_version": client.protocol_version,
                "instructions": client.instructions,
                "capabilities": plain(client.server_capabilities),
            }
        case "list_tools":
            return plain(await client.list_tools(**page))
        case "call_tool":
            return plain(await client.call_tool(step["name"], step.get("arguments", {})))
        case "list_resources":
            return plain(await client.list_resources(**page))
        case "read_resource":
            return plain(await client.read_resource(step["uri"], cache_mode=page["cache_mode"]))
        case "wait_notification":
            return await inbox.take(step["method"], step.get("within_s", 10))
        case "fetch":
            async with httpx2.AsyncClient(trust_env=False) as http:
                sent = await http.request(
                    step["method"], step["url"], headers=step.get("headers"), content=step.get("body")
                )
            return {"status": sent.status_code}
        case "write_file":
            await asyncio.to_thread(Path(step["path"]).write_text, step["text"], encoding="utf-8")
            return {}
        case "close":
            await stack.aclose()
            return {"exit_code": None, "signal": None}  # the client does not say
        case other:
            raise ValueError(f"no such step: {other}")


async def attempt(step: dict[str, Any], client: Client, inbox: Inbox, stack: AsyncExitStack) -> dict[str, Any]:
    try:
        return {"result": await act(step, client, inbox, stack)}
    except MCPError as error:
        return {"error": {"type": "MCPError", "code": error.code, "message": error.message, "data": error.data}}
    except Exception as error:  # noqa: BLE001 - whatever the client makes of an answer is the outcome of the step
        return {"error": {"type": type(error).__name__, "code": None, "message": str(error), "data": None}}


async def main(era: str, command: str, *arguments: str) -> None:
    given = json.load(sys.stdin)
    inbox = Inbox()
    async with AsyncExitStack() as stack:
        if command.startswith("http"):
            http = httpx2.AsyncClient(headers=given["headers"], timeout=60, trust_env=False)
            server = streamable_http_client(command, http_client=await stack.enter_async_context(http))
        else:
            server = StdioServerParameters(command=command, args=list(arguments), env=given["environment"])
        client = await stack.enter_async_context(
            Client(
                server,
                # Not pinned to a version: pinned, this client would not ask the server who it is.
                mode="auto" if era == "modern" else "legacy",
                client_info=Implementation(name="switchboard-tests", version="1.0.0"),
                message_handler=inbox.put,
            )
        )
        if era == "modern" and client.protocol_version != "2026-07-28":
            sys.exit(f"fell back to {client.protocol_version}")
        awaited = {step["method"] for step in given["steps"] if step["do"] == "wait_notification"}
        if era == "modern" and awaited:
            # Before the first step, or a change made by a step could come too early to be heard.
            await stack.enter_async_context(
                client.listen(
                    tools_list_changed="notifications/tools/list_changed" in awaited,
                    resources_list_changed="notifications/resources/list_changed" in awaited,
                )
            )
        for step in given["steps"]:
            outcome = await attempt(step, client, inbox, stack)
            print(json.dumps({"do": step["do"], **outcome, "notifications": inbox.news()}), flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
