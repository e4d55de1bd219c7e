"""The texts a model reads: one line per app, and the guide of one app.

A guide is enough to make a right call at the first try: every parameter with its type, whether it is required, what it
may be, and for each operation a call that works as it stands. Whatever a descriptor holds, a guide stays short, and
the descriptor's texts stay inside their own lines: quoted, or after a label of ours.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from switchboard.catalog.bindings import ApiKey, AppCredential, Auth, Cookie, Json, OAuth2
from switchboard.catalog.locales import best
from switchboard.catalog.model import App, Capability
from switchboard.catalog.samples import Sample, passes, sample
from switchboard.catalog.text import clean
from switchboard.telemetry.logs import timestamp

_LINE_NAME = 40
_LINE_NAMES = 4
_LINE_DESCRIPTION = 110
_LINE_TEXT = 60
"""Characters of a description in the list: it is there to be recognised, and paid for in every conversation."""
_LINE_ALIASES = 4
_LINE_ALIAS = 24
_TEXT = 600
_MOST_NAMES = 12
_DETAILS = 14_000
"""Bytes after which a guide only names the remaining operations: about 4,000 tokens."""
_NAMED = 12_000
"""Bytes for naming those; what is left then is counted."""
_PARAMETERS = 5_000
_EXAMPLE = 2_000
_DEEPEST = 3
_DEEPEST_TYPE = 4
_DEEPEST_BRANCH = 2
_MOST_VALUES = 20
_MOST_BRANCHES = 8
_MOST_INNER_BRANCHES = 2
"""Branches in branches: a few that refer to each other unfold to thousands."""
_MOST_STEPS = 8
_ENDS = (".", "!", "?", "…", ":", "。", "\uff01", "\uff1f")
_BRACKETS = str.maketrans("【】|", "[]/")


class Spelling(Struct, frozen=True):
    """How tools are called in this conversation."""

    portable: bool
    execute: str
    discover: str


AAI = Spelling(portable=False, execute="aai:exec", discover="web:discover")
PORTABLE = Spelling(portable=True, execute="aai_exec", discover="web_discover")


def line(app: App) -> str:
    """Return the description of an app in the list: `【name|name】description. Aliases: a, b. Call to get guide.`"""  # noqa: D415
    names = "|".join(clean(name, _LINE_NAME).translate(_BRACKETS) for name in app.names.all[:_LINE_NAMES])
    marked = "(inactive) " if app.standing is not None and app.standing.health == "inactive" else ""
    described = _shortened(clean(app.description, _TEXT), _LINE_TEXT).translate(_BRACKETS)
    aliases = ", ".join(clean(alias, _LINE_ALIAS).translate(_BRACKETS) for alias in app.aliases[:_LINE_ALIASES])
    return f"【{names}】{marked}" + _sentences(described, f"Aliases: {aliases}" if aliases else "", "Call to get guide")


def standing_note(app: App) -> str:
    """Say how somebody is who lives elsewhere, where that matters to whoever calls; empty where all is well."""
    standing = app.standing
    if standing is None:
        return ""
    notes: list[str] = []
    if standing.health == "inactive":
        refused = "A call is refused until it is back" if standing.is_refused else "It was so when last heard of"
        notes.append(f"This agent is inactive{_since(standing.since)}{_because(standing.reason)}. {refused}.")
    elif standing.health == "degraded":
        notes.append(f"This agent is degraded{_since(standing.since)}{_because(standing.reason)}: calls may fail.")
    if standing.stale_since is not None:
        notes.append(
            f"Its control plane does not answer{_since(standing.stale_since)}: this is what it said last. "
            "A call is tried all the same."
        )
    return " ".join(notes)


def _since(at: float | None) -> str:
    return "" if at is None else f" since {timestamp(at)}"


def _because(reason: str) -> str:
    return f" ({clean(reason, _LINE_DESCRIPTION)})" if reason else ""


def _shortened(text: str, limit: int) -> str:
    """Return a text cut between two words."""
    if len(text) <= limit:
        return text
    words = text[:limit].rpartition(" ")[0] if " " in text[limit // 2 : limit] else text[: limit - 1]
    return words.rstrip(" ,;:-") + "…"


def guide(  # noqa: PLR0913 - what it says depends on all of them
    app: App, *, address: str, spelling: Spelling, locale: str, note: str | None = None, asks: bool = True
) -> str:
    """Return the guide of an app that is called as `address`; `asks` says whether there is a user who is asked."""
    return "\n".join(_guide(app, address, spelling, locale, note, "" if asks else _RULED)) + "\n"


_RULED = "The rules of this server decide what may run."


def _guide(  # noqa: PLR0913, PLR0917 - as above
    app: App, address: str, spelling: Spelling, locale: str, note: str | None, ruled: str
) -> Iterator[str]:
    yield f"# {clean(best(app.names, locale), _LINE_DESCRIPTION)} Operation Guide"
    yield ""
    yield from _quoted(app.description)
    if note:
        yield ""
        yield f"Note: {clean(note, _TEXT)}"
    yield ""
    texts, rest = _operations(app, address, spelling)
    yield "## App Info"
    yield f"- ID: {_name(app.id)}"
    if address != app.id:
        yield f"- Address: {clean(address)}"
    others = [*app.names.all, *app.aliases] if len(app.names.all) > 1 or app.aliases else []
    if others:
        yield f"- Names: {', '.join(clean(name, _LINE_NAME) for name in others[:_MOST_NAMES])}"
    yield f"- Platform: {app.platform}"
    if app.version:
        yield f"- Version: {clean(app.version)}"
    if app.standing is not None:
        yield f"- Health: {app.standing.health}"
    if app.standing is not None and app.standing.planes:
        yield f"- Control plane: {clean(', '.join(app.standing.planes), _TEXT)}"
    yield f"- Operations: {len(app.capabilities)}, {len(texts)} shown"
    yield ""
    yield "## Authentication"
    yield from _authentication(app.auth, ruled)
    yield ""
    yield "## Available Operations"
    if not texts:
        yield "This app offers no operations."
    for text in texts:
        yield ""
        yield text
    yield from _others(rest, spelling)
    yield ""
    yield "---"
    asked = ruled or "The user is asked before an operation runs."
    yield f"Use {spelling.execute} tool to execute operations. {asked}"


def _authentication(auth: Auth | None, ruled: str) -> Iterator[str]:
    match auth:
        case None:
            yield f"No sign-in. {ruled or 'The user is asked for consent before the first execution.'}"
        case _ if ruled:
            yield f"Sign-in ({auth.type}), which nobody can do on this server. Use a gateway (aai-gateway)."
            return
        case OAuth2():
            yield "OAuth 2.1: the first execution opens the browser, where the user signs in."
            if auth.scopes:
                yield f"Scopes: {clean(', '.join(auth.scopes), _TEXT)}"
        case ApiKey():
            yield "API key: the user is asked for it once, outside this conversation. Never ask for it in the chat."
            if auth.obtain_url:
                yield f"Where to get one: {clean(auth.obtain_url, _TEXT)}"
        case AppCredential():
            yield (
                "App id and secret: the user is asked for them once, outside this conversation. Never ask for them in "
                "the chat."
            )
        case Cookie():
            yield f"Browser session: the user signs in at {clean(auth.login_url, _TEXT)}"
    instructions = None if auth is None or isinstance(auth, OAuth2) else auth.instructions
    if instructions:
        yield f"How to: {clean(instructions, _TEXT)}"


def _operations(app: App, address: str, spelling: Spelling) -> tuple[list[str], Sequence[Capability]]:
    """Return the operations as they are shown, and those for which there is no room."""
    texts: list[str] = []
    length = 0
    for tool in app.capabilities:
        text = "\n".join(_operation(tool, address, spelling))
        length += len(text.encode())
        if length > _DETAILS and texts:
            break
        texts.append(text)
    return texts, app.capabilities[len(texts) :]


def _others(rest: Sequence[Capability], spelling: Spelling) -> Iterator[str]:
    if rest:
        yield ""
        yield f"### {len(rest)} more {'operation' if len(rest) == 1 else 'operations'}"
        yield (
            f"Their parameters are left out here. Call {spelling.execute} with one of them: if the arguments do not "
            "fit, nothing runs, and the answer shows what does."
        )
        yield from _named(rest)


def _named(rest: Sequence[Capability]) -> Iterator[str]:
    """Name operations: with their descriptions if there is room, else alone, and as many as there is room for."""
    short = ((_name(tool.id), clean(tool.description, _LINE_DESCRIPTION)) for tool in rest)
    shown, is_cut = _fitting((f"- {name}: {said}" if said else f"- {name}" for name, said in short), _NAMED)
    if is_cut:
        shown, is_cut = _fitting((f"- {_name(tool.id)}" for tool in rest), _NAMED)
    yield from shown
    if is_cut:
        yield f"- … and {len(rest) - len(shown)} more"


def _operation(tool: Capability, address: str, spelling: Spelling) -> Iterator[str]:
    yield f"### {_name(tool.id)}"
    yield from _quoted(tool.description)
    effect = _effect(tool)
    if effect:
        yield ""
        yield effect
    yield ""
    yield "**Parameters**:"
    schema = _object(tool.input_schema)
    shown, is_cut = _fitting(_parameters(schema, schema, 0), _PARAMETERS)
    yield from shown or ["- none"]
    if is_cut:
        yield "- … and more: if the arguments do not fit, nothing runs, and the answer says what does not"
    yield ""
    yield from _example(tool, address, spelling)


def _effect(tool: Capability) -> str:
    annotations = tool.annotations
    if annotations is None:
        return ""
    if annotations.read_only:
        return "Only reads, as the app says."
    return "May destroy or overwrite data." if annotations.destructive else ""


def _example(tool: Capability, address: str, spelling: Spelling) -> Iterator[str]:
    found = _declared(tool) or sample(tool.input_schema)
    call = _json({"app": address, "tool": tool.id, "args": found.arguments})
    if len(call.encode()) > _EXAMPLE:
        yield "**Example** (with the parameters in args):"
        call = _json({"app": address, "tool": tool.id, "args": {}})
    else:
        yield "**Example**:" if found.fits else "**Example** (adapt it, the schema says more):"
    yield f"{spelling.execute}({call})"


def _declared(tool: Capability) -> Sample | None:
    """Return the first example of an agent's own that fits its schema."""
    examples: object = msgspec.json.decode(tool.examples) if tool.examples else None
    for example in cast("list[object]", examples)[:_MOST_VALUES] if isinstance(examples, list) else ():
        given: object = cast("dict[str, object]", example).get("input") if isinstance(example, dict) else None
        if isinstance(given, dict) and passes(tool.input_schema, cast("dict[str, Any]", given)):
            return Sample(cast("dict[str, Any]", given), fits=True)
    return None


