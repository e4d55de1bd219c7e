"""Where the browser comes back to after a sign-in: one listener for each, on a port that nobody can foretell.

Only an answer that knows the state of this sign-in ends the wait, and only the first. Whatever else arrives, by
accident or on purpose, gets a page that says no, and changes nothing.
"""

from asyncio import Future, get_running_loop
from html import escape
from typing import final

from switchboard.accounts.oauth import Callback, Foreign, read_callback
from switchboard.prompts.forms import Language
from switchboard.prompts.loopback import Loopback, Request, Response

PATH = "/callback"
_STYLE = """
:root { color-scheme: light dark; font: 1.0625rem/1.5 system-ui, sans-serif; }
body { max-width: 32rem; margin: 18vh auto 0; padding: 0 1.5rem; }
h1 { font-size: 1.5rem; }
"""
_DONE = {
    "en": ("Switchboard has the answer", "You can close this tab and go back to what you were doing."),
    "zh": ("Switchboard 已收到结果", "您可以关闭此标签页，回到刚才的操作。"),
}
_DENIED = {
    "en": ("You are not signed in", "The site did not allow it. You can close this tab."),
    "zh": ("未登录", "该网站没有允许登录。您可以关闭此标签页。"),
}
_STRANGE = {
    "en": ("This does not belong here", "This page ends a sign-in that was begun by Switchboard, and only that one."),
    "zh": ("此请求不属于这里", "此页面只用于完成由 Switchboard 发起的那一次登录。"),
}


@final
class Redirect:
    """Waits for the browser, for one sign-in. `arrived` is what it brings."""

    def __init__(self, *, state: str, language: Language, loopback: Loopback | None = None) -> None:
        self._state = state
        self._language: Language = language
        self._loopback = loopback or Loopback()
        self.arrived: Future[Callback] = get_running_loop().create_future()

    async def open(self) -> str:
        """Listen, and return the redirect URI.

        Raises:
            OSError: this machine has no free port, or no loopback address.
        """
        self._loopback.route(PATH, self._answer)
        return await self._loopback.start() + PATH

    async def close(self) -> None:
        """Listen no more."""
        self.arrived.cancel()
        await self._loopback.close()

    async def _answer(self, request: Request) -> Response:
        if request.method != "GET":
            return _page(405, _STRANGE[self._language], self._language)
        if self.arrived.done():
            return _page(410, _STRANGE[self._language], self._language)
        try:
            callback = read_callback(request.query, self._state)
        except Foreign:
            return _page(400, _STRANGE[self._language], self._language)
        self.arrived.set_result(callback)
        return _page(200, (_DENIED if callback.error else _DONE)[self._language], self._language)


def _page(status: int, words: tuple[str, str], language: Language) -> Response:
    title, text = map(escape, words)
    body = (
        f'<!doctype html>\n<html lang="{language}"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head>\n<body><main><h1>{title}</h1><p>{text}</p></main></body></html>\n"
    )
    return Response(status, body, style=_STYLE)
