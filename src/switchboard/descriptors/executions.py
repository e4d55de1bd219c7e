"""The `execution` of an aai.json: reading each type in every spelling, and writing it in the canonical one."""

from collections.abc import Callable
from typing import Any, Literal, assert_never

import msgspec
from msgspec.structs import replace

from switchboard.catalog.bindings import (
    Acp,
    AgentServer,
    AppleEvents,
    Bus,
    Cli,
    Com,
    Dbus,
    Execution,
    Http,
    McpHttp,
    McpStdio,
    Pairs,
    Registered,
    RemoteTransport,
    Route,
    Script,
    ScriptLanguage,
    Skill,
    Stdio,
)
from switchboard.catalog.model import Platform
from switchboard.descriptors.cursor import Record

_DESKTOP_TYPE = {"macos": "apple-events", "linux": "dbus", "windows": "com"}
_OBJECT_PATH = "/"


def read_execution(record: Record, platform: Platform, app_id: str) -> Execution | None:
    """Read one execution object; None where it cannot be used, with the reason in the report."""
    value = record.require("type")
    if value is None:
        return None
    kind = value.value
    if kind == "ipc":
        kind = _DESKTOP_TYPE.get(platform, "ipc")
        value.note_old_form(f"old name of the platform's own way to call, {kind}")
    chosen = _READERS.get(kind) if isinstance(kind, str) else None
    if chosen is None:
        value.choice(*_READERS)
        return None
    execution = chosen(record, app_id)
    record.finish()
    return execution


def default_execution(platform: Platform, app_id: str) -> Execution | None:
    """Return what a desktop app is called by when it does not say; web apps have no default."""
    match platform:
        case "macos":
            return AppleEvents(bundle_id=app_id)
        case "linux":
            return Dbus(service=app_id)
        case "windows":
            return Com(prog_id=app_id)
        case "web" | "agent":
            return None
    assert_never(platform)


def read_acp_start(record: Record) -> Acp | None:
    """Read how a program that speaks the Agent Client Protocol is started."""
    command, args, env = _command(record)
    record.finish()
    return None if command is None else Acp(command=command, args=args, env=env)


def read_route(record: Record) -> Route:
    """Read what one tool adds to its app's execution."""
    path = record.take("path", "endpoint")
    method = record.take("method")
    headers = record.take("headers")
    query = record.take("query", "query_params")
    body = record.take("body", "body_template")
    output = record.take("output", "output_parser")
    script = record.take("script")
    timeout = record.take("timeout")
    return Route(
        path=path.text() if path else None,
        method=method.text() if method else None,
        headers=headers.headers() if headers else (),
        query=query.pairs() if query else (),
        body=body.json() if body else None,
        output=output.choice("json", "text") if output else None,
        script=script.json() if script else None,
        timeout_ms=timeout.milliseconds() if timeout else None,
    )


def write_execution(execution: Execution) -> dict[str, Any]:
    """Return the canonical object, with every default written out and nothing empty."""
    timeout = None if isinstance(execution, Skill | Script | AgentServer | Registered) else execution.timeout_ms
    return _filled({"type": execution.kind, **_fields(execution), "timeout": timeout})


def write_route(route: Route) -> dict[str, Any]:
    """Return the canonical object of a tool's own part, empty where there is nothing to say."""
    return _filled(
        {
            "path": route.path,
            "method": route.method,
            "headers": dict(route.headers),
            "query": dict(route.query),
            "body": None if route.body is None else msgspec.Raw(route.body),
            "output": route.output,
            "script": None if route.script is None else msgspec.Raw(route.script),
            "timeout": route.timeout_ms,
        }
    )


def _fields(execution: Execution) -> dict[str, Any]:  # noqa: C901, PLR0911, PLR0912 - one flat case per type
    match execution:
        case Http():
            return {"baseUrl": execution.base_url, "defaultHeaders": dict(execution.default_headers)}
        case Stdio():
            return {**_program(execution), "keepAlive": execution.keep_alive or None}
        case Acp():
            return {"start": _filled(_program(execution))}
        case AppleEvents():
            codes = {"eventClass": execution.event_class, "eventId": execution.event_id}
            return {"bundleId": execution.bundle_id, **codes}
        case Dbus():
            place = {"objectPath": execution.object_path, "interface": execution.interface, "bus": execution.bus}
            return {"service": execution.service, **place}
        case Com():
            return {"progId": execution.prog_id}
        case McpStdio():
            return {"transport": "stdio", **_program(execution), "cwd": execution.cwd}
        case McpHttp():
            return {"transport": execution.transport, "url": execution.url, "headers": dict(execution.headers)}
        case Skill():
            return {"path": execution.path, "url": execution.url}
        case Cli():
            return {**_program(execution), "cwd": execution.cwd}
        case Script():
            return {"language": execution.language}
        case AgentServer():
            return {"baseUrl": execution.base_url}
        case Registered():
            return {"service": execution.service, "agentId": execution.agent_id}
    assert_never(execution)


def _http(record: Record, _: str) -> Http | None:
    base_url = record.require("baseUrl")
    headers = record.take("defaultHeaders", "headers")
    url = base_url.url() if base_url else None
    timeout_ms = _timeout(record)
    if url is None:
        return None
    return Http(base_url=url, default_headers=headers.headers() if headers else (), timeout_ms=timeout_ms)


