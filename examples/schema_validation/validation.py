"""Checking before calling: which capabilities could take an input, and what is wrong with one that nobody can take.

    AGENTFIELD_SERVER=http://localhost:8080 python examples/schema_validation/validation.py

`misfits` looks at names and types, which is where most mistakes of a model are. For all of JSON Schema use a library
such as `jsonschema`. The control plane checks all of it in any case, before an agent is asked.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from agentfield import Agent, InvalidInput

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}


def misfits(given: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield what keeps an input from fitting a schema."""
    properties = schema.get("properties", {})
    yield from (f"{name} is missing" for name in schema.get("required", []) if name not in given)
    for name, value in given.items():
        if name not in properties:
            yield f"{name} is not known"
        elif not fits(value, properties[name].get("type")):
            yield f"{name} is no {properties[name]['type']}"


def fits(value: object, wanted: str | list[str] | None) -> bool:
    """Tell whether a value is of a type, or of one of several; what says no type takes anything."""
    if isinstance(value, bool):
        return wanted is None or "boolean" in wanted
    names = [wanted] if isinstance(wanted, str) else wanted or []
    return not names or any(isinstance(value, TYPES.get(name, ())) for name in names)


def takers(app: Agent, given: Mapping[str, Any]) -> Iterator[str]:
    """Yield the target of everything that could take an input."""
    for page in app.pages(include_input_schema=True, health_status="active"):
        for agent in page.capabilities:
            for item in (*agent.reasoners, *agent.skills):
                if not list(misfits(given, item.input_schema or {})):
                    yield item.invocation_target


def main() -> None:
    """Find who could take an input, and show what the control plane says to one that does not fit."""
    with Agent() as app:
        print("can take numbers:", *takers(app, {"numbers": [1, 2, 6]}))
        print("can take a text and a count:", *takers(app, {"text": "Tea, black tea.", "most": 1}))
        try:
            app.execute("demo-statistician:skill:describe_numbers", {"numbers": "1, 2, 6"})
        except InvalidInput as error:
            print("refused:", *error.violations)
            print("would fit:", *error.schema["required"])


if __name__ == "__main__":
    main()
