"""With how much caching this run of the tests is done: `SWITCHBOARD_CACHES=off make test` shows that none is needed.

Servers and gateways that tests start get the setting from here, and so do parts that tests put together themselves. A
test about a cache says what it needs of it.
"""

import os

from switchboard.catalog.caches import Caches
from switchboard.settings import CACHES_VARIABLE, caching

SETTING = {CACHES_VARIABLE: os.environ[CACHES_VARIABLE]} if CACHES_VARIABLE in os.environ else {}
"""What to put into the environment of a process."""
CACHES = Caches.of(caching(os.environ) or "on")
ON = {CACHES_VARIABLE: "on"}
"""For tests about caches themselves."""
FRESH_S = 30.0 if CACHES.most(1) else 0.0
"""For how long a directory does not ask its store again."""
