"""The user's own hand, and what lies in front of it: forms that are answered as a test says, and a vault in memory."""

from asyncio import Future, get_running_loop
from collections.abc import Callable, Mapping
from threading import Lock
from typing import final

from switchboard.actions.ports import Client
from switchboard.catalog.errors import NotSupported, VaultUnavailable
from switchboard.prompts.forms import Form, Prompt, Reply, Shown
from switchboard.vaults.vault import Change, Vault

Answer = Callable[[Form], str | Reply | None]


@final
class Hand(Prompt):
    """Answers every form at once with what it was told to choose; `...` leaves it open, None closes it."""

    def __init__(self, *choices: object) -> None:
        self.choices = list(choices)
        self.forms: list[Form] = []
        self.open: list[Future[Reply | None]] = []
        self.address: str | None = None
        self.visible = True

    async def show(self, form: Form) -> Shown | None:
        """Take the next choice."""
        self.forms.append(form)
        reply: Future[Reply | None] = get_running_loop().create_future()
        choice = self.choices.pop(0)
        if choice is ...:
            self.open.append(reply)
        elif isinstance(choice, Reply) or choice is None:
            reply.set_result(choice)
        else:
            reply.set_result(Reply(str(choice)))
        return Shown(reply, address=self.address, visible=self.visible)

    async def close(self) -> None:
        """Close what is open."""
        for reply in self.open:
            reply.cancel()


@final
class Nobody(Prompt):
    """There is no way to show anything."""

    async def show(self, form: Form) -> Shown | None:
        """Show nothing."""
        del form

    async def close(self) -> None:
        """Nothing is shown."""


@final
class MemoryVault(Vault):
    """Keeps texts for as long as the test; `broken` is why it cannot, `full` why it takes no more."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.reads = 0
        self.broken: str | None = None
        self.full: str | None = None
        self._changes = 0
        self._lock = Lock()

    def read(self, name: str) -> str | None:
        """Return a text."""
        self._require()
        self.reads += 1
        return self.texts.get(name)

    def change(self, name: str, change: Change) -> str | None:
        """Replace a text."""
        self._require()
        if self.full is not None:
            raise VaultUnavailable(self.full)
        with self._lock:
            text = change(self.texts.get(name))
            self._changes += 1
            if text is None:
                self.texts.pop(name, None)
            else:
                self.texts[name] = text
            return text

    def names(self) -> list[str]:
        """Return the names."""
        self._require()
        return sorted(self.texts)

    def version(self) -> object:
        """Count changes."""
        return self._changes

    def _require(self) -> None:
        if self.broken is not None:
            raise VaultUnavailable(self.broken)


@final
class Told(Client):
    """A client that notes what it is told, and answers what it is asked as the test says."""

    def __init__(self, chooses: object = NotSupported, *, opens: bool = False) -> None:
        self.said: list[str] = []
        self.pages: list[str] = []
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self._chooses = chooses
        self._opens = opens

    def patience(self, most_s: float) -> float:
        """Have all the time there is."""
        return most_s

    def progress(self, message: str) -> None:
        """Note it."""
        self.said.append(message)

    async def open_page(self, address: str, message: str) -> bool:
        """Note it."""
        del message
        self.pages.append(address)
        return self._opens

    async def choose(self, message: str, choices: Mapping[str, str]) -> str | None:
        """Choose what the test says."""
        self.asked.append((message, choices))
        if self._chooses is NotSupported:
            raise NotSupported("This client cannot be asked.")
        return None if self._chooses is None else str(self._chooses)
