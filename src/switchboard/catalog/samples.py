"""An example call for a tool, made from its JSON Schema: the same schema always gives the same arguments.

Prefers what the author wrote (examples, defaults, choices) to what is made up, shows what is required and a few
options, and says whether the result fits. Schemas come from strangers: whatever they hold, nothing raises, recurses
without end or grows large, and their regular expressions run only in an engine with a limit. Knows nothing of tools or
guides.
"""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any, cast

import msgspec
from msgspec import Struct

from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import InvalidParams
from switchboard.catalog.sample_values import Part, count_of, numbers, strings
from switchboard.catalog.schema import ArgumentCheck

Fits = Callable[[Any], bool]


_ROOT = "urn:switchboard:schema"
_DRAFT_7 = "http://json-schema.org/draft-07/schema#"
_NOTHING = object()
_STEPS = 2000  # values tried for one example; a real tool takes a few dozen
_WORK = 10**8  # steps times bytes: compiling a part costs what the schema weighs, so a heavy one gets fewer tries
_DEEPEST_SCHEMA, _DEEPEST_VALUE = 100, 20
_LARGEST, _LARGEST_GIVEN = 16_000, 2_000
_MOST_ITEMS, _MOST_BRANCHES, _MOST_CALLS, _MOST_OPTIONS, _MOST_NAMES = 20, 16, 4, 3, 200
_BACKTRACKS = 10_000
_PLAIN = frozenset({"type", "properties", "required", "items", "default", "description", "title", "$schema"})
_PLAIN_DEPTH, _PLAIN_WIDTH = 5, 50

