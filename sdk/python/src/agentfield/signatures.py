"""A function's signature as JSON Schema, and JSON as its arguments.

Types are those of msgspec (texts, numbers, lists, dictionaries, tuples, literals, enums, `TypedDict`, dataclasses,
structs, dates, `Annotated`), pydantic models where the user has pydantic, and unions of them. What is optional and what
its default is stays as it is written.
"""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Optional, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from agentfield.docstrings import arguments
from agentfield.encoding import encode

Schema = dict[str, Any]
_TIME = Annotated[datetime, msgspec.Meta(extra_json_schema={"format": "date-time"})]
_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")
_CONTAINERS = frozenset({list, dict, tuple, set, frozenset, Iterable, Sequence, Mapping})
_REFERENCES = "#/$defs/{name}"


class Misfit(ValueError):
    """An input does not fit; the message says where."""


class _AnythingGoes(type):
    """msgspec checks that what a hook made is of the type it asked for; a value of any member is."""

    def __instancecheck__(cls, instance: object) -> bool:
        return True


class Choice(metaclass=_AnythingGoes):
    """Stands for a union that msgspec does not decode by itself: the first member that fits is taken."""

    members: tuple[Any, ...] = ()


class Signature:
    """What a function takes, and what it gives."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Look at a function.

        Raises:
            TypeError: Something in the signature cannot be said in JSON Schema.
        """
        hints = _hints(function)
        self._named = [item for item in inspect.signature(function).parameters.values() if not _is_rest(item)]
        self._open = any(_is_rest(item) for item in inspect.signature(function).parameters.values())
        self._struct = _struct(function, self._named, hints, closed=not self._open)
        try:
            self._decoder = msgspec.json.Decoder(self._struct, dec_hook=_decode)
            self.input_schema = _input_schema(function, self._struct, self._named)
        except TypeError as error:
            why = f"there is no JSON Schema for a parameter's type: {error}"
            raise TypeError(f"{_name(function)}: {why}") from error
        self.output_schema = _output_schema(hints.get("return"))

    def arguments(self, body: bytes) -> dict[str, Any]:
        """Return the arguments that a body has, with the types they are annotated with.

        Raises:
            Misfit: It has others, or none.
        """
        try:
            values = self._decoder.decode(body or b"{}")
            rest = self._rest(body) if self._open else {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Misfit(str(error)) from error
        return {item.name: getattr(values, item.name) for item in self._named} | rest

    def _rest(self, body: bytes) -> dict[str, Any]:
        names = {item.name for item in self._named}
        return {key: value for key, value in msgspec.json.decode(body or b"{}").items() if key not in names}


def schema_of(hint: Any) -> Schema:
    """Return the JSON Schema of a type, with what it refers to under `$defs`.

    Raises:
        TypeError: There is none.
    """
    (schema,), definitions = msgspec.json.schema_components(
        [_known(hint)], schema_hook=_described, ref_template=_REFERENCES
    )
    return _whole(schema, definitions)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(body_of(function), include_extras=True)
    except NameError as error:
        name = getattr(function, "__name__", "the function")
        raise TypeError(f"{name}: {error}. Types in annotations must be importable names of its module.") from error


def body_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what has the annotations and the docstring: a function, also of what only behaves like one."""
    if isinstance(function, functools.partial):
        return body_of(cast("functools.partial[Any]", function).func)
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return type(function).__call__


def _name(function: Callable[..., Any]) -> str:
    return getattr(body_of(function), "__name__", "the function")


def _is_rest(item: inspect.Parameter) -> bool:
    return item.kind is inspect.Parameter.VAR_KEYWORD


def _struct(
    function: Callable[..., Any], named: list[inspect.Parameter], hints: Mapping[str, Any], *, closed: bool
) -> type[msgspec.Struct]:
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for place, item in enumerate(named):
        if item.kind in {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL}:
            raise TypeError(f"{_name(function)}: '{item}' cannot be given by name, so a caller cannot give it.")
        if place == 0 and item.name in {"self", "cls"} and item.name not in hints:
            advice = "offer the method of an object, app.skill(it.method)."
            raise TypeError(f"{_name(function)}: '{item}' is not a caller's to give: {advice}")
        hint = hints.get(item.name, Any)
        if item.default is None and hint not in {Any, object}:
            hint = Optional[hint]  # noqa: UP045 - a type that is known only now; everybody reads `x: int = None` so
        hint = _known(hint)
        if item.default is inspect.Parameter.empty:
            fields.append((item.name, hint))
        else:
            fields.append((item.name, hint, msgspec.field(default_factory=_constant(item.default))))
    return msgspec.defstruct("Input", fields, kw_only=True, forbid_unknown_fields=closed)


def _constant(value: object) -> Callable[[], object]:
    return lambda: value


def _input_schema(function: Callable[..., Any], struct: type[msgspec.Struct], named: list[inspect.Parameter]) -> Schema:
    schema = schema_of(struct)
    schema.pop("title", None)
    properties = cast("dict[str, Schema]", schema.get("properties", {}))
    said = arguments(inspect.getdoc(body_of(function)) or "")
    for item in named:
        entry = properties[item.name]
        if item.name in said and "description" not in entry:
            entry["description"] = said[item.name]
        if item.default is not inspect.Parameter.empty:
            _add_default(entry, item.default)
    return schema


def _add_default(entry: Schema, default: object) -> None:
    try:
        entry["default"] = msgspec.json.decode(encode(default))
    except TypeError:
        return  # a default that is no JSON still applies; it cannot be shown


def _output_schema(hint: Any) -> Schema | None:
    if hint is None or hint is NoneType or hint is Any:
        return None
    try:
        return schema_of(hint) or None
    except TypeError:
        return None  # what a function gives need not be described


def _whole(schema: Schema, definitions: Mapping[str, Any]) -> Schema:
    """Return a schema that stands on its own: its outermost reference resolved, all others under `$defs`."""
    found: dict[str, Any] = dict(definitions)
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    recursive = _mentions(found, name) if name else False
    root = _hoisted(found.get(name, schema), found)
    if name in found and not recursive:
        del found[name]
    found = {key: _hoisted(value, found) for key, value in list(found.items())}
    return {**root, "$defs": found} if found else root


def _mentions(definitions: Mapping[str, Any], name: str) -> bool:
    return f'"#/$defs/{name}"'.encode() in msgspec.json.encode(definitions)


def _hoisted(schema: Any, definitions: dict[str, Any]) -> Any:
    """Return a schema without `$defs` inside, which pydantic puts where nobody looks for them; they move up."""
    if isinstance(schema, list):
        return [_hoisted(item, definitions) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    fields = cast("dict[str, Any]", schema)
    if isinstance(fields.get("$defs"), dict):
        fields = _apart(fields, definitions)
        for name, definition in fields["$defs"].items():
            definitions.setdefault(name, _hoisted(definition, definitions))
    return {key: _hoisted(value, definitions) for key, value in fields.items() if key != "$defs"}


def _apart(schema: Schema, definitions: Mapping[str, Any]) -> Schema:
    """Return a schema whose definitions do not take the names of others that say something else."""
    inner = cast("dict[str, Any]", schema["$defs"])
    if all(definitions.get(name, meant) == meant for name, meant in inner.items()):
        return schema
    taken = {*definitions, *inner}
    names = {name: next(free for free in _names(name) if free not in taken) for name in inner}
    references = {_REFERENCES.format(name=old): _REFERENCES.format(name=new) for old, new in names.items()}
    renamed = _renamed(schema, references)
    return {**renamed, "$defs": {names[name]: meant for name, meant in renamed["$defs"].items()}}


def _names(name: str) -> Iterator[str]:
    return (f"{name}_{number}" for number in itertools.count(2))


def _renamed(schema: Any, names: Mapping[str, str]) -> Any:
    if isinstance(schema, list):
        return [_renamed(item, names) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    fields = cast("dict[str, Any]", schema)
    return {
        key: names.get(value, value) if key == "$ref" and isinstance(value, str) else _renamed(value, names)
        for key, value in fields.items()
    }


def _known(hint: Any) -> Any:
    """Return a type that msgspec knows: dates say that they are dates, and impossible unions become choices."""
    if hint is datetime:
        return _TIME
    if hint is object:
        return Any
    origin, inner = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        return _union(tuple(_known(item) for item in inner))
    if origin is Annotated:
        return Annotated[(_known(inner[0]), *map(_limits, inner[1:]))]
    if origin in _CONTAINERS and inner:
        kind = cast("Any", list if origin is Iterable else origin)
        return kind[tuple(_known(item) if item is not Ellipsis else item for item in inner)]
    return hint


def _limits(note: Any) -> Any:
    """Return what pydantic's `Field` says of a value in the words of msgspec, and any other note as it is."""
    if not hasattr(note, "json_schema_extra"):
        return note
    limits = {
        name: getattr(limit, name)
        for limit in note.metadata
        for name in _LIMITS
        if getattr(limit, name, None) is not None
    }
    return msgspec.Meta(description=note.description, **limits)


def _union(members: tuple[Any, ...]) -> Any:
    plain = Union[members]  # noqa: UP007 - a union of types that are known only now
    try:
        msgspec.json.Decoder(plain)
    except TypeError:
        rest = tuple(item for item in members if item is not NoneType)
        choice = _AnythingGoes("Choice", (Choice,), {"members": rest})
        return choice | None if NoneType in members else choice
    return plain


def _described(kind: Any) -> Schema:
    """Return the schema of what msgspec does not know."""
    if issubclass(kind, Choice):
        return {"anyOf": [schema_of(member) for member in kind.members]}
    if hasattr(kind, "model_json_schema"):
        return kind.model_json_schema()
    raise TypeError(f"{kind.__name__} is no type that JSON can have")


def _decode(kind: Any, value: Any) -> Any:
    """Make what msgspec does not know."""
    if issubclass(kind, Choice):
        return _first(kind.members, value)
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)  # its error is a ValueError, which msgspec turns into its own with the place
    raise TypeError(f"{kind.__name__} is no type that JSON can have")


def _first(members: tuple[Any, ...], value: Any) -> Any:
    reasons: list[str] = []
    for member in members:
        try:
            return msgspec.convert(value, member, dec_hook=_decode)
        except msgspec.ValidationError as error:
            reasons.append(str(error))
    raise ValueError(f"fits none of {len(members)}: " + "; ".join(reasons))