def _parameters(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Iterator[str]:
    properties, required = _fields(schema, root, 0)
    for name, inner in properties.items() if depth <= _DEEPEST else ():
        part = _resolved(inner, root)
        need = "required" if name in required else "optional"
        said = f"{'  ' * depth}- {_name(name)} ({_type(part, root)}, {need})"
        notes = _sentences(clean(str(part.get("description") or ""), _TEXT), *_notes(part, root))
        yield f"{said}: {notes}" if notes else said
        yield from _parameters(_innermost(part, root), root, depth + 1)


def _fields(part: Mapping[str, Any], root: Mapping[str, Any], level: int) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the fields of an object and which of them are required, those of its branches included."""
    own = part.get("properties")
    properties = dict(cast("dict[str, Any]", own)) if isinstance(own, dict) else {}
    wanted = part.get("required")
    required = frozenset(map(str, cast("list[object]", wanted))) if isinstance(wanted, list) else frozenset[str]()
    if level >= _DEEPEST_BRANCH:
        return properties, required
    most = _MOST_BRANCHES if level == 0 else _MOST_INNER_BRANCHES
    for branch in _branches(part, "allOf", root, most):
        inner, needed = _fields(branch, root, level + 1)
        properties, required = _both(properties, inner), required | needed
    for key in ("anyOf", "oneOf"):
        objects = [_fields(branch, root, level + 1) for branch in _branches(part, key, root, most)]
        objects = [found for found in objects if found[0]]  # `null` and the like have no fields
        for inner, _ in objects:
            properties = _both(properties, inner)
        if objects:
            required |= frozenset[str].intersection(*(needed for _, needed in objects))
    return properties, required


def _both(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    return first | {name: part for name, part in second.items() if name not in first}


def _innermost(part: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a list, or a list of lists, is a list of."""
    for _ in range(_DEEPEST):
        if not isinstance(part.get("items"), dict):
            break
        part = _resolved(part["items"], root)
    return part


def _type(part: Mapping[str, Any], root: Mapping[str, Any], level: int = 0) -> str:
    kind = part.get("type")
    if level > _DEEPEST_TYPE:
        return "any"
    if isinstance(kind, list):
        return " or ".join(clean(str(item), _LINE_ALIAS) for item in cast("list[object]", kind)[:_MOST_BRANCHES])
    if kind == "array" or (kind is None and "items" in part):
        inner = _type(_resolved(part.get("items"), root), root, level + 1)
        return "array" if inner == "any" else f"array of {inner}"
    if isinstance(kind, str):
        return clean(kind, _LINE_ALIAS)
    most = _MOST_BRANCHES if level == 0 else _MOST_INNER_BRANCHES
    branches = [branch for key in ("anyOf", "oneOf", "allOf") for branch in _branches(part, key, root, most)]
    values = cast("list[object]", part["enum"]) if isinstance(part.get("enum"), list) else [part.get("const", ...)]
    kinds = [_type(branch, root, level + 3) for branch in branches] or [_type_of(value) for value in values]
    known = " or ".join(dict.fromkeys(kind for kind in kinds if kind != "any"))
    return known or ("object" if "properties" in part else "any")


def _type_of(value: object) -> str:
    return next((name for kind, name in _TYPES.items() if type(value) is kind), "any")


_TYPES: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}


