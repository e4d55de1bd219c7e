"""JSON Schema: do these arguments fit, and where do they not?

Schemas come from strangers: nothing is fetched for a `$ref`, and a schema that cannot be compiled is told apart from
arguments that do not fit. Compiling is remembered, because an agent calls the same few tools again and again.
"""

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import msgspec

from switchboard.catalog.bindings import Json
from switchboard.catalog.caches import Cache
from switchboard.catalog.errors import InvalidParams

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

_DRAFT_7 = "http://json-schema.org/draft-07/schema#"
_MOST_VIOLATIONS = 20
_LONGEST_VIOLATION = 300
_HEAVIEST = 20_000
_DEEPEST = 400
MOST = 1024
"""Schemas that are held compiled."""


class ArgumentCheck:
    """Checks arguments against schemas; holds the compiled form of the last `most` schemas."""

    def __init__(self, most: int = MOST) -> None:
        self._compiled: Cache[bytes, Validator | str] = Cache(most)

    def require(self, schema: Json | None, arguments: Mapping[str, Any]) -> None:
        """Let fitting arguments pass; without a schema, or with one that cannot be compiled, everything fits.

        Raises:
            InvalidParams: with every violation as `path: reason`, and the schema to fit.
        """
        validator = self._validator(schema) if schema is not None else None
        if validator is None or isinstance(validator, str):
            return
        violations = _violations(validator, arguments)
        if violations:
            raise InvalidParams(
                f"The arguments do not fit: {'; '.join(violations[:3])}. "
                "Correct them to fit the schema, and call again.",
                violations=violations,
                schema=msgspec.json.decode(schema or b"{}"),
            )

    def __len__(self) -> int:
        return len(self._compiled)

    def problem(self, schema: Json) -> str | None:
        """Return why the schema cannot be compiled, or None."""
        validator = self._validator(schema)
        return validator if isinstance(validator, str) else None

    def _validator(self, schema: Json) -> "Validator | str":
        compiled = self._compiled.get(schema)
        return self._compiled.keep(schema, _compile(schema) if compiled is None else compiled)


def _compile(schema: Json) -> "Validator | str":
    import jsonschema_rs  # noqa: PLC0415 - 40 ms that a gateway which only lists need not pay

    # The seeds' schemas are draft-07 unless they say otherwise.
    document: dict[str, Any] = {"$schema": _DRAFT_7, **msgspec.json.decode(schema, type=dict[str, Any])}
    if _weight(document) > _HEAVIEST:
        return f"its references unfold to more than {_HEAVIEST} parts"
    try:
        return jsonschema_rs.validator_for(document, retriever=_refuse)
    except ValueError as error:  # the root of everything the library raises for a schema it cannot use
        return str(error).partition("\n")[0]


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is not fetched: a schema must be complete in itself")


def _violations(validator: "Validator", arguments: Mapping[str, Any]) -> list[str]:
    if validator.is_valid(arguments):
        return []
    try:
        return [_said(violation) for violation in islice(validator.iter_errors(arguments), _MOST_VIOLATIONS)]
    except ValueError:  # the library cannot describe what is nested very deeply
        return ["$: does not fit, and is nested too deeply to say where"]


def _said(violation: "ValidationError") -> str:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in violation.instance_path)
    return f"${path}: {violation.message}"[:_LONGEST_VIOLATION]


def _weight(document: dict[str, Any]) -> int:
    """Return how many parts a schema has once its references are unfolded: a few lines can unfold to millions."""
    known: dict[int, int] = {}

    def weigh(part: object, depth: int) -> int:
        identity = id(part)
        if not isinstance(part, dict | list) or depth > _DEEPEST:
            return 1
        if identity in known:
            return known[identity]
        known[identity] = 1  # a reference back to where we are counts once
        fields = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
        values = fields.values() if isinstance(part, dict) else cast("list[Any]", part)
        total = 1 + sum(weigh(value, depth + 1) for value in values)
        reference = fields.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            total += weigh(_pointed(document, reference), depth + 1)
        known[identity] = min(total, _HEAVIEST + 1)
        return known[identity]

    return weigh(document, 0)


def _pointed(document: Any, reference: str) -> Any:
    found = document
    for step in reference.removeprefix("#").split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
    return found
