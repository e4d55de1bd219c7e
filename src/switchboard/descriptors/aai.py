"""Reading aai.json: any bytes in, one app or the reasons why not out; and writing it in the canonical form.

One tolerant reader for everything that was ever published under this name: canonical 1.0, its snake_case, the forms of
the drafts, 2.0 access descriptors. What had to be mended is a warning with its JSON path, what cannot be is an error.
The canonical form itself is `contract/aai.schema.json`: a document without any problem is valid there.
"""

import re
from typing import Any

import msgspec
from msgspec import Struct

from switchboard.catalog.bindings import Auth, Execution
from switchboard.catalog.findings import Problem
from switchboard.catalog.model import App, Capability, Platform
from switchboard.descriptors.access import read_access
from switchboard.descriptors.auths import read_auth, write_auth
from switchboard.descriptors.cursor import Record, Report, Value
from switchboard.descriptors.document import decode
from switchboard.descriptors.drafts import Entry, read_entry
from switchboard.descriptors.executions import default_execution, read_execution, write_execution
from switchboard.descriptors.identity import Identity, read_identity, read_version
from switchboard.descriptors.tools import read_tools, write_tool

_SCHEMA_VERSION = re.compile(r"1\.[0-9]{1,4}")
_OLD_SCHEMA_VERSION = re.compile(r"0\.[0-9]{1,4}")
_PLATFORMS: tuple[Platform, ...] = ("macos", "linux", "windows", "web")


class Reading(Struct, frozen=True):
    """What became of one document: the app if it can be used, and everything that is wrong with it."""

    app: App | None
    problems: tuple[Problem, ...]
    tool_paths: dict[str, str] = {}
    """Where each tool stands in the document, by name."""


def read(raw: bytes, *, system: Platform, folder: str = "", origin: str = "") -> Reading:
    """Read one aai.json as found in `folder` on this `system`. Never raises, whatever the bytes are."""
    document = decode(raw)
    if isinstance(document, Problem):
        return Reading(None, (document,))
    report = Report()
    root = Record(document, "$", report)
    access = root.take("access")
    app = _one_point_x(root, system, folder) if access is None else read_access(root, access, system, folder)
    if app is None and not report.failed:
        report.error("value", "$", "cannot be read as an app")
    if app is None or report.failed:
        return Reading(None, report.problems)
    return Reading(msgspec.structs.replace(app, origin=origin, raw=raw), report.problems, report.tool_paths)


def write(app: App) -> bytes:
    """Return the app's descriptor in the canonical form, indented for people."""
    return msgspec.json.format(msgspec.json.encode(canonical(app)), indent=2)


def canonical(app: App) -> dict[str, Any]:
    """Return the app's descriptor as the object of the canonical form."""
    facts: dict[str, Any] = {
        "id": app.id,
        "name": dict(app.names.texts),
        "defaultLang": app.names.default,
        "description": app.description,
    }
    if app.aliases:
        facts["aliases"] = list(app.aliases)
    if app.icon_url is not None:
        facts["iconUrl"] = app.icon_url
    document: dict[str, Any] = {
        "schemaVersion": "1.0",
        "version": app.version,
        "platform": app.platform,
        "app": facts,
        "execution": write_execution(app.execution),
    }
    if app.auth is not None:
        document["auth"] = write_auth(app.auth)
    document["tools"] = [write_tool(tool) for tool in app.capabilities]
    return document


def _one_point_x(root: Record, system: Platform, folder: str) -> App | None:
    schema = root.take("$schema")
    if schema is not None:
        schema.text(empty=True)
    _schema_version(root)
    version = read_version(root)
    identity = read_identity(root, folder)
    if identity is None:
        return None
    platforms = root.take("platforms") if "platform" not in root else None
    tools = root.take("tools", "skills")
    if platforms is not None:
        entry = read_entry(platforms, tools, system, identity.id)
    else:
        entry = _entry(root, tools, system, identity.id)
    root.finish()
    return None if entry is None else _app(identity, version, entry)


def _app(identity: Identity, version: str, entry: Entry) -> App:
    return App(
        id=identity.id,
        version=version,
        platform=entry.platform,
        names=identity.names,
        description=identity.description,
        aliases=identity.aliases,
        icon_url=identity.icon_url,
        execution=entry.execution,
        auth=entry.auth,
        capabilities=entry.tools,
    )


def _entry(root: Record, tools: Value | None, system: Platform, app_id: str) -> Entry | None:
    value = root.take("execution")
    record = value.record() if value else None
    platform = _platform(root, system)
    execution = _execution(root, record, platform, app_id) if value is None or record else None
    auth = _auth(root)
    if execution is None:
        return None
    return Entry(platform, execution, auth, _tools(root, tools, execution))


def _schema_version(root: Record) -> None:
    value = root.take("schemaVersion")
    if value is None:
        root.default("schemaVersion", "is missing, read as 1.0")
        return
    text = value.text()
    if text is None or _SCHEMA_VERSION.fullmatch(text):
        return
    if _OLD_SCHEMA_VERSION.fullmatch(text):
        value.note_old_form("read as 1.0")
    elif text == "2.0":
        root.report.error("missing", f"{root.path}.access", "is missing; a 2.0 descriptor says where its app is")
    else:
        root.report.error("value", value.path, "is not known; this version reads 1.x and 2.0")


def _platform(root: Record, system: Platform) -> Platform:
    value = root.take("platform")
    if value is None:
        execution = root.peek("execution")
        inferred: Platform = "web" if execution and execution.says("type", "http") else system
        root.default("platform", f"is missing, read as {inferred}")
        return inferred
    if value.value == "desktop":
        value.note_old_form(f"read as this system, {system}")
        return system
    platform: Platform | None = value.choice(*_PLATFORMS)
    return platform or system


def _execution(root: Record, record: Record | None, platform: Platform, app_id: str) -> Execution | None:
    if record is not None:
        return read_execution(record, platform, app_id)
    execution = default_execution(platform, app_id)
    if execution is None:
        root.report.error("missing", f"{root.path}.execution", "is missing; a web app needs an address to call")
    else:
        root.default("execution", f"is missing, read as {execution.kind}")
    return execution


def _auth(root: Record) -> Auth | None:
    value = root.take("auth")
    record = value.record() if value else None
    return read_auth(record) if record else None


def _tools(root: Record, value: Value | None, execution: Execution) -> tuple[Capability, ...]:
    if value is None:
        root.default("tools", "is missing; the app offers nothing to call")
        return ()
    return read_tools(value, execution)