_GIVEN = ("examples", "example", "default")
_TYPES: dict[str, set[type]] = {
    "object": {dict},
    "array": {list},
    "string": {str},
    "integer": {int},
    "number": {int, float},
    "boolean": {bool},
    "null": {type(None)},
}
_TELLTALES = {
    "object": {"properties", "required", "additionalProperties", "minProperties", "patternProperties"},
    "array": {"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}


class Sample(Struct, frozen=True):
    """The arguments of an example call; `fits` is False when they are only a start to adapt."""

    arguments: dict[str, Any]
    fits: bool


def sample(schema: Json | None) -> Sample:
    """Return arguments that fit the schema, if they can be found, else the best that were tried."""
    if schema is None:
        return Sample({}, fits=True)
    document = _document(schema)
    if not isinstance(document, dict):
        return Sample({}, fits=document is True)
    check, part, steps = ArgumentCheck(most=1), cast("Part", document), min(_STEPS, _WORK // len(schema))
    rough = _calls(_Maker(part, steps, _trusting))
    if part.get("type") == "object" and _is_plain(part):
        return Sample(next(rough, Part()), fits=True)
    if check.problem(schema):
        return Sample(next(rough, Part()), fits=False)
    tried: list[Part] = []
    for arguments in chain(_calls(_Maker(part, steps, _judging(part), strict=True)), rough, [{}]):
        tried.append(arguments)
        if _passes(check, schema, arguments):
            return Sample(arguments, fits=True)
    return Sample(tried[0], fits=False)


def passes(schema: Json | None, arguments: dict[str, Any]) -> bool:
    """Tell whether arguments that somebody wrote down as an example fit the schema."""
    check = ArgumentCheck(most=1)
    return schema is None or (not check.problem(schema) and _passes(check, schema, arguments))


def _is_plain(part: object, depth: int = 0) -> bool:
    """Tell a schema of which everything that is made from it fits: most are, and need no validator to be loaded."""
    if not isinstance(part, dict) or depth > _PLAIN_DEPTH or not _PLAIN.issuperset(cast("Part", part)):
        return False
    fields = cast("Part", part)
    kind, inner = fields.get("type"), fields.get("properties", {})
    if not isinstance(kind, str) or kind not in _TYPES or not isinstance(inner, dict):
        return False
    named = cast("Part", inner)
    required, given = fields.get("required", []), [fields[key] for key in ("default",) if key in fields]
    if not isinstance(required, list) or not named.keys() >= set(map(str, cast("list[object]", required))):
        return False
    if len(named) > _PLAIN_WIDTH or (given and (kind in ("object", "array") or type(given[0]) not in _TYPES[kind])):
        return False
    parts = [*named.values(), *([fields["items"]] if "items" in fields else [])]
    return all(_is_plain(one, depth + 1) for one in parts)


def _document(schema: Json) -> Any:
    try:
        return _absolute(msgspec.json.decode(schema), _DEEPEST_SCHEMA)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _absolute(part: Any, levels: int) -> Any:
    """Return the schema with references that can be followed from any part of it."""
    if levels < 0:
        raise RecursionError
    if isinstance(part, list):
        return [_absolute(each, levels - 1) for each in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    fields = {
        key: value
        if key in (*_GIVEN, "const", "enum") and not isinstance(value, dict)
        else _absolute(value, levels - 1)
        for key, value in cast("Part", part).items()
        if not (levels == _DEEPEST_SCHEMA and key in {"$id", "id"})
    }
    if isinstance(reference := fields.get("$ref"), str) and reference.startswith("#"):
        fields["$ref"] = _ROOT + reference
    return fields


def _calls(maker: "_Maker") -> Iterator[Part]:
    values = maker.values({"allOf": [{"type": "object"}, maker.document]}, _Place())
    return (cast("Part", value) for value in islice(values, _MOST_CALLS) if _size(value) <= _LARGEST)


def _passes(check: ArgumentCheck, schema: Json, arguments: Part) -> bool:
    try:
        check.require(schema, arguments)
    except InvalidParams:
        return False
    return True


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value))


def _trusting(_: Any) -> Fits:
    return lambda _: True


def _judging(document: Part) -> Callable[[Any], Fits]:
    """Return what compiles a part of the document to try values on; on a part that cannot be compiled all pass."""
    import jsonschema_rs  # noqa: PLC0415 - 40 ms that a gateway which only lists need not pay

    draft = {"$schema": document.get("$schema", _DRAFT_7)}
    try:
        registry = jsonschema_rs.Registry([(_ROOT, {**draft, **document})])
    except ValueError:
        return _trusting
    limits = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS)

    def judge(part: Any) -> Fits:
        whole = {**draft, "allOf": [part]}
        try:
            return jsonschema_rs.validator_for(whole, registry=registry, pattern_options=limits, offline=True).is_valid
        except ValueError:
            return _trusting(part)

    return judge


class _Place(Struct, frozen=True):
    """Where a value stands: under which name, how deep, and inside which references."""

    name: str = ""
    depth: int = 0
    references: frozenset[str] = frozenset((f"{_ROOT}#",))

    def inside(self, name: str, *references: str) -> "_Place":
        return _Place(name, self.depth + 1, self.references | {*references})


class _Maker:
    """Makes values for the parts of one document. Strict: a value that does not fit, or lacks a part, is not made."""

    def __init__(self, document: Part, steps: int, judge: Callable[[Any], Fits], *, strict: bool = False) -> None:
        self.document = document
        self._judge = judge
        self._strict = strict
        self._steps = steps

    def values(self, schema: Any, place: _Place) -> Iterator[Any]:
        """Yield different values for the schema, the best first."""
        folded = self._folded(schema, place)
        if folded is None:
            return
        fits = self._judge(schema)
        for value in self._candidates(*folded):
            self._steps -= 1
            if self._steps < 0:
                return
            if fits(value):
                yield value

    def _folded(self, schema: Any, place: _Place) -> tuple[Part, _Place] | None:
        """Merge what `$ref` and `allOf` say; None where nothing fits, or a reference comes back to where it stands.

        Leaving such a value out is enough: what fits at all also fits without going through a reference twice.
        """
        self._steps -= 1
        if schema is False or self._steps < 0 or place.depth > _DEEPEST_VALUE:
            return None
        if not isinstance(schema, dict):
            return {}, place
        part = cast("Part", schema)
        reference, others = part.get("$ref"), _list(part, "allOf")[:_MOST_BRANCHES]
        merged, references = _without(part, "$ref", "allOf"), place.references
        if isinstance(reference, str):
            if reference in references:
                return None
            references, others = references | {reference}, [_pointed(self.document, reference), *others]
        below = place.inside(place.name, *references)
        for other in others:
            folded = self._folded(other, below)
            if folded is None:
                return None
            merged, references = _merged(merged, folded[0]), references | folded[1].references
        return merged, _Place(place.name, place.depth, references)

    def _candidates(self, part: Part, place: _Place) -> Iterator[Any]:
        yield from _given(part)
        if "const" in part or "enum" in part:
            return
        yield from self._branched(part, place)
        if not any(_list(part, key) for key in ("anyOf", "oneOf")):
            for kind in _kinds(part):
                yield from self._made(kind, part, place)
            yield from self._conditional(part, place)

    def _branched(self, part: Part, place: _Place) -> Iterator[Any]:
        key = "anyOf" if _list(part, "anyOf") else "oneOf"
        rest = _without(part, key, *_GIVEN)
        for branch in sorted(_list(part, key)[:_MOST_BRANCHES], key=_is_null):
            yield from self.values({"allOf": [rest, branch]}, place.inside(place.name))

    def _conditional(self, part: Part, place: _Place) -> Iterator[Any]:
        if "if" in part:
            rest = _without(part, "if", "then", "else", *_GIVEN)
            for branch in ([part["if"], part.get("then", True)], [part.get("else", True)]):
                yield from self.values({"allOf": [rest, *branch]}, place.inside(place.name))

    def _made(self, kind: str, part: Part, place: _Place) -> Iterator[Any]:
        match kind:
            case "object":
                return self._objects(part, place)
            case "array":
                return self._arrays(part, place)
            case "string":
                return strings(part, place.name)
            case "integer" | "number":
                return numbers(part, place.name, whole=kind == "integer")
            case _:
                return iter({"boolean": (True, False), "null": (None,)}.get(kind, ()))

    def _objects(self, part: Part, place: _Place) -> Iterator[Part]:
        required = _required(part)
        least = count_of(part, "minProperties", 0)
        is_map = isinstance(part.get("additionalProperties"), dict) and not _dict(part, "properties")
        full = self._filled(part, place, self._telling(part, place, required), max(least, int(is_map)))
        bare = self._filled(part, place, required, least)
        yield from (made for made in (full, bare) if made is not None)
        for name in full or ():  # a list of different objects needs more than one
            for other in self.values(_property(part, name), place.inside(name)):
                yield {**(full or {}), name: other}

    def _telling(self, part: Part, place: _Place, required: list[str]) -> list[str]:
        """Return which properties to show, in the author's order."""
        options = _MOST_OPTIONS
        chosen: list[str] = []
        for name, schema in islice(_dict(part, "properties").items(), _MOST_NAMES):
            if name in required:
                chosen.append(name)
                continue
            told, _ = self._folded(schema, place.inside(name)) or ({"deprecated": True}, place)
            if any(True for _ in _given(_without(told, "enum", "const"))):
                chosen.append(name)
            elif options and _is_scalar(told) and not (told.get("deprecated") or told.get("readOnly")):
                chosen.append(name)
                options -= 1
        return [*chosen, *(name for name in required if name not in chosen)]

    def _filled(self, part: Part, place: _Place, names: list[str], least: int) -> Part | None:
        required, made = _required(part), Part()
        dependents = {**_dict(part, "dependencies"), **_dict(part, "dependentRequired")}
        queue = list(names)
        for name in queue:  # grows while it is read
            value = next(self.values(_property(part, name), place.inside(name)), _NOTHING)
            if value is not _NOTHING:
                made[name] = value
                queue += [
                    each
                    for each in _list(dependents, name)[:_MOST_ITEMS]
                    if isinstance(each, str) and each not in queue
                ]
            elif name in required and self._strict:
                return None
        spares = (*_dict(part, "properties"), "example", *(f"example{n}" for n in range(2, _MOST_ITEMS)))
        return made if len(made) >= least else self._padded(made, least, part, place, spares)

    def _padded(self, made: Part, least: int, part: Part, place: _Place, spares: tuple[str, ...]) -> Part:
        more = (
            (name, value)
            for name in spares
            if name not in made
            for value in islice(self.values(_property(part, name), place.inside(name)), 1)
        )
        return {**made, **dict(islice(more, min(least - len(made), _MOST_ITEMS)))}

    def _arrays(self, part: Part, place: _Place) -> Iterator[list[Any]]:
        least, most = count_of(part, "minItems", 0), count_of(part, "maxItems", _MOST_ITEMS)
        first = _list(part, "prefixItems") or _list(part, "items")
        rest = part.get("additionalItems" if _list(part, "items") else "items", True)
        if "contains" in part and not first:
            first = [{"allOf": [part["contains"], rest]}]
        for size in (min(max(least, len(first), 1), most), least):
            made = self._items([*first[:size], *[rest] * (min(size, _MOST_ITEMS) - len(first))], part, place)
            if len(made) >= least or not self._strict:
                yield made

    def _items(self, schemas: list[Any], part: Part, place: _Place) -> list[Any]:
        made: list[Any] = []
        for schema in schemas:
            values = self.values(schema, place.inside(place.name))
            different = (value for value in values if not (part.get("uniqueItems") and value in made))
            value = next(different, _NOTHING)
            if value is _NOTHING:
                break
            made.append(value)
        return made


def _given(part: Part) -> Iterator[Any]:
    """Yield what the author wrote. A default of null teaches nothing: such an option is simply left out."""
    written = [
        *_list(part, "examples")[:1],
        *(part[key] for key in ("example", "default") if part.get(key) is not None),
    ]
    fixed = [*([part["const"]] if "const" in part else []), *_list(part, "enum")[:_MOST_ITEMS]]
    allowed = {kind for name in _declared(part) for kind in _TYPES.get(name, ())}
    for value in chain(written, fixed):
        if (not allowed or type(value) in allowed) and _size(value) <= _LARGEST_GIVEN:
            yield value


def _declared(part: Part) -> list[str]:
    kinds = [kind for kind in _list(part, "type") or [part.get("type")] if isinstance(kind, str)]
    return sorted(kinds, key=lambda kind: kind == "null")


def _kinds(part: Part) -> list[str]:
    if "type" in part:
        return _declared(part)
    return [kind for kind, keys in _TELLTALES.items() if keys & part.keys()] or ["string"]


def _is_null(part: Any) -> bool:
    return isinstance(part, dict) and cast("Part", part).get("type") == "null"


def _is_scalar(part: Part) -> bool:
    branches = [*_list(part, "anyOf"), *_list(part, "oneOf")]
    parts = [cast("Part", each) for each in branches if isinstance(each, dict) and not _is_null(each)] or [part]
    return not any("$ref" in each or {"object", "array"}.intersection(_kinds(each)) for each in parts)


def _merged(first: Part, second: Part) -> Part:
    """Return one part that asks for what both ask for."""
    both = {key: _joined(key, value, second[key]) for key, value in first.items() if key in second}
    return {**first, **second, **both}


def _joined(key: str, one: Any, other: Any) -> Any:
    joined = one
    match key, one, other:
        case "properties", dict(), dict():
            joined = _merged_properties(cast("Part", one), cast("Part", other))
        case "items" | "additionalProperties", dict() | bool(), dict() | bool():
            joined = _both(one, other)
        case "anyOf" | "oneOf", [*mine], [*theirs]:
            joined = [{"allOf": [each, their]} for each in mine[:4] for their in theirs[:4]]
        case "required", [*mine], [*theirs]:
            joined = [*mine, *theirs]
        case "enum", [*mine], [*theirs]:
            joined = [value for value in mine[:_MOST_NAMES] if value in theirs[:_MOST_NAMES]]
        case "type", _, _:
            joined = _common(_declared({"type": one}), _declared({"type": other}))
        case _, int() | float(), int() | float() if key.startswith(("min", "max", "exclusive")):
            joined = max(one, other) if "min" in key.lower() else min(one, other)
        case _:
            pass
    return joined


def _both(one: Any, other: Any) -> Any:
    return False if one is False or other is False else {"allOf": [one, other]}


def _merged_properties(mine: Part, theirs: Part) -> Part:
    return {**mine, **theirs, **{name: _both(mine[name], theirs[name]) for name in mine if name in theirs}}


def _common(mine: list[str], theirs: list[str]) -> list[str]:
    narrowed = ["integer"] if "integer" in (*mine, *theirs) and "number" in (*mine, *theirs) else []
    return [kind for kind in mine if kind in theirs] or narrowed


def _required(part: Part) -> list[str]:
    return [name for name in _list(part, "required")[:_MOST_NAMES] if isinstance(name, str)]


def _property(part: Part, name: str) -> Any:
    return _dict(part, "properties").get(name, part.get("additionalProperties", True))


def _pointed(document: Part, reference: str) -> Any:
    """Return the part a local reference names; False, which nothing fits, for any other."""
    found: Any = document if reference.startswith(_ROOT) else False
    for step in reference.removeprefix(f"{_ROOT}#").split("/")[1:] if found else ():
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = dict(enumerate(cast("list[Any]", found))).get(int(key) if key.isdecimal() else -1, False)
        else:
            found = cast("Part", found).get(key, False) if isinstance(found, dict) else False
    return found


def _without(part: Part, *keys: str) -> Part:
    return {key: value for key, value in part.items() if key not in keys}


def _list(part: Part, key: str) -> list[Any]:
    return cast("list[Any]", part[key]) if isinstance(part.get(key), list) else []


def _dict(part: Part, key: str) -> Part:
    return cast("Part", part[key]) if isinstance(part.get(key), dict) else {}