def _notes(part: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[str]:
    yield _values(part, "One of")
    if isinstance(part.get("items"), dict):
        yield _values(_resolved(part["items"], root), "Each one of")
    for key, word in _NOTES:
        if key in part:
            yield f"{word}: {_shown(part[key])}"
    for key, word in (("format", "Format"), ("pattern", "Pattern")):
        if isinstance(part.get(key), str):
            yield f"{word}: `{clean(part[key], _LINE_DESCRIPTION)}`"


_NOTES = (
    ("const", "Always"),
    ("default", "Default"),
    ("minimum", "At least"),
    ("exclusiveMinimum", "More than"),
    ("maximum", "At most"),
    ("exclusiveMaximum", "Less than"),
    ("multipleOf", "A multiple of"),
    ("minLength", "Shortest"),
    ("maxLength", "Longest"),
    ("minItems", "Fewest"),
    ("maxItems", "Most"),
)


def _values(part: Mapping[str, Any], words: str) -> str:
    values = part.get("enum")
    if not isinstance(values, list):
        return ""
    listed = cast("list[object]", values)
    shown = ", ".join(_shown(value) for value in listed[:_MOST_VALUES])
    return f"{words}: {shown}{', …' if len(listed) > _MOST_VALUES else ''}"


def _shown(value: object) -> str:
    return clean(_json(value), _LINE_DESCRIPTION)


def _sentences(*texts: str) -> str:
    return " ".join(text if text.endswith(_ENDS) else f"{text}." for text in texts if text)


def _quoted(text: str) -> Iterator[str]:
    """Yield a text of the descriptor as a quotation: it cannot pass for a line of ours."""
    cleaned = clean(text, _TEXT)
    if cleaned:
        yield f"> {cleaned}"


def _name(name: str) -> str:
    """Return a name as it is to be written in a call; one with characters nobody sees shows them escaped."""
    return name if name and clean(name, len(name)) == name else _json(name)


def _json(value: object) -> str:
    """Return JSON on one line, with every character that cannot be seen escaped."""
    text = msgspec.json.encode(value).decode()
    return text if text.isprintable() else "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def _fitting(lines: Iterable[str], most: int) -> tuple[list[str], bool]:
    """Return the first lines that fit into so many bytes, and whether there are more; the rest is never made."""
    fitting: list[str] = []
    for text in lines:
        most -= len(text.encode()) + 1
        if most < 0:
            return fitting, True
        fitting.append(text)
    return fitting, False


def _object(schema: Json | None) -> dict[str, Any]:
    document = msgspec.json.decode(schema or b"{}")
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {}


def _branches(part: Mapping[str, Any], key: str, root: Mapping[str, Any], most: int) -> list[Mapping[str, Any]]:
    found = part.get(key)
    branches = cast("list[object]", found)[:most] if isinstance(found, list) else []
    return [_resolved(branch, root) for branch in branches]


def _resolved(part: object, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a part of a schema, following references inside the document; what stands beside one is kept."""
    found = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
    for _ in range(_MOST_STEPS):
        reference = found.get("$ref")
        if not isinstance(reference, str):
            break
        beside = {key: value for key, value in found.items() if key != "$ref"}
        found = {**_pointed(reference, root), **beside}
    return found


def _pointed(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    at: Any = root if reference == "#" or reference.startswith("#/") else None
    for step in unquote(reference[2:]).split("/") if len(reference) > 1 else ():
        key = step.replace("~1", "/").replace("~0", "~")
        at = cast("dict[str, Any]", at).get(key) if isinstance(at, dict) else None
    return cast("dict[str, Any]", at) if isinstance(at, dict) else {}
