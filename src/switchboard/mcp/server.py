"""The methods of the gateway: one line per app, guides, resources, and calls in every spelling.

A list is encoded once per change of the catalogue. What a client cannot see in a list can be called all the same.
"""

import re
from asyncio import Event
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal
from urllib.parse import unquote

import msgspec
from msgspec import Raw, Struct, field

from switchboard.actions.completeness import as_data
from switchboard.actions.execute import Execute
from switchboard.actions.lookup import Found, Lookup
from switchboard.actions.ports import Catalogue
from switchboard.catalog.caches import USUAL, Cache, Caches
from switchboard.catalog.errors import InvalidRequest, InvalidTarget, SwitchboardError, UnknownApp, UnknownTool
from switchboard.catalog.locales import best
from switchboard.catalog.model import App
from switchboard.catalog.names import (
    DISCOVER,
    EXECUTE,
    GUIDE_PREFIX,
    PORTABLE_DISCOVER,
    PORTABLE_EXECUTE,
    PORTABLE_PREFIX,
    guide_name,
    parse_target,
)
from switchboard.catalog.shards import Shards
from switchboard.catalog.text import clean, nearest
from switchboard.mcp import results
from switchboard.mcp.asking import AskingClient
from switchboard.mcp.entries import FIXED, WEB_APP, fixed_tools, guide_tool, incomplete, uri
from switchboard.mcp.greeting import SERVER_INFO, Greeting
from switchboard.mcp.guide import AAI, PORTABLE, Spelling, guide, standing_note
from switchboard.mcp.messages import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, SUBSCRIPTION, Fault, Result
from switchboard.mcp.protocol import Exchange, Method

ToolNames = Literal["aai", "portable", "auto"]
PAGE = 1000
"""Entries of a list before it is cut: some clients never ask for a second page."""
LIST_TTL_MS = 10_000
READ_TTL_MS = 60_000
_MOST_LISTS = 64
PATIENCE_S = 1.0
"""How long a list waits for the first scan; after that it says what is known, and a change is told."""
_MOST_WAITING = 100
"""How many lists wait so: all of them are made in the same moment, and a thousand long ones are 200 MB."""
_CAREFUL = (
    "anthropic",
    "claude",
    "cursor",
    "copilot",
    "visual studio code",
    "vscode",
    "codex",
    "openai",
    "chatgpt",
    "antigravity",
    "bedrock",
    "amazon",
    "windsurf",
    "cline",
    "roo",
    "zed",
)
"""Parts of the names of clients whose models refuse `:` and `.` in the names of tools."""
MOST_SUBSCRIPTIONS = 32
_LONGEST_CALL = 4000
"""Characters of a name that is read as an app and its tool."""
_TOOL_OF_A_SITE = re.compile(
    r"([a-z][a-z0-9+.-]*://(?![^/?#]*@)(?:\[[^\]]*\]|[^/?#:]+)(?::\d{1,5})?(?:[/?#][^:]*)?):(.+)",
    re.IGNORECASE | re.DOTALL,
)
_COMPLETENESS = "switchboard/catalogue"
_KINDS = ("resources", "tools")
_Entries = Callable[[list[App], int, Spelling], tuple[dict[str, Any], int]]
"""Makes the page of a list that begins with this app; also returns with which app the next page begins."""


class _Page(Struct, frozen=True):
    """A page of a list as a client sees it, before what only programs read: encoded, and what is on it."""

    text: bytes
    total: int
    shown: int


class _List(Struct):
    cursor: str | None = None


class _Call(Struct):
    name: str
    arguments: dict[str, Any] | None = None


class _Read(Struct):
    uri: str


class _Filter(Struct):
    tools: bool = field(default=False, name="toolsListChanged")
    resources: bool = field(default=False, name="resourcesListChanged")


class _Listen(Struct):
    notifications: _Filter


