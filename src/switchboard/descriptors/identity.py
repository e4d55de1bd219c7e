"""Who an app says it is: id, names, description, version, in every form these were ever published in."""

import re

from msgspec import Struct

from switchboard.catalog.model import Names
from switchboard.descriptors.cursor import Record, Value

_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_REVERSE_DNS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)+")
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
_NUMBER = "(0|[1-9][0-9]{0,8})"
_SEMVER = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
_SHORT_VERSION = re.compile(rf"{_NUMBER}(\.{_NUMBER})?")
_UNKNOWN_LANGUAGE = "und"


class Identity(Struct, frozen=True):
    """What an app is called."""

    id: str
    names: Names
    description: str
    aliases: tuple[str, ...]
    icon_url: str | None


def read_identity(root: Record, folder: str) -> Identity | None:
    """Read the `app` object, or the same facts at the root where the drafts had them."""
    value = root.take("app")
    app = value.record() if value else Record({}, f"{root.path}.app", root.report)
    if app is None:
        return None
    app_id = _id(app.take("id", "appId", "app_id") or _at_root(root, "appId", "app_id", "id"), app, folder)
    names = _names(app.take("name") or _at_root(root, "name"), app, app_id or folder)
    description = _text(app.take("description") or _at_root(root, "description"))
    if description is None and names is not None:
        description = f"{names.primary} application"
        app.default("description", "is missing; a description helps a model to choose the app")
    aliases = app.take("aliases") or _at_root(root, "aliases")
    icon = app.take("iconUrl")
    words = tuple(text for item in aliases.items() if (text := item.text())) if aliases else ()
    icon_url = icon.url() if icon else None
    if "version" not in root:
        app.ignore("version")
    app.finish()
    if app_id is None or names is None or description is None:
        return None
    return Identity(app_id, names, description, words, icon_url)


def read_version(root: Record) -> str:
    """Read the descriptor's version; what is no semantic version is mended as far as it goes."""
    app = root.peek("app")
    value = root.take("version")
    if value is None and app is not None:
        value = app.take("version")
        if value is not None:
            value.note_old_form("belongs to the root of the document")
            return _semver(value.value)
    if value is None:
        root.default("version", "is missing, read as 0.0.0")
        return "0.0.0"
    version = _semver(value.value)
    if version != value.value:
        value.note_old_form(f"not a semantic version, read as {version}")
    return version


def read_names(record: Record, value: Value, wanted: Value | None) -> Names | None:
    """Read names in any form: an object by language, one text, or several texts between bars."""
    default = _tag(wanted.value) if wanted and isinstance(wanted.value, str) else None
    if isinstance(value.value, str):
        return _plain_names(value, default)
    texts = _texts_by_tag(value)
    if not texts:
        return None
    if default in texts and wanted is not None:
        if default != wanted.value:
            wanted.note_old_form(f"written as {default}")
        return Names(tuple(texts.items()), default)
    fallback = next((tag for tag in (_UNKNOWN_LANGUAGE, "en") if tag in texts), next(iter(texts)))
    if wanted is None:
        record.default("defaultLang", f"is missing, read as {fallback}")
    elif default is None:
        record.report.warn("value", wanted.path, f"is not a language tag such as en or zh-CN; read as {fallback}")
    else:
        record.report.warn("cross", wanted.path, f"is not a language of name; read as {fallback}")
    return Names(tuple(texts.items()), fallback)


def _id(value: Value | None, app: Record, folder: str) -> str | None:
    if value is None:
        app.default("id", f"is missing, read as the folder's name {folder!r}")
        return check_id(folder, f"{app.path}.id", app)
    text = value.text()
    app_id = None if text is None else check_id(text, value.path, app)
    if app_id is not None and not _REVERSE_DNS.fullmatch(app_id):
        app.report.warn("value", value.path, "is not a reverse-DNS name such as com.example.mail")
    return app_id


def check_id(text: str, path: str, record: Record) -> str | None:
    """Return an id that is safe as a file name and in an address, or report what is wrong with it."""
    if _SAFE_ID.fullmatch(text) and ".." not in text:
        return text
    record.report.error("value", path, "an app id has letters, digits, dots, hyphens and underscores only")
    return None


def _at_root(root: Record, key: str, *old: str) -> Value | None:
    value = root.take(key, *old)
    if value is not None and value.path.endswith(f".{key}"):
        value.note_old_form("belongs into the app object")
    return value


def _names(value: Value | None, app: Record, app_id: str) -> Names | None:
    wanted = app.take("defaultLang")
    if value is None:
        app.default("name", "is missing, read from the id")
        return Names(((_UNKNOWN_LANGUAGE, app_id.rpartition(".")[2] or "app"),), _UNKNOWN_LANGUAGE)
    return read_names(app, value, wanted)


def _plain_names(value: Value, default: str | None) -> Names | None:
    parts = [part.strip() for part in value.value.split("|") if part.strip()]
    if not parts:
        value.refuse("has no name in it")
        return None
    value.note_old_form("one text in the place of names by language")
    first = default or _UNKNOWN_LANGUAGE
    further = ((f"{_UNKNOWN_LANGUAGE}-x-{i}", part) for i, part in enumerate(parts[1:], 2))
    return Names(((first, parts[0]), *further), first)


def _texts_by_tag(value: Value) -> dict[str, str]:
    record = value.record()
    texts: dict[str, str] = {}
    for key, item in record.entries() if record else ():
        tag, text = _tag(key), item.text()
        if tag is None and record:
            record.report.error("value", item.path, "is not a language tag such as en or zh-CN")
        elif tag in texts and record:
            record.report.warn("unknown", item.path, f"a second name for {tag}, not used")
        elif text is not None and tag is not None:
            texts[tag] = text
            if tag != key:
                item.note_old_form(f"written as {tag}")
    if record and not texts and not record.report.failed:
        record.report.error("missing", record.path, "has no name in it")
    return texts


def _tag(text: str) -> str | None:
    tag = _UNKNOWN_LANGUAGE if text == "default" else text.replace("_", "-")
    return tag if _LANGUAGE.fullmatch(tag) else None


def _semver(value: object) -> str:
    if isinstance(value, str) and _SEMVER.fullmatch(value) and len(value) <= 100:  # noqa: PLR2004 - the contract's limit
        return value
    if isinstance(value, str) and _SHORT_VERSION.fullmatch(value):
        return value + ".0" * (2 - value.count("."))
    return "0.0.0"


def _text(value: Value | None) -> str | None:
    return value.text() if value else None