def _stdio(record: Record, _: str) -> Stdio | None:
    command, args, env = _command(record)
    keep_alive = record.take("keepAlive")
    kept = keep_alive.boolean() if keep_alive else False
    timeout_ms = _timeout(record)
    if command is None:
        return None
    return Stdio(command=command, args=args, env=env, keep_alive=kept or False, timeout_ms=timeout_ms)


def _acp(record: Record, _: str) -> Acp | None:
    start = record.require("start")
    inner = start.record() if start else None
    outside, timeout_ms = record.take("env"), _timeout(record)
    if outside:
        outside.note_old_form("belongs into start")
    acp = read_acp_start(inner) if inner else None
    if acp is None:
        return None
    env = {**dict(acp.env), **dict(outside.pairs() if outside else ())}
    return replace(acp, env=tuple(env.items()), timeout_ms=timeout_ms)


def _apple_events(record: Record, app_id: str) -> AppleEvents:
    bundle = record.take("bundleId")
    return AppleEvents(
        bundle_id=(bundle.text() if bundle else None) or app_id,
        event_class=_four_letters(record, "eventClass") or "AAI ",
        event_id=_four_letters(record, "eventId") or "call",
        timeout_ms=_timeout(record),
    )


def read_dbus(record: Record, app_id: str) -> Dbus:
    """Read where an app is on the bus; the time limit is read by the caller, who knows its unit."""
    service, path = record.take("service"), record.take("objectPath", "object")
    interface, bus = record.take("interface"), record.take("bus")
    object_path = path.text() if path else None
    which: Bus | None = bus.choice("session", "system") if bus else None
    if path and object_path and not object_path.startswith(_OBJECT_PATH):
        record.report.error("value", path.path, "an object path begins with /")
    return Dbus(
        service=(service.text() if service else None) or app_id,
        object_path=object_path or "/com/aai/handler",
        interface=(interface.text() if interface else None) or "com.aai.Executor",
        bus=which or "session",
    )


def _dbus(record: Record, app_id: str) -> Dbus:
    return replace(read_dbus(record, app_id), timeout_ms=_timeout(record))


def _com(record: Record, app_id: str) -> Com | None:
    prog_id = record.take("progId", "progid")
    if prog_id is None and record.says("type", "ipc"):
        return Com(prog_id=app_id, timeout_ms=_timeout(record))
    if prog_id is None:
        record.report.error("missing", f"{record.path}.progId", "is missing")
    text = prog_id.text() if prog_id else None
    timeout_ms = _timeout(record)
    return None if text is None else Com(prog_id=text, timeout_ms=timeout_ms)


def _mcp(record: Record, _: str) -> McpStdio | McpHttp | None:
    value = record.require("transport")
    transport: Literal["stdio"] | RemoteTransport | None = (
        value.choice("stdio", "streamable-http", "sse") if value else None
    )
    if transport is None:
        return None
    if transport == "stdio":
        command, args, env = _command(record)
        cwd, timeout_ms = _cwd(record), _timeout(record)
        return (
            None if command is None else McpStdio(command=command, args=args, env=env, cwd=cwd, timeout_ms=timeout_ms)
        )
    address, headers = record.require("url"), record.take("headers")
    url = address.url() if address else None
    pairs, timeout_ms = headers.headers() if headers else (), _timeout(record)
    return None if url is None else McpHttp(transport=transport, url=url, headers=pairs, timeout_ms=timeout_ms)


def _skill(record: Record, _: str) -> Skill | None:
    path, url = record.take("path"), record.take("url")
    if (path is None) == (url is None):
        record.report.error("missing", record.path, "a skill needs exactly one of path and url")
        return None
    return Skill(path=path.text() if path else None, url=url.url() if url else None)


def _cli(record: Record, _: str) -> Cli | None:
    command, args, env = _command(record)
    cwd, timeout_ms = _cwd(record), _timeout(record)
    return None if command is None else Cli(command=command, args=args, env=env, cwd=cwd, timeout_ms=timeout_ms)


def _script(record: Record, _: str) -> Script | None:
    value = record.require("language")
    language: ScriptLanguage | None = value.choice("applescript", "jxa", "com") if value else None
    return None if language is None else Script(language=language)


_READERS: dict[str, Callable[[Record, str], Execution | None]] = {
    "http": _http,
    "stdio": _stdio,
    "acp": _acp,
    "apple-events": _apple_events,
    "dbus": _dbus,
    "com": _com,
    "mcp": _mcp,
    "skill": _skill,
    "cli": _cli,
    "script": _script,
}


def _command(record: Record) -> tuple[str | None, tuple[str, ...], Pairs]:
    command, args, env = record.require("command"), record.take("args"), record.take("env")
    return (
        command.text() if command else None,
        args.texts() if args else (),
        env.pairs() if env else (),
    )


def _cwd(record: Record) -> str | None:
    value = record.take("cwd")
    return value.text() if value else None


def _timeout(record: Record) -> int | None:
    value = record.take("timeout")
    return value.milliseconds() if value else None


def _four_letters(record: Record, key: str) -> str | None:
    value = record.take(key)
    text = value.text() if value else None
    if value and text is not None and len(text) != len("AAI "):
        record.report.error("value", value.path, "an Apple Event code has four characters")
    return text


def _program(program: Stdio | Acp | McpStdio | Cli) -> dict[str, Any]:
    return {"command": program.command, "args": list(program.args), "env": dict(program.env)}


def _filled(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None and value not in ({}, [])}
