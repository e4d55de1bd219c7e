"""What discovery is asked in the benchmarks.

q1 no filter    q2 reasoner=*research*    q3 tags=ml*&include_input_schema=true    q4 format=compact
q5 format=xml   q6 agent=agent-0500       q7 three random agents: too many different ones for any cache
"""

import random

from bench import agents
from bench.http_servers import get

CACHED = {
    "q1": "",
    "q2": "reasoner=*research*",
    "q3": "tags=ml*&include_input_schema=true",
    "q4": "format=compact",
    "q5": "format=xml",
    "q6": "agent=agent-0500",
}
COUNTS = {"q1": 1000, "q2": 2000, "q3": 800, "q4": 1200, "q5": 800, "q6": 3000, "q7": 2400}
"""Requests of one measurement: about as much work each."""
_UNSEEN = 20000


class Questions:
    """The requests, ready to send; those of q7 are never sent twice while a cache could remember them."""

    def __init__(self, count: int = agents.AGENTS) -> None:
        dice = random.Random(7)  # noqa: S311 - the same questions every time
        numbers = range(count)
        self._unseen = [
            get(f"agent_ids={','.join(agents.agent_id(number) for number in dice.sample(numbers, 3))}")
            for _ in range(_UNSEEN)
        ]
        self._first = 0
        self._page = 0

    def some(self, name: str, count: int) -> list[bytes]:
        """Return requests of one kind."""
        if name != "q7":
            return [get(CACHED[name])]
        begin, self._first = self._first, (self._first + count) % _UNSEEN
        return (self._unseen + self._unseen)[begin : begin + count]

    def pages(self, name: str, count: int) -> list[bytes]:
        """Return requests for pages of a query that begin somewhere else every time: no answer is there from before.

        Each call goes on where the last one ended: the same pages within their second would be in the cache.
        """
        pages = [
            get("&".join(filter(None, (CACHED[name], f"limit={limit}&offset={offset}"))))
            for offset in range(400)
            for limit in range(96, 101)
        ]
        random.Random(8).shuffle(pages)  # noqa: S311 - the same order every time
        first = self._page % len(pages)
        self._page += count
        return pages[first:] + pages[:first]
