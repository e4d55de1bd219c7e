"""The ways to ask the person at this machine, in order: the first that can show a form shows it."""

from collections.abc import Sequence
from typing import final

from switchboard.prompts.forms import Form, Prompt, Shown


@final
class FirstPossible(Prompt):
    """Tries one way after the other."""

    def __init__(self, ways: Sequence[Prompt]) -> None:
        self._ways = tuple(ways)

    async def show(self, form: Form) -> Shown | None:
        """Show a form in the first way that works here and now."""
        for way in self._ways:
            shown = await way.show(form)
            if shown is not None:
                return shown
        return None

    async def close(self) -> None:
        """Take everything away."""
        for way in self._ways:
            await way.close()
