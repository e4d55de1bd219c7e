"""The texts a model reads: one line per app, and the guide of one app.

A guide is enough to make a right call at the first try: every parameter with its type, whether it is required, what it
may be, and for each operation a call that works as it stands.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from switchboard.catalog.bindings import ApiKey, AppCredential, Auth, Cookie, Json, OAuth2
from switchboard.catalog.locales import best
from switchboard.catalog.model import App, Capability
from switchboard.catalog.samples import sample
from switchboard.catalog.text import clean

_LINE_NAME = 40
_LINE_NAMES = 4
_LINE_DESCRIPTION = 110
_LINE_ALIASES = 4
_LINE_ALIAS = 24
_TEXT = 600
_BUDGET = 20_000
"""Characters after which a guide only names the remaining operations: about 5,000 tokens."""
_DEEPEST = 3
_MOST_VALUES = 20


class Spelling(Struct, frozen=True):
    """How tools are called in this conversation."""

    portable: bool
    execute: str
    discover: str


AAI = Spelling(portable=False, execute="aai:exec", discover="web:discover")
PORTABLE = Spelling(portable=True, execute="aai_exec", discover="web_discover")


def line(app: App) -> str:
    """Return the description of an app in the list: `【name|name】description. Aliases: a, b. Call to get guide.`"""  # noqa: D415
    names = "|".join(clean(name, _LINE_NAME) for name in app.names.all[:_LINE_NAMES])
    described = clean(app.description, _LINE_DESCRIPTION).rstrip(". ")
    aliases = ", ".join(clean(alias, _LINE_ALIAS) for alias in app.aliases[:_LINE_ALIASES])
    parts = [f"【{names}】{described}", f"Aliases: {aliases}" if aliases else "", "Call to get guide"]
    return ". ".join(part for part in parts if part) + "."


def guide(app: App, *, address: str, spelling: Spelling, locale: str, stale: str | None = None) -> str:
    """Return the guide of an app that is called as `address`."""
    return "\n".join(_guide(app, address, spelling, locale, stale)) + "\n"


def _guide(app: App, address: str, spelling: Spelling, locale: str, stale: str | None) -> Iterator[str]:
    yield f"# {clean(best(app.names, locale))} Operation Guide"
    yield ""
    yield clean(app.description, _TEXT)
    if stale:
        yield ""
        yield f"> Note: {stale}"
    yield ""
    yield "## App Info"
    yield f"- ID: {app.id}"
    if address != app.id:
        yield f"- Address: {address}"
    if len(app.names.all) > 1:
        yield f"- Names: {', '.join(clean(name, _LINE_NAME) for name in app.names.all)}"
    yield f"- Platform: {app.platform}"
    yield f"- Version: {clean(app.version)}"
    yield ""
    yield "## Authentication"
    yield from _authentication(app.auth)
    yield ""
    yield "## Available Operations"
    yield from _operations(app, address, spelling)
    yield ""
    yield "---"
    yield f"Use {spelling.execute} tool to execute operations. The user is asked before an operation runs."


def _authentication(auth: Auth | None) -> Iterator[str]:
    match auth:
        case None:
            yield "No sign-in. The user is asked for consent before the first execution."
        case OAuth2():
            yield "OAuth 2.1: the first execution opens the browser, where the user signs in."
            if auth.scopes:
                yield f"Scopes: {clean(', '.join(auth.scopes), _TEXT)}"
        case ApiKey():
            yield "API key: the user is asked for it once, outside this conversation. Never ask for it in the chat."
            if auth.obtain_url:
                yield f"Where to get one: {clean(auth.obtain_url, _TEXT)}"
        case AppCredential():
            yield "App id and secret: asked for once, outside this conversation. Never ask for them in the chat."
        case Cookie():
            yield f"Browser session: the user signs in at {clean(auth.login_url, _TEXT)}"
    instructions = None if auth is None or isinstance(auth, OAuth2) else auth.instructions
    if instructions:
        yield f"How to: {clean(instructions, _TEXT)}"


def _operations(app: App, address: str, spelling: Spelling) -> Iterator[str]:
    if not app.capabilities:
        yield "This app offers no operations."
    length, shown = 0, 0
    for tool in app.capabilities:
        text = "\n".join(_operation(tool, address, spelling))
        length += len(text)
        if length > _BUDGET and shown:
            break
        shown += 1
        yield ""
        yield text
    rest = app.capabilities[shown:]
    if rest:
        yield ""
        yield (
            f"### {len(rest)} more operations\nTheir parameters are left out here: call {spelling.execute} with one of "
            "them, and the answer shows its schema if the arguments do not fit."
        )
        yield from (f"- {tool.id}: {clean(tool.description, _LINE_DESCRIPTION)}" for tool in rest)


def _operation(tool: Capability, address: str, spelling: Spelling) -> Iterator[str]:
    yield f"### {tool.id}"
    described = clean(tool.description, _TEXT)
    if described:
        yield described
    effect = _effect(tool)
    if effect:
        yield effect
    yield ""
    yield "**Parameters**:"
    schema = _object(tool.input_schema)
    lines = list(_parameters(schema, schema, 0))
    yield from lines or ["- none"]
    example = sample(tool.input_schema)
    call = {"app": address, "tool": tool.id, "args": example.arguments}
    yield ""
    yield "**Example**:" if example.fits else "**Example** (adapt it, the schema says more):"
    yield f"{spelling.execute}({msgspec.json.encode(call).decode()})"


def _effect(tool: Capability) -> str:
    annotations = tool.annotations
    if annotations is None:
        return ""
    if annotations.read_only:
        return "Only reads."
    return "May destroy or overwrite data." if annotations.destructive else ""


def _parameters(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Iterator[str]:
    properties = schema.get("properties")
    if not isinstance(properties, dict) or depth > _DEEPEST:
        return
    wanted = schema.get("required")
    required = frozenset(map(str, cast("list[object]", wanted))) if isinstance(wanted, list) else frozenset[str]()
    for name, inner in cast("dict[str, Any]", properties).items():
        part = _resolved(inner, root)
        need = "required" if name in required else "optional"
        described = clean(str(part.get("description") or ""), _TEXT)
        said = f"{'  ' * depth}- {clean(name)} ({_type(part, root)}, {need})"
        notes = " ".join(text for text in (described, *_notes(part)) if text)
        yield f"{said}: {notes}" if notes else said
        yield from _parameters(_resolved(part["items"], root) if "items" in part else part, root, depth + 1)


def _type(part: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    kind = part.get("type")
    if isinstance(kind, list):
        return " or ".join(str(item) for item in cast("list[object]", kind))
    if kind == "array":
        return f"array of {_type(_resolved(part['items'], root), root)}" if "items" in part else "array"
    if isinstance(kind, str):
        return kind
    for key in ("anyOf", "oneOf"):
        branches = part.get(key)
        if isinstance(branches, list):
            kinds = (_type(_resolved(branch, root), root) for branch in cast("list[object]", branches))
            return " or ".join(dict.fromkeys(kinds))
    return "object" if "properties" in part else "any"


def _notes(part: Mapping[str, Any]) -> Iterator[str]:
    values = part.get("enum")
    if isinstance(values, list):
        listed = cast("list[object]", values)
        shown = ", ".join(_json(value) for value in listed[:_MOST_VALUES])
        yield f"One of: {shown}{', …' if len(listed) > _MOST_VALUES else ''}."
    for key, word in _NOTES:
        if key in part:
            yield f"{word}: {_json(part[key])}."


_NOTES = (
    ("const", "Always"),
    ("default", "Default"),
    ("format", "Format"),
    ("pattern", "Pattern"),
    ("minimum", "At least"),
    ("maximum", "At most"),
    ("minLength", "Shortest"),
    ("maxLength", "Longest"),
)


def _json(value: object) -> str:
    return clean(msgspec.json.encode(value).decode(), _LINE_DESCRIPTION)


def _object(schema: Json | None) -> dict[str, Any]:
    document = msgspec.json.decode(schema or b"{}")
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {}


def _resolved(part: object, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a part of a schema, following one reference inside the document."""
    found = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
    reference = found.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return found
    at: Any = root
    for step in reference[2:].split("/"):
        at = cast("dict[str, Any]", at).get(step) if isinstance(at, dict) else None
    return cast("dict[str, Any]", at) if isinstance(at, dict) else found
