"""The two shells that carry plans out: `Link` blocks, `AsyncLink` does not.

Only this module and `ports` open connections. httpx2 is imported with the first request, because it takes longer
than all the rest.
"""

import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit
from weakref import finalize

from agentfield.context import current
from agentfield.errors import WouldBlock
from agentfield.plans import Answer, Follow, Listen, Lost, More, Opened, Pause, Plan, Reply, Request

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    import httpx2

T = TypeVar("T")
Found = TypeVar("Found")
VERSION = "0.1.0"
_CONNECT_S = 5.0
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Server:
    """Where the control plane is, and the key to it. The key is in no text that this object makes."""

    def __init__(self, url: str, api_key: str) -> None:
        """Check both.

        Raises:
            ValueError: The address is no http or https address, or the key cannot be sent in a header.
        """
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"The control plane's address must be like http://localhost:8080, not {url!r}.")
        if parts.username is not None or parts.password is not None:
            raise ValueError("The control plane's address must have no user name or password: use api_key=.")
        if not api_key.isascii() or not api_key.isprintable():
            raise ValueError("The API key has characters that cannot be sent in a header.")
        self.url = url.rstrip("/")
        self._key = api_key.strip()
        self._plain = parts.scheme == "http"
        # Proxies of the environment are for what is far away.
        self._trust_env = parts.hostname not in _LOOPBACK
        self.met = False

    def __repr__(self) -> str:
        return f"Server({self.url!r})"

    def options(self) -> dict[str, Any]:
        """Return how a client is made. Redirects are not followed: the key is for this server alone."""
        import ssl  # noqa: PLC0415

        import httpx2  # noqa: PLC0415 - see the head of this module

        headers = {"User-Agent": f"switchboard-sdk/{VERSION}"}
        if self._key:
            headers["X-API-Key"] = self._key
        # A call that waits must not keep others from being sent, so there is no limit to connections.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=32)
        made: dict[str, Any] = {
            "base_url": self.url,
            "headers": headers,
            "limits": limits,
            "trust_env": self._trust_env,
        }
        if self._plain and not self._trust_env:
            # Certificates take 50 ms to load. Without any, no TLS connection would be trusted, and none is made.
            made["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return made

    def answer(self, response: "httpx2.Response", begin: float) -> Answer:
        """Turn a response into our own value.

        What is no result may become the text of an error, and some servers and proxies repeat the headers they got: the
        key is taken out.
        """
        self.met = True
        body = response.content
        kind = response.headers.get("content-type", "")
        if self._key and (not response.is_success or not ("json" in kind or "xml" in kind)):
            body = body.replace(self._key.encode(), b"[hidden]")
        return Answer(response.status_code, response.headers, body, time.monotonic() - begin)

    def lost(self, error: "httpx2.RequestError", begin: float) -> Lost:
        """Turn a failure into our own value. Of the failure only its kind is told: its text may have headers in it."""
        import httpx2  # noqa: PLC0415

        took = time.monotonic() - begin
        unsent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
        self.met = self.met or not unsent
        timed_out = isinstance(error, httpx2.TimeoutException) and not unsent
        broken = isinstance(error, httpx2.DecodingError)
        what = "sent an answer that cannot be unpacked" if broken else "does not answer"
        what = f"did not answer within {took:.0f} s" if timed_out else what
        why = f"The control plane at {self.url} {what} ({type(error).__name__})."
        return Lost(why, not unsent, timed_out, broken, took, self.met)


class Link:
    """Carries plans out in the calling thread; any number of threads may share it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._client: httpx2.Client | None = None
        self._end: Callable[[], object] | None = None

    def run(self, plan: Plan[T]) -> T:
        """Carry a plan out.

        Raises:
            WouldBlock: This thread runs the agent that is asking.
        """
        if current() is not None and _runs_a_loop():
            raise WouldBlock(
                "This would stop the agent it is called in: use `await app.aexecute(...)`, `adiscover`, ..."
            )
        reply: Reply = None
        while True:
            try:
                step = plan.send(reply)
            except StopIteration as end:
                return end.value
            reply = time.sleep(step.seconds) if isinstance(step, Pause) else self._send(step)

    def follow(self, plan: Generator[Follow | Found, Any, None]) -> Generator[Found]:
        """Carry a plan out that never ends, and yield what it finds.

        Raises:
            WouldBlock: This thread runs the agent that is asking.
        """
        if current() is not None and _runs_a_loop():
            raise WouldBlock("This would stop the agent it is called in: use `async for ... in app.awatch(...)`.")
        line = _Line(self._server)
        reply: object = None
        try:
            while True:
                step = plan.send(reply)
                match step:
                    case Pause():
                        reply = time.sleep(step.seconds)
                    case Request():
                        reply = self._send(step)
                    case Listen():
                        reply = line.opened(self._made(), step.request)
                    case More():
                        reply = line.more()
                    case _:
                        reply = None
                        yield step
        finally:
            line.close()
            plan.close()

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        with self._lock:
            end, self._end, self._client = self._end, None, None
        if end is not None:
            end()

    def _send(self, request: Request) -> Answer | Lost:
        import httpx2  # noqa: PLC0415

        begin = time.monotonic()
        try:
            return self._server.answer(self._made().request(**_arguments(request)), begin)
        except httpx2.RequestError as error:
            return self._server.lost(error, begin)

    def _made(self) -> "httpx2.Client":
        import httpx2  # noqa: PLC0415

        with self._lock:
            if self._client is None:
                self._client = httpx2.Client(**self._server.options())
                # Programs make an Agent and never close it: what they leave open is closed at their end.
                self._end = finalize(self, self._client.close)
            return self._client


class AsyncLink:
    """Carries plans out on the running event loop; each loop has connections of its own."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._kept: dict[AbstractEventLoop, tuple[httpx2.AsyncClient, AsyncGenerator[httpx2.AsyncClient]]] = {}

    async def run(self, plan: Plan[T]) -> T:
        """Carry a plan out."""
        import asyncio  # noqa: PLC0415 - whoever has no event loop does not need it

        reply: Reply = None
        while True:
            try:
                step = plan.send(reply)
            except StopIteration as end:
                return end.value
            reply = await asyncio.sleep(step.seconds) if isinstance(step, Pause) else await self._send(step)

    async def follow(self, plan: Generator[Follow | Found, Any, None]) -> AsyncGenerator[Found]:
        """Carry a plan out that never ends, and yield what it finds."""
        import asyncio  # noqa: PLC0415

        line = _AsyncLine(self._server)
        reply: object = None
        try:
            while True:
                step = plan.send(reply)
                match step:
                    case Pause():
                        reply = await asyncio.sleep(step.seconds)
                    case Request():
                        reply = await self._send(step)
                    case Listen():
                        reply = await line.opened(await self._made(), step.request)
                    case More():
                        reply = await line.more()
                    case _:
                        reply = None
                        yield step
        finally:
            await line.close()
            plan.close()

    async def close(self) -> None:
        """Close the connections of this loop; the next request opens new ones."""
        import asyncio  # noqa: PLC0415

        kept = self._kept.pop(asyncio.get_running_loop(), None)
        if kept is not None:
            await kept[1].aclose()

    async def _send(self, request: Request) -> Answer | Lost:
        import httpx2  # noqa: PLC0415

        begin = time.monotonic()
        try:
            return self._server.answer(await (await self._made()).request(**_arguments(request)), begin)
        except httpx2.RequestError as error:
            return self._server.lost(error, begin)

    async def _made(self) -> "httpx2.AsyncClient":
        import asyncio  # noqa: PLC0415

        loop = asyncio.get_running_loop()
        if loop not in self._kept:
            for ended in [other for other in list(self._kept) if other.is_closed()]:
                self._kept.pop(ended, None)
            keeper = self._until_the_end()
            self._kept[loop] = (await anext(keeper), keeper)
        return self._kept[loop][0]

    async def _until_the_end(self) -> "AsyncGenerator[httpx2.AsyncClient]":
        """Give a client. A loop that ends closes the generators that are left, and with this one the connections."""
        import httpx2  # noqa: PLC0415

        client = httpx2.AsyncClient(**self._server.options())
        try:
            yield client
        finally:
            await client.aclose()


class _Line:
    """One answer that does not end."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._response: httpx2.Response | None = None
        self._pieces: Iterator[bytes] = iter(())

    def opened(self, client: "httpx2.Client", request: Request) -> Opened | Answer | Lost:
        """Ask, and keep the answer if it goes on."""
        import httpx2  # noqa: PLC0415

        self.close()
        begin = time.monotonic()
        try:
            response = client.send(client.build_request(**_arguments(request)), stream=True)
            if _goes_on(response):
                self._response, self._pieces = response, response.iter_bytes()
                self._server.met = True
                return Opened(response.headers)
            try:
                response.read()
                return self._server.answer(response, begin)
            finally:
                response.close()
        except httpx2.RequestError as error:
            return self._server.lost(error, begin)

    def more(self) -> bytes | Lost:
        """Return the next piece."""
        import httpx2  # noqa: PLC0415

        begin = time.monotonic()
        try:
            return next(self._pieces, None) or _ended(self._server)
        except httpx2.RequestError as error:
            return self._server.lost(error, begin)
        except httpx2.StreamError:
            return _ended(self._server)  # it was closed from outside

    def close(self) -> None:
        """Hang up."""
        response, self._response, self._pieces = self._response, None, iter(())
        if response is not None:
            response.close()


class _AsyncLine:
    """The same on an event loop."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._response: httpx2.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None

    async def opened(self, client: "httpx2.AsyncClient", request: Request) -> Opened | Answer | Lost:
        """Ask, and keep the answer if it goes on."""
        import httpx2  # noqa: PLC0415

        await self.close()
        begin = time.monotonic()
        try:
            response = await client.send(client.build_request(**_arguments(request)), stream=True)
            if _goes_on(response):
                self._response, self._pieces = response, response.aiter_bytes()
                self._server.met = True
                return Opened(response.headers)
            try:
                await response.aread()
                return self._server.answer(response, begin)
            finally:
                await response.aclose()
        except httpx2.RequestError as error:
            return self._server.lost(error, begin)

    async def more(self) -> bytes | Lost:
        """Return the next piece."""
        import httpx2  # noqa: PLC0415

        begin = time.monotonic()
        if self._pieces is None:
            return _ended(self._server)
        try:
            return await anext(self._pieces, None) or _ended(self._server)
        except httpx2.RequestError as error:
            return self._server.lost(error, begin)
        except httpx2.StreamError:
            return _ended(self._server)

    async def close(self) -> None:
        """Hang up."""
        response, self._response, self._pieces = self._response, None, None
        if response is not None:
            await response.aclose()


def _goes_on(response: "httpx2.Response") -> bool:
    return response.is_success and response.headers.get("content-type", "").startswith("text/event-stream")


def _ended(server: Server) -> Lost:
    return Lost(f"The control plane at {server.url} has ended what it was telling.", sent=True, seen_before=True)


def _runs_a_loop() -> bool:
    import asyncio  # noqa: PLC0415

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _arguments(request: Request) -> dict[str, Any]:
    import httpx2  # noqa: PLC0415

    headers = list(request.headers)
    if request.body is not None:
        headers.append(("Content-Type", "application/json"))
    return {
        "method": request.method,
        "url": request.path,
        "params": request.query,
        "headers": headers,
        "content": request.body,
        "timeout": httpx2.Timeout(request.seconds, connect=min(_CONNECT_S, request.seconds)),
    }
