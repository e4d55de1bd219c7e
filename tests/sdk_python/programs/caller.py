"""A caller that waits, whatever happens to its control plane."""

import os

from agentfield import Agent

with Agent() as app:
    print(app.execute("worker:work", {"file": os.environ["WORK_FILE"]}))  # noqa: T201 - the test reads it
