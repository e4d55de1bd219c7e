"""Tell a client that its call goes on, where it wants to know and nothing else does.

A call that waits for an agent may take minutes; clients that hear of it wait longer, and show that something happens.
"""

from asyncio import create_task, sleep
from time import monotonic
from typing import Any

from switchboard.mcp.protocol import Exchange, Method

EVERY_S = 2.0


def telling(method: Method, every_s: float = EVERY_S) -> Method:
    """Return the same method, which tells every now and then that it goes on."""

    async def told(exchange: Exchange) -> Any:
        ticking = create_task(_tick(exchange, every_s)) if exchange.wants_progress else None
        try:
            outcome: Any = method(exchange)
            return await outcome
        finally:
            if ticking is not None:
                ticking.cancel()

    return told


async def _tick(exchange: Exchange, every_s: float) -> None:
    begun = monotonic()
    while True:
        await sleep(every_s)
        seconds = round(monotonic() - begun, 3)
        exchange.progress(seconds, message=f"running for {seconds:.0f} s")
