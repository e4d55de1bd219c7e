"""Questions that are open: each is put to the person once, however many calls wait for its answer.

A question outlives the call that raised it: clients give a call up after a minute, and people take longer. The call
then says that the question is open, and the next one picks up what was decided meanwhile.
"""

from asyncio import FIRST_COMPLETED, Task, create_task, get_running_loop, shield, wait
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Generic, Literal, TypeVar

from switchboard.actions.ports import Client
from switchboard.catalog.errors import SwitchboardError
from switchboard.prompts.forms import Form, Prompt, Reply, Shown

T = TypeVar("T")

PATIENCE_S = 45.0
"""How long a call waits: clients end one after sixty seconds, whatever was decided."""
OPEN_S = 600.0
_MOST_OPEN = 5
_TELL_EVERY_S = 5.0

Why = Literal["pending", "closed", "nobody", "busy"]


class Unanswered(Exception):
    """There is no answer: it is not there yet, the form was closed, or nobody can be asked."""

    def __init__(self, why: Why, address: str | None = None) -> None:
        super().__init__(why)
        self.why: Why = why
        self.address = address


class _Open(Generic[T]):
    def __init__(self, shown: Shown, end: "Task[T]") -> None:
        self.shown = shown
        self.end = end
        self.told = False


class Questions(Generic[T]):
    """Puts forms to the person, and keeps each open until it is answered, closed or too old."""

    def __init__(self, prompt: Prompt, *, patience_s: float = PATIENCE_S, open_s: float = OPEN_S) -> None:
        self._prompt = prompt
        self._patience_s = patience_s
        self._open_s = open_s
        self._open: dict[Hashable, _Open[T]] = {}
        self._opening: dict[Hashable, Task[_Open[T]]] = {}

    async def answer(
        self, key: Hashable, form: Form, client: Client, then: Callable[[Reply], Awaitable[T]], *, waiting: str
    ) -> T:
        """Ask, unless it is being asked already, and return what `then` makes of the reply; `waiting` is for clients.

        `then` runs once for a reply, whether or not any call still waits for it.

        Raises:
            Unanswered: there is no answer within the time a call has.
            SwitchboardError: what `then` raises.
        """
        question = self._open.get(key) or await self._begin(key, form, then)
        page: Task[bool] | None = None
        if question.shown.address is not None and not question.told:
            question.told = True
            page = create_task(_led(client, question.shown.address, form.title))
            await self._seen(question, page, client)
        try:
            return await self._await(question, page, client, waiting)
        finally:
            if page is not None and not page.done():
                page.cancel()

    async def close(self) -> None:
        """Take every question back."""
        for question in list(self._open.values()):
            question.end.cancel()
        await self._prompt.close()

    async def _seen(self, question: _Open[T], page: "Task[bool]", client: Client) -> None:
        """Wait until the client has shown the page, where the person does not see it otherwise.

        On the stateless protocol the call ends here, and comes again once the client has shown it.
        """
        if question.shown.visible:
            return
        left = client.patience(self._patience_s)
        await wait({question.end, page}, timeout=left, return_when=FIRST_COMPLETED)
        if page.done() and not page.result():
            raise Unanswered("pending", question.shown.address)

    async def _await(self, question: _Open[T], page: "Task[bool] | None", client: Client, waiting: str) -> T:
        ends = get_running_loop().time() + client.patience(self._patience_s)
        while not question.end.done():
            if page is not None and page.done():
                page.result()
                page = None
            left = ends - get_running_loop().time()
            if left <= 0:
                raise Unanswered("pending", question.shown.address)
            client.progress(waiting)
            watched = {question.end, page} if page is not None else {question.end}
            await wait(watched, timeout=min(left, _TELL_EVERY_S), return_when=FIRST_COMPLETED)
        if question.end.cancelled():  # everything is taken back: the call still gets its answer
            raise Unanswered("closed")
        return await shield(question.end)

    async def _begin(self, key: Hashable, form: Form, then: Callable[[Reply], Awaitable[T]]) -> _Open[T]:
        if key not in self._opening:
            if len(self._open) + len(self._opening) >= _MOST_OPEN:
                raise Unanswered("busy")
            self._opening[key] = create_task(self._show(key, form, then))
            self._opening[key].add_done_callback(lambda _: self._opening.pop(key, None))
        return await shield(self._opening[key])

    async def _show(self, key: Hashable, form: Form, then: Callable[[Reply], Awaitable[T]]) -> _Open[T]:
        shown = await self._prompt.show(form)
        if shown is None:
            raise Unanswered("nobody")
        end = create_task(self._ended(shown, then))
        question = self._open[key] = _Open(shown, end)

        def forget(_: object) -> None:
            self._open.pop(key, None)
            with suppress(BaseException):  # whoever waits gets it; nobody may be waiting
                end.exception()

        end.add_done_callback(forget)
        return question

    async def _ended(self, shown: Shown, then: Callable[[Reply], Awaitable[T]]) -> T:
        try:
            await wait([shown.reply], timeout=self._open_s)
            if not shown.reply.done():
                raise Unanswered("pending")
            reply = shown.reply.result()
        finally:
            shown.reply.cancel()
        if reply is None:
            raise Unanswered("closed")
        return await then(reply)


async def _led(client: Client, address: str, message: str) -> bool:
    try:
        return await client.open_page(address, message)
    except SwitchboardError:  # it said it could, and could not: the page is there all the same
        return False