class Server:
    """What a client can ask of the gateway."""

    def __init__(  # noqa: PLR0913 - three actions and four settings
        self,
        catalogue: Catalogue,
        lookup: Lookup,
        execute: Execute,
        *,
        greeting: Greeting,
        tool_names: ToolNames = "auto",
        locale: str = "en",
        patience_s: float = PATIENCE_S,
        most_subscriptions: int = MOST_SUBSCRIPTIONS,
        asks: bool = True,
        caches: Caches = USUAL,
    ) -> None:
        """Prepare to answer; `asks` says whether there is a user, who is asked before something runs."""
        self._asks = asks
        self._most_subscriptions = most_subscriptions
        self._catalogue = catalogue
        self._lookup = lookup
        self._execute = execute
        self._greeting = greeting
        self._tool_names: ToolNames = tool_names
        self._locale = locale
        self._lists: Cache[tuple[object, ...], Raw] = Cache(caches.most(_MOST_LISTS))
        self._pages: Cache[tuple[str, int, bool], _Page] = Cache(caches.most(_MOST_LISTS))
        self._state: tuple[object, ...] = ()
        self._seen: dict[tuple[str, int, bool], int] = {}
        """What was given out, by its hash: what a client has not seen cannot have changed for it."""
        self._outdated: frozenset[str] = frozenset()
        self._told_version = 0
        self._patience_s = patience_s
        self._listening: dict[Event, set[str]] = {}
        self._closed = False
        self._given: set[str] = set()
        self._waited = 0
        self._loading = True
        catalogue.listen(self._changed)

    def methods(self) -> dict[str, Method]:
        """Return the methods by name."""
        return {
            "tools/list": self._listing(self._tools),
            "tools/call": self._call,
            "resources/list": self._listing(self._resources),
            "resources/read": self._read,
            "resources/templates/list": self._templates,
            "subscriptions/listen": self._listen,
        }

    def outdated(self) -> list[str]:
        """Return the kinds of list that were given out and are not what they were since the last change."""
        return sorted(self._outdated)

    def close(self) -> None:
        """End every open subscription."""
        self._closed = True
        for changed in self._listening:
            changed.set()

    def _listing(self, entries: _Entries) -> Method:
        """Return the method of one kind of list, which waits a little for the first scan."""

        def method(exchange: Exchange) -> Any:
            if self._catalogue.is_complete or self._waited >= _MOST_WAITING:
                return self._listed(exchange, entries)
            self._waited += 1
            return wait(exchange)

        async def wait(exchange: Exchange) -> Result:
            await self._catalogue.complete(self._patience_s)
            return self._listed(exchange, entries)

        return method

    def _listed(self, exchange: Exchange, entries: _Entries) -> Raw:
        start = _start(exchange.read(_List).cursor)
        if start and start >= len(self._catalogue.current().apps):
            raise Fault(INVALID_PARAMS, "this cursor is beyond the end of the list")
        self._given.add(exchange.method.partition("/")[0])
        spelling = self._spelling(exchange)
        page = self._page(entries, start, spelling)
        seen = (entries.__name__, start, spelling.portable)
        if seen in self._seen or len(self._seen) < _MOST_LISTS:
            self._seen[seen] = hash(page.text)
        key = (entries.__name__, start, spelling.portable, exchange.modern)
        known = self._lists.get(key)
        if known is None:
            sources = [as_data(one) for one in self._catalogue.readiness()]
            facts = {"total": page.total, "shown": page.shown, "sources": sources}
            rest = self._cacheable(exchange, {"_meta": {_COMPLETENESS: facts}}, LIST_TTL_MS)
            known = self._lists.keep(key, Raw(page.text[:-1] + b"," + msgspec.json.encode(rest)[1:]))
        return known

    def _page(self, entries: _Entries, start: int, spelling: Spelling) -> _Page:
        """Return a page as it is now, encoded once for as long as nothing changes."""
        snapshot, readiness = self._catalogue.current(), self._catalogue.readiness()
        state = (snapshot.version, self._lookup.names(), tuple(readiness))
        if state != self._state:
            self._lists.clear()
            self._pages.clear()
            self._state = state
        key = (entries.__name__, start, spelling.portable)
        page = self._pages.get(key)
        if page is None:
            apps = [snapshot.apps[app_id] for app_id in sorted(snapshot.apps)]
            result, following = entries(apps, start, spelling)
            if following < len(apps):
                result["nextCursor"] = str(following)
            shown = len(apps[start:following])
            page = self._pages.keep(key, _Page(msgspec.json.encode(result), len(apps), shown))
        return page

    def _cacheable(self, exchange: Exchange, result: dict[str, Any], ttl_ms: int) -> dict[str, Any]:
        if not exchange.modern:
            return result
        hints = {"ttlMs": ttl_ms, "cacheScope": "private", "resultType": "complete"}
        return {**result, **hints, "_meta": {**result.get("_meta", {}), SERVER_INFO: self._greeting.info}}

    def _spelling(self, exchange: Exchange) -> Spelling:
        if self._tool_names != "auto":
            return PORTABLE if self._tool_names == "portable" else AAI
        if exchange.modern:  # there a list must be the same for every client, so it suits the most careful one
            return PORTABLE
        name = exchange.caller.name.casefold()
        return PORTABLE if any(part in name for part in _CAREFUL) else AAI

    def _tools(self, apps: list[App], start: int, spelling: Spelling) -> tuple[dict[str, Any], int]:
        names, end = self._lookup.names(), start + PAGE if start else PAGE - FIXED
        tools = [guide_tool(app, names, spelling) for app in apps[start:end]]
        if not start:  # on the page that every client reads
            tools += fixed_tools(spelling, incomplete(self._catalogue.readiness(), len(apps), end))
        return {"tools": tools}, end

    def _resources(self, apps: list[App], start: int, _spelling: Spelling) -> tuple[dict[str, Any], int]:
        end = start + PAGE
        return {"resources": [self._resource(app) for app in apps[start:end]]}, end

    def _resource(self, app: App) -> dict[str, Any]:
        return {
            "uri": uri(app.id),
            "name": clean(best(app.names, self._locale)),
            "description": clean(app.description),
            "mimeType": "application/aai+json",
        }

    def _templates(self, exchange: Exchange) -> Result:
        exchange.read(_List)
        return self._cacheable(exchange, {"resourceTemplates": [WEB_APP]}, READ_TTL_MS)

    async def _call(self, exchange: Exchange) -> Result:
        call = exchange.read(_Call)
        try:
            return await self._called(exchange, call.name, call.arguments or {})
        except SwitchboardError as error:
            return results.from_error(error)

    async def _called(self, exchange: Exchange, name: str, arguments: dict[str, Any]) -> Result:
        if name in (DISCOVER, PORTABLE_DISCOVER):
            text = _text(arguments, "url", name)
            return self._guide(exchange, await self._lookup.discover(text))
        if name in (EXECUTE, PORTABLE_EXECUTE):
            app, tool = _text(arguments, "app", name), _text(arguments, "tool", name)
            return await self._run(exchange, await self._lookup.app(app), tool, _args(arguments.get("args")))
        if name.startswith(GUIDE_PREFIX) or (name.startswith(PORTABLE_PREFIX) and ":" not in name):
            return self._guide(exchange, await self._lookup.app(name))
        return await self._called_directly(exchange, name, arguments)

    async def _called_directly(self, exchange: Exchange, name: str, arguments: dict[str, Any]) -> Result:
        """Run `<app id>:<tool>`; a site's app is called by its address, and any app by its name."""
        site = _TOOL_OF_A_SITE.fullmatch(name)
        if site is not None:
            return await self._run(exchange, await self._lookup.app(site[1]), site[2], arguments)
        meant = _meant(name, self._catalogue.current().apps)
        if meant is None and not self._catalogue.is_settled:
            await self._catalogue.settled(self._patience_s)
            meant = _meant(name, self._catalogue.current().apps)
        if meant is not None:
            app, tool = meant
            return await self._run(exchange, self._lookup.found(app), tool, arguments)
        called, _, tool = name.rpartition(":")
        if not called:
            spelling = self._spelling(exchange)
            guides = nearest(name, self._catalogue.current().apps, most=1)
            known = [*map(guide_name, guides), spelling.discover, spelling.execute]
            raise UnknownTool(self._greeting.info["name"], name, known)
        return await self._run(exchange, await self._lookup.app(called), tool, arguments)

    async def _run(self, exchange: Exchange, found: Found, tool: str, arguments: Mapping[str, Any]) -> Result:
        client = AskingClient(exchange)
        return results.from_outcome(await self._execute.run(exchange.caller, found, tool, arguments, client))

    def _guide(self, exchange: Exchange, found: Found) -> Result:
        spelling = self._spelling(exchange)
        notes = (found.stale, standing_note(found.app), self._conflict(found.app))
        note = " ".join(filter(None, notes)) or None
        text = guide(
            found.app, address=found.address, spelling=spelling, locale=self._locale, note=note, asks=self._asks
        )
        return results.from_text(text, app=found.address, guide=text)

    def _conflict(self, app: App) -> str | None:
        """Say that another app has this id: whoever reads of the one must not think of the other."""
        known = self._catalogue.current().apps.get(app.id)
        if known is None or known.origin == app.origin:
            return None
        return f"Another app with the id {app.id} is installed. This one is from {app.origin}: it is a different app."

    async def _read(self, exchange: Exchange) -> Result:
        uri = exchange.read(_Read).uri
        try:
            raw = await self._catalogue.published(await self._read_as(uri))
        except SwitchboardError as error:
            data = {"uri": results.shortened(uri), "code": error.code, **results.details_of(error)}
            raise Fault(_fault(error, exchange), results.message_of(error), data) from error
        contents = [{"uri": uri, "mimeType": "application/json", "text": raw.decode("utf-8-sig", errors="replace")}]
        return self._cacheable(exchange, {"contents": contents}, READ_TTL_MS)

    async def _read_as(self, uri: str) -> App:
        """Return the app that an address of ours means, in which an agent's id may be percent-encoded."""
        decoded = unquote(uri.removeprefix(GUIDE_PREFIX)) if uri.startswith(GUIDE_PREFIX) and "%" in uri else ""
        known = self._catalogue.current().apps.get(decoded)
        return known if known is not None else (await self._lookup.app(uri)).app

    async def _listen(self, exchange: Exchange) -> Result:
        """Tell a client of the stateless protocol of changes, for as long as it listens.

        Changes that come faster than they can be told are told as one.
        """
        if len(self._listening) >= self._most_subscriptions:
            raise Fault(INTERNAL_ERROR, f"at most {self._most_subscriptions} subscriptions can be open at once")
        wanted = exchange.read(_Listen).notifications
        identity = {"_meta": {SUBSCRIPTION: exchange.id}}
        kinds = [kind for kind, asked in (("tools", wanted.tools), ("resources", wanted.resources)) if asked]
        honoured = {f"{kind}ListChanged": True for kind in kinds}
        exchange.notify("notifications/subscriptions/acknowledged", {**identity, "notifications": honoured})
        changed = Event()
        pending = self._listening[changed] = set[str]()
        try:
            while not self._closed:
                await changed.wait()
                changed.clear()
                for kind in kinds if not self._closed else ():
                    if kind in pending:
                        exchange.notify(f"notifications/{kind}/list_changed", identity)
                pending.clear()
        finally:
            del self._listening[changed]
        return identity

    def _changed(self) -> None:
        """Tell whoever listens; the first scan only completes what nobody has seen, unless a list went out before.

        A list that looks as it did has not changed, whatever has: who has seen none is told of every change of the
        apps.
        """
        was_loading, self._loading = self._loading, not self._catalogue.is_complete
        if not self._given and not self._listening:
            return  # nobody has seen anything or waits: then nothing need be put together only to be compared
        self._outdated = frozenset(self._now_different())
        version = self._catalogue.current().version
        is_new, self._told_version = version != self._told_version, version
        if was_loading and not self._given:
            return
        unseen = {kind for kind in _KINDS if kind not in self._given} if is_new else set[str]()
        for changed, pending in self._listening.items():
            pending.update(self._outdated, unseen)
            if pending:
                changed.set()

    def _now_different(self) -> Iterator[str]:
        """Yield the kind of every list that was given out and is another one now."""
        count = len(self._catalogue.current().apps)
        for (name, start, portable), before in list(self._seen.items()):
            entries, kind = (self._tools, "tools") if name == self._tools.__name__ else (self._resources, "resources")
            is_there = not start or start < count
            now = hash(self._page(entries, start, PORTABLE if portable else AAI).text) if is_there else 0
            self._seen[(name, start, portable)] = now
            if now != before:
                yield kind


