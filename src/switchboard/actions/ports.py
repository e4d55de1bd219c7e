"""What the actions need from the rooms around them. Each protocol lives here, with its caller, and stays small."""

from typing import Protocol

from switchboard.catalog.findings import Finding


class Source(Protocol):
    """A place where descriptors come from."""

    async def load(self) -> tuple[Finding, ...]:
        """Return everything that is there now, broken things with their reasons. Never raises for what it finds."""
        ...
