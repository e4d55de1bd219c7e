"""People who are asked: each in one way, with a hand that chooses what a test says, and a count of the questions."""

import asyncio
import re
import shlex
import stat
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from html import unescape
from pathlib import Path
from threading import Event, Thread
from typing import Any, Protocol
from urllib.parse import urlencode

from tests.gateways import Gateway, Message
from tests.prompts.displays import Display

from switchboard.prompts.dialogs import TOO_SOON_S
from switchboard.prompts.page_html import FIELD

LABELS = {
    "en": {"deny": "Deny", "once": "Allow once", "tool": "Allow this operation", "all": "Allow all operations"},
    "zh": {"deny": "拒绝", "once": "允许一次", "tool": "授权此操作", "all": "授权所有操作"},
}
MODERN = "io.modelcontextprotocol/"
_LOOK_S = 0.02
_GLANCE_S = 10.0


class User(Protocol):
    """Somebody who is asked."""

    @property
    def way(self) -> str:
        """What `--consent` says."""
        ...

    @property
    def environment(self) -> Mapping[str, str]:
        """What a gateway needs to reach them."""
        ...

    @property
    def capabilities(self) -> Message:
        """What their client declares."""
        ...

    def at_hand(self, decision: str) -> AbstractContextManager[list[str]]:
        """Answer every question with this meanwhile, and note what was read."""
        ...


class PageUser:
    """Looks at pages in a browser, which is a hand that presses one button."""

    def __init__(self, folder: Path) -> None:
        self.way = "browser"
        self.capabilities: Message = {}
        folder.mkdir()
        self._folder = folder
        browser = folder / "browser"
        browser.write_text(
            f'#!/bin/sh\nfile="${{1#file://}}"\ncp "$file" {shlex.quote(str(folder))}/$$.part\n'
            f"mv {shlex.quote(str(folder))}/$$.part {shlex.quote(str(folder))}/$$.html\n",
            encoding="utf-8",
        )
        browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
        self.environment = {"BROWSER": str(browser)}

    @contextmanager
    def at_hand(self, decision: str) -> Generator[list[str]]:
        """Press the button of every page that opens."""
        read: list[str] = []

        def look() -> None:
            for file in self._folder.glob("*.html"):
                address = opened(file)
                file.unlink()
                read.append(fetched(address))
                pressed(address, decision)

        with _meanwhile(look):
            yield read


class DialogUser:
    """Sits at a screen, where zenity shows its windows."""

    def __init__(self, display: Display, language: str = "en") -> None:
        self.way = "dialog"
        self._labels = LABELS[language]
        self.capabilities: Message = {}
        self._display = display
        names = ("DISPLAY", "DBUS_SESSION_BUS_ADDRESS")
        # GTK ends a program that finds none of the settings it is made of.
        self.environment = {name: display.environment[name] for name in names} | {"XDG_DATA_DIRS": "/usr/share"}

    @contextmanager
    def at_hand(self, decision: str) -> Generator[list[str]]:
        """Click the button of every window that opens."""
        read: list[str] = []
        seen: set[str] = set()

        async def look() -> None:
            windows = await self._display.windows()
            if not windows:
                return
            parts = await self._display.parts(has=self._labels[decision])
            button = next(part for part in parts if part.role == "push button" and part.text == self._labels[decision])
            if windows[0] not in seen:
                seen.add(windows[0])
                read.append("\n".join(part.text for part in parts))
                await asyncio.sleep(TOO_SOON_S)  # who answers sooner has not read it, and is asked again
            await self._display.click(button)  # again, if the window has moved meanwhile

        async def glance() -> None:
            with suppress(TimeoutError):  # the window went away while it was looked at
                await asyncio.wait_for(look(), _GLANCE_S)

        with _meanwhile(lambda: asyncio.run(glance())):
            yield read


class ClientUser:
    """Is asked by the client, on either generation of the protocol; `Caller.call` answers for them."""

    def __init__(self) -> None:
        self.way = "elicit"
        self.environment: Mapping[str, str] = {}
        self.capabilities: Message = {"elicitation": {"form": {}}}
        self.decision = ""
        self.read: list[str] = []

    def at_hand(self, decision: str) -> AbstractContextManager[list[str]]:
        """Note what to choose."""
        self.decision, self.read = decision, []
        return nullcontext(self.read)

    def answer(self, asked: Message) -> Message:
        """Choose in a form of the client."""
        self.read.append(str(asked["params"]["message"]))
        return {"action": "accept", "content": {"decision": self.decision}}


class Caller:
    """A program of some name that calls tools of a gateway, on the stateless protocol or after a handshake."""

    def __init__(self, gateway: Gateway, name: str, user: User, *, modern: bool) -> None:
        self._gateway = gateway
        self._name = name
        self._user = user
        self._modern = modern

    def call(self, app: str, tool: str, decision: str, **args: Any) -> tuple[Message, list[str]]:
        """Call a tool with the user at hand; return the result, and what the user was asked."""
        params: Message = {"name": "aai:exec", "arguments": {"app": app, "tool": tool, "args": args}}
        if self._modern:
            params["_meta"] = {
                f"{MODERN}protocolVersion": "2026-07-28",
                f"{MODERN}clientCapabilities": self._user.capabilities,
                f"{MODERN}clientInfo": {"name": self._name, "version": "1"},
            }
        else:
            self._gateway.initialize(self._name, **self._user.capabilities)
        with self._user.at_hand(decision) as read:
            return self._sent(params), read

    def _sent(self, params: Message) -> Message:
        begun = self._gateway.begin("tools/call", params)

        def ours(message: Message) -> bool:
            return message.get("id") == begun or message.get("method") == "elicitation/create"

        while (message := self._gateway.receive(ours, 60)).get("method") == "elicitation/create":
            assert isinstance(self._user, ClientUser)
            self._gateway.send({"jsonrpc": "2.0", "id": message["id"], "result": self._user.answer(message)})
        result: Message = message["result"]
        if result.get("resultType") == "input_required":
            assert isinstance(self._user, ClientUser)
            answers = {key: self._user.answer(asked) for key, asked in result["inputRequests"].items()}
            return self._sent({**params, "inputResponses": answers, "requestState": result["requestState"]})
        return result


def opened(file: Path) -> str:
    """Return the address that a file leads a browser to."""
    found = re.search(r'url=([^"]+)"', file.read_text(encoding="utf-8"))
    assert found is not None
    return unescape(found[1])


def fetched(address: str) -> str:
    """Return the text of a page."""
    with urllib.request.urlopen(address, timeout=20) as page:  # noqa: S310 - a page of ours
        return unescape(re.sub(r"<[^>]+>", " ", page.read().decode()))


def pressed(address: str, choice: str, **fields: str) -> int:
    """Press a button of a page, and return the status of what follows."""
    form = urlencode({"choice": choice, **{f"{FIELD}{name}": value for name, value in fields.items()}}).encode()
    with urllib.request.urlopen(address, data=form, timeout=20) as page:  # noqa: S310 - a page of ours
        return page.status


@contextmanager
def _meanwhile(look: Any) -> Generator[None]:
    """Look again and again, until what it is for is over; what goes wrong there is the test's failure."""
    over, failures = Event(), list[BaseException]()

    def watch() -> None:
        while not over.wait(_LOOK_S):
            try:
                look()
            except BaseException as error:  # noqa: BLE001 - told below
                failures.append(error)
                return

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)
    if failures:
        raise failures[0]