def _meant(name: str, apps: Shards[str, App]) -> tuple[App, str] | None:
    """Return which tool of which app a name means, the longest id first; None if it begins with no app's id.

    Only what is written counts: an id that merely ends, or begins, like the text of a name is another app's.
    """
    read = [(apps[app_id], tool) for app_id, tool in _divided(name) if app_id in apps]
    exact = next(((app, tool) for app, tool in read if app.capability(tool) is not None), None)
    return exact or (read[0] if read else None)


def _divided(name: str) -> Iterator[tuple[str, str]]:
    """Yield every app id and tool that a name can be made of: as they are, then percent-encoded as targets are."""
    if len(name) > _LONGEST_CALL:
        return
    for position in range(len(name) - 2, 0, -1):
        if name[position] == ":":
            yield name[:position], name[position + 1 :]
    try:
        address = parse_target(name)
    except InvalidTarget:
        return
    # An agent's capability may be named with its kind; apps have neither skills nor reasoners.
    yield address.owner, address.name if address.kind is None else f"{address.kind}:{address.name}"


def _fault(error: SwitchboardError, exchange: Exchange) -> int:
    """Return the code of a resource that cannot be read; only an older client is told apart that there is none."""
    if isinstance(error, UnknownApp):
        return INVALID_PARAMS if exchange.modern else RESOURCE_NOT_FOUND
    return INVALID_PARAMS if isinstance(error, InvalidRequest) else INTERNAL_ERROR


def _start(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 9:  # noqa: PLR2004 - far more apps than there are
        raise Fault(INVALID_PARAMS, "this cursor is not one of ours")
    return int(cursor)


def _text(arguments: Mapping[str, Any], key: str, tool: str) -> str:
    value = arguments.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InvalidRequest(f"{tool} needs {key!r}, a text. Give it, and call again.", parameter=key)
    return value


def _args(value: object) -> dict[str, Any]:
    """Return the arguments of a call; some models can only send them as a text with JSON in it."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value) if value.strip() else None
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidRequest(
                f"args is a text that is not JSON: {error}. Send an object.", parameter="args"
            ) from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidRequest(
            "args has to be an object. Put every parameter into it by its name, and call again.", parameter="args"
        )
    return msgspec.convert(value, dict[str, Any])
