"""JSON Schema: do these arguments fit, and where do they not?

Schemas come from strangers: nothing is fetched for a `$ref`, and a schema that cannot be compiled is told apart from
arguments that do not fit. Compiling is remembered, because an agent calls the same few tools again and again.
"""

from collections import OrderedDict
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from switchboard.catalog.bindings import Json
from switchboard.catalog.errors import InvalidParams

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

_DRAFT_7 = "http://json-schema.org/draft-07/schema#"
_MOST_VIOLATIONS = 20


class ArgumentCheck:
    """Checks arguments against schemas; holds the compiled form of the last `most` schemas."""

    def __init__(self, most: int = 1024) -> None:
        self._most = most
        self._compiled: OrderedDict[bytes, Validator | str] = OrderedDict()

    def require(self, schema: Json | None, arguments: Mapping[str, Any]) -> None:
        """Let fitting arguments pass; without a schema, or with one that cannot be compiled, everything fits.

        Raises:
            InvalidParams: with every violation as `path: reason`, and the schema to fit.
        """
        validator = self._validator(schema) if schema is not None else None
        if validator is None or isinstance(validator, str) or validator.is_valid(arguments):
            return
        violations = [_said(violation) for violation in islice(validator.iter_errors(arguments), _MOST_VIOLATIONS)]
        raise InvalidParams(
            f"The arguments do not fit: {'; '.join(violations[:3])}.",
            violations=violations,
            schema=msgspec.json.decode(schema or b"{}"),
        )

    def problem(self, schema: Json) -> str | None:
        """Return why the schema cannot be compiled, or None."""
        validator = self._validator(schema)
        return validator if isinstance(validator, str) else None

    def _validator(self, schema: Json) -> "Validator | str":
        if schema in self._compiled:
            self._compiled.move_to_end(schema)
            return self._compiled[schema]
        compiled = _compile(schema)
        self._compiled[schema] = compiled
        if len(self._compiled) > self._most:
            self._compiled.popitem(last=False)
        return compiled


def _compile(schema: Json) -> "Validator | str":
    import jsonschema_rs  # noqa: PLC0415 - 40 ms that a gateway which only lists need not pay

    # The seeds' schemas are draft-07 unless they say otherwise.
    document: dict[str, Any] = {"$schema": _DRAFT_7, **msgspec.json.decode(schema, type=dict[str, Any])}
    try:
        return jsonschema_rs.validator_for(document, retriever=_refuse)
    except ValueError as error:  # the root of everything the library raises for a schema it cannot use
        return str(error).partition("\n")[0]


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is not fetched: a schema must be complete in itself")


def _said(violation: "ValidationError") -> str:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in violation.instance_path)
    return f"${path}: {violation.message}"
