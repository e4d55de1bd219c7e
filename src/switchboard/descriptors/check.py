"""What a publisher wants to know beyond whether a descriptor can be read: are its tools' schemas usable?

Compiling schemas is too slow for a scan of hundreds of apps, and a caller notices at the first call; an author should
know before.
"""

from collections.abc import Iterator

from switchboard.catalog.findings import Problem
from switchboard.catalog.model import App
from switchboard.catalog.schema import ArgumentCheck


def schema_problems(app: App) -> Iterator[Problem]:
    """Yield an error for every schema of the app that cannot be compiled."""
    checker = ArgumentCheck()
    for i, tool in enumerate(app.capabilities):
        for key, schema in (("parameters", tool.input_schema), ("returns", tool.output_schema)):
            reason = checker.problem(schema) if schema is not None else None
            if reason is not None:
                yield Problem("error", "value", f"$.tools[{i}].{key}", f"is not a usable JSON Schema: {reason}")
