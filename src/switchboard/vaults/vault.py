"""Where secrets and decisions are kept: small texts by name, over restarts, for this user alone."""

from collections.abc import Callable
from typing import Protocol

Change = Callable[[str | None], str | None]
"""Takes what is kept, and returns what is to be kept instead; None stands for nothing, both ways."""


class Vault(Protocol):
    """Keeps texts. Every method may block, and may be called from any thread and several processes at once.

    Raises (every method but `version`): VaultUnavailable, with what to do about it. A text is never in an error.
    """

    def read(self, name: str) -> str | None:
        """Return what is kept under a name."""
        ...

    def change(self, name: str, change: Change) -> str | None:
        """Replace what is kept, and return it as it then is; nobody else changes anything meanwhile.

        After a crash at any moment, what was kept before or what is kept now is there, never half of it.
        """
        ...

    def names(self) -> list[str]:
        """Return every name that something is kept under, sorted."""
        ...

    def version(self) -> object:
        """Return something that is another thing after any process changed anything. Quick: no secret is read."""
        ...
