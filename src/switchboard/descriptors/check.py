"""What a publisher wants to know beyond whether a descriptor can be read: are its tools' schemas usable?

Compiling schemas is too slow for a scan of hundreds of apps, and a caller notices at the first call; an author should
know before.
"""

from collections.abc import Iterator

from switchboard.catalog.findings import Problem
from switchboard.catalog.schema import ArgumentCheck
from switchboard.descriptors.aai import Reading


def schema_problems(reading: Reading) -> Iterator[Problem]:
    """Yield an error for every schema of a descriptor that cannot be compiled."""
    checker = ArgumentCheck()
    for tool in reading.app.capabilities if reading.app else ():
        for key, schema in (("parameters", tool.input_schema), ("returns", tool.output_schema)):
            reason = checker.problem(schema) if schema is not None else None
            if reason is not None:
                path = f"{reading.tool_paths[tool.id]}.{key}"
                yield Problem("error", "value", path, f"is not a usable JSON Schema: {reason}")
