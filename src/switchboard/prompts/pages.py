"""Asks the person on a page of their own browser, at an address that works once.

Knows nothing of what is asked. A page is the person's answer only because nobody else has its address: it is never
logged, and it ends with the first answer.
"""

from asyncio import Future, get_running_loop
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256
from secrets import token_urlsafe
from typing import final

from switchboard.prompts import page_html
from switchboard.prompts.forms import Form, Language, Prompt, Reply, Shown
from switchboard.prompts.loopback import NOTHING, Loopback, Request, Response

_PATH = "/ask/"
_TOKEN_BYTES = 32
_MOST_ENDED = 1000


class _Asked:
    """One form that is open."""

    def __init__(self, form: Form, address: str, reply: "Future[Reply | None]") -> None:
        self.form = form
        self.address = address
        self.reply = reply


@final
class Pages(Prompt):
    """Shows each form at an address of its own; `opens` opens one in a browser, and tells whether it did.

    `fetched` hears of an address once somebody has it on the screen, or nobody can have it any more: what was kept to
    open it can go.
    """

    def __init__(
        self,
        opens: Callable[[str], Awaitable[bool]],
        *,
        server: Loopback | None = None,
        fetched: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._opens = opens
        self._fetched = fetched
        self._server = server or Loopback()
        self._server.route(_PATH, self._respond)
        # By a hash of the token: how long a look-up takes tells of the hash, from which nobody gets to the token.
        self._asked: dict[bytes, _Asked] = {}
        self._ended: dict[bytes, tuple[page_html.End, Language]] = {}

    async def show(self, form: Form) -> Shown | None:
        """Put a form on a page, and open it."""
        try:
            base = await self._server.start()
        except OSError:
            return None
        token = token_urlsafe(_TOKEN_BYTES)
        key = _key(token)
        reply: Future[Reply | None] = get_running_loop().create_future()
        asked = self._asked[key] = _Asked(form, f"{base}{_PATH}{token}", reply)
        reply.add_done_callback(partial(self._withdraw, key))
        try:
            visible = await self._opens(asked.address)
        except BaseException:
            reply.cancel()  # nobody will ever hear of it
            raise
        return Shown(reply, address=asked.address, visible=visible)

    async def close(self) -> None:
        """Take every page away, and stop serving."""
        for asked in list(self._asked.values()):
            if not asked.reply.done():
                asked.reply.set_result(None)
        await self._server.close()

    async def _respond(self, request: Request) -> Response:
        key = _key(request.path.removeprefix(_PATH))
        asked = self._asked.get(key)
        # Cancelled a moment ago, and its callback has not run yet: it is over all the same.
        if asked is None or asked.reply.done():
            return self._over(key, asked)
        self._fetched(asked.address)
        if request.method == "GET":
            return page_html.question(asked.form)
        return self._take(key, asked, request)

    def _take(self, key: bytes, asked: _Asked, request: Request) -> Response:
        form = asked.form
        choice = next((choice for choice in form.choices if choice.id == request.form.get("choice")), None)
        if choice is None:
            return page_html.question(form, "choice")
        values: dict[str, str] = {}
        if choice.needs_fields:
            values = {field.name: request.form.get(page_html.FIELD + field.name, "") for field in form.fields}
        if not all(value.strip() for value in values.values()):
            return page_html.question(form, "fields")
        self._end(key, "decided")
        asked.reply.set_result(Reply(choice.id, values))
        return page_html.thanks(form, choice)

    def _over(self, key: bytes, asked: _Asked | None) -> Response:
        if asked is not None:
            return page_html.over("withdrawn", asked.form.language)
        ended = self._ended.get(key)
        return page_html.over(*ended) if ended else Response(404, NOTHING)

    def _withdraw(self, key: bytes, reply: "Future[Reply | None]") -> None:
        del reply
        self._end(key, "withdrawn")

    def _end(self, key: bytes, end: page_html.End) -> None:
        """Forget a form, but for a while not that it was there: who comes back to its page is told."""
        asked = self._asked.pop(key, None)
        if asked is None:
            return
        self._ended[key] = (end, asked.form.language)
        if len(self._ended) > _MOST_ENDED:
            del self._ended[next(iter(self._ended))]
        self._fetched(asked.address)


def _key(token: str) -> bytes:
    return sha256(token.encode()).digest()
