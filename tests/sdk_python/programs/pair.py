"""Two agents in one process, on one event loop."""

import asyncio

from agentfield import Agent

one = Agent("pair-one", heartbeat_interval=0.2)
two = Agent("pair-two", heartbeat_interval=0.2)


@one.skill
@two.skill
def echo(value: str) -> str:
    """Return what was given."""
    return value


async def main() -> None:
    """Serve both."""
    await asyncio.gather(one.serve(port=0), two.serve(port=0))


if __name__ == "__main__":
    asyncio.run(main())
