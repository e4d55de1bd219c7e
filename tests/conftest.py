"""Settings of the whole suite."""

import os

from hypothesis import settings

# A property that fails must fail again for the next person: no deadline on noisy machines, no luck in CI.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
