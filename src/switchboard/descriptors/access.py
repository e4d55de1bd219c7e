"""Access descriptors (schema 2.0): no tools, only where another MCP server, skill, agent or program is.

They name no id: the folder they were found in does.
"""

from switchboard.catalog.bindings import Execution
from switchboard.catalog.model import App, Names, Platform
from switchboard.descriptors.cursor import Record, Value
from switchboard.descriptors.executions import read_acp_start, read_execution
from switchboard.descriptors.identity import check_id, read_names, read_version

_TYPES = {"mcp": "mcp", "skill": "skill", "acp-agent": "acp", "cli": "cli"}


def read_access(root: Record, access: Value, system: Platform, folder: str) -> App | None:
    """Read a whole 2.0 document."""
    access = access.quietly()
    root.ignore("discovery", "$schema", "access")
    _schema_version(root)
    version = read_version(root)
    names, icon_url = _app(root)
    summary, keywords = _exposure(root)
    app_id = check_id(folder, root.path, root)
    execution = _execution(access, system, folder)
    root.finish()
    if names is None or app_id is None or execution is None:
        return None
    return App(
        id=app_id,
        version=version,
        platform=system,
        names=names,
        description=summary or f"{names.primary} application",
        aliases=keywords,
        icon_url=icon_url,
        execution=execution,
    )


def _schema_version(root: Record) -> None:
    value = root.take("schemaVersion")
    if value is None:
        root.default("schemaVersion", "is missing, read as 2.0")
    elif value.value != "2.0":
        value.note_old_form("read as 2.0, because the document has access")


def _app(root: Record) -> tuple[Names | None, str | None]:
    value = root.require("app")
    app = value.record() if value else None
    if app is None:
        return None, None
    name, icon, default = app.require("name"), app.take("iconUrl"), app.take("defaultLang")
    # Here the key `default` is the rule, and no defaultLang is needed; one text is as old as elsewhere.
    usual = name is not None and not isinstance(name.value, str)
    names = read_names(app.quietly(), name.quietly() if usual else name, default) if name else None
    icon_url = icon.url() if icon else None
    app.finish()
    return names, icon_url


def _exposure(root: Record) -> tuple[str | None, tuple[str, ...]]:
    value = root.take("exposure")
    exposure = value.record() if value else None
    if exposure is None:
        return None, ()
    summary, keywords = exposure.take("summary"), exposure.take("keywords")
    said = summary.text() if summary else None
    words = tuple(text for item in keywords.items() if (text := item.text())) if keywords else ()
    exposure.finish()
    return said, words


def _execution(access: Value, system: Platform, folder: str) -> Execution | None:
    record = access.record()
    if record is None:
        return None
    protocol, config = record.require("protocol"), record.require("config")
    kind = _TYPES.get(protocol.value) if protocol and isinstance(protocol.value, str) else None
    if protocol and kind is None:
        protocol.choice(*_TYPES)
    record.finish()
    settings = config.record() if config else None
    if kind is None or settings is None:
        return None
    if kind == "acp":
        return read_acp_start(settings)
    return read_execution(settings.typed(kind), system, folder)
