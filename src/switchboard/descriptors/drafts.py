"""The first drafts of aai.json: one `platforms` map, one entry per operating system, tools described flat.

Times are in seconds here. Script templates are kept and shown, but never become something that runs.
"""

from msgspec import Struct
from msgspec.structs import replace

from switchboard.catalog.bindings import Auth, Com, Execution, Http, Output, Route, Script, ScriptLanguage
from switchboard.catalog.model import Capability, Platform
from switchboard.descriptors.auths import read_auth
from switchboard.descriptors.cursor import Record, Value
from switchboard.descriptors.executions import read_dbus
from switchboard.descriptors.tools import read_tools

_SCRIPTS: dict[str, ScriptLanguage] = {"applescript": "applescript", "jxa": "jxa"}


class Entry(Struct, frozen=True):
    """What one platform's entry of a draft says."""

    platform: Platform
    execution: Execution
    auth: Auth | None
    tools: tuple[Capability, ...]


def read_entry(value: Value, root_tools: Value | None, system: Platform, app_id: str) -> Entry | None:
    """Read the entry for this system, or else the one for the web."""
    value.note_old_form("the map of the first drafts; one file per platform today")
    platforms = value.record()
    if platforms is None:
        return None
    platforms = platforms.quietly()
    chosen: Platform = system if system in platforms else "web"
    entry_value = platforms.take(chosen)
    if entry_value is None:
        platforms.report.error("missing", platforms.path, f"has no entry for {system} and none for web")
        return None
    entry = entry_value.record()
    if entry is None:
        return None
    tools = entry.take("tools", "skills") or root_tools
    execution = _execution(entry, tools, app_id)
    auth = _auth(entry)
    capabilities = read_tools(tools, execution, _flat_route) if tools and execution else ()
    entry.finish()
    return None if execution is None else Entry(chosen, execution, auth, capabilities)


def _execution(entry: Record, tools: Value | None, app_id: str) -> Execution | None:
    value = entry.require("automation")
    kind: object = value.value if value else None
    if isinstance(kind, str) and kind in _SCRIPTS:
        return _script(entry, _SCRIPTS[kind])
    if kind == "com" and _any_script(tools):
        entry.drop("progid", "not used: script templates are never run")
        return _script(entry, "com")
    match kind:
        case "restapi":
            base = entry.require("base_url")
            url = base.url() if base else None
            headers = entry.take("default_headers", "headers")
            timeout_ms = _seconds(entry)
            pairs = headers.headers() if headers else ()
            return None if url is None else Http(base_url=url, default_headers=pairs, timeout_ms=timeout_ms)
        case "dbus":
            return replace(read_dbus(entry, app_id), timeout_ms=_seconds(entry))
        case "com":
            prog_id = entry.take("progid")
            return Com(prog_id=(prog_id.text() if prog_id else None) or app_id, timeout_ms=_seconds(entry))
        case _:
            if value:
                value.choice("restapi", "dbus", "com", *_SCRIPTS)
            return None


def _script(entry: Record, language: ScriptLanguage) -> Script:
    entry.drop("timeout", "not used: script templates are never run")
    return Script(language=language)


def _any_script(tools: Value | None) -> bool:
    records = [item.record() for item in tools.items()] if tools else []
    return any(record is not None and "script" in record for record in records)


def _auth(entry: Record) -> Auth | None:
    value = entry.take("auth")
    record = value.record() if value else None
    return read_auth(record) if record else None


def _flat_route(tool: Record) -> Route:
    path, method = tool.take("endpoint", "path"), tool.take("method")
    headers, query = tool.take("headers"), tool.take("query_params", "query")
    body, script = tool.take("body", "body_template"), tool.take("script")
    output = _output(tool)
    tool.drop("cache_ttl", "not used: answers are not cached")
    return Route(
        path=path.text() if path else None,
        method=method.text() if method else None,
        headers=headers.headers() if headers else (),
        query=query.pairs() if query else (),
        body=body.json() if body else None,
        output=output,
        script=script.json() if script else None,
        timeout_ms=_seconds(tool),
    )


def _output(tool: Record) -> Output | None:
    parser = tool.take("output_parser")
    if parser is None:
        return None
    if parser.value == "json":
        return "json"
    if parser.value == "text":
        return "text"
    tool.report.warn("unknown", parser.path, "not used: an answer is read as JSON or as text")
    return None


def _seconds(record: Record) -> int | None:
    value = record.take("timeout")
    return value.seconds_as_milliseconds() if value else None
