"""The guarded client: every call to an address that somebody else wrote down goes through here.

The address is pinned: a name is looked up once for a connection, only addresses the guard has no objection to are
connected to, and TLS still asks for the name. Time and size have one limit each, over everything. It keeps no cookies,
and reads no proxies, no netrc and no certificates from the environment.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from typing import final
from urllib.parse import urljoin

import httpcore2
import httpx2
from msgspec import Struct

from switchboard.catalog.caches import USUAL, Caches
from switchboard.catalog.errors import (
    EFFECT_UNKNOWN,
    AnswerTooLarge,
    CallTimeout,
    InvalidRequest,
    RefusedAddress,
    ServiceUnavailable,
    SwitchboardError,
    Unreached,
)
from switchboard.net.connections import LookUps, Objection, Pinned, Resolver
from switchboard.net.guard import MOST_KNOWN, Address, Guard, Scheme, Target, is_public
from switchboard.net.http11 import Pool, Stale
from switchboard.net.unpacking import Garbled, TooLarge, unpacked

Headers = tuple[tuple[str, str], ...]

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REPEATABLE = frozenset({"GET", "HEAD"})
_AGAIN = "Try again later."
# What another origin may be told. Everything else a caller gave may be a secret.
_HARMLESS = frozenset({"accept", "user-agent", "if-none-match"})
# What makes a message a message is ours; a caller who could set it could make two requests out of one.
_OURS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "te", "upgrade", "expect"}
)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")

_CONNECTIONS = 100
# What is left of an answer that nobody wants: read if it is short and there, so that the connection can be kept.
_UNWANTED_SIZE = 64 * 1024
_UNWANTED_S = 0.1


class Limits(Struct, frozen=True, kw_only=True):
    """How long one call may take with all its redirects, and how much it may bring, unpacked."""

    seconds: float = 10.0
    size: int = 1024 * 1024
    redirects: int = 5


class Answer(Struct, frozen=True, kw_only=True):
    """What came back, and from where; the body is unpacked."""

    status: int
    headers: Headers
    body: bytes
    url: str

    def header(self, name: str) -> str | None:
        """Return the first header of that name, in any case of letters."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def __repr__(self) -> str:
        # Bodies, cookies and queries are secrets often enough.
        return f"Answer(status={self.status}, size={len(self.body)})"


class Stream(Struct, frozen=True, kw_only=True):
    """An answer that goes on: its head, and its body as it comes."""

    status: int
    headers: Headers
    chunks: AsyncIterator[bytes]
    """Raises what `Fetch.stream` does when nothing comes for too long, or the connection breaks off."""


_DEFAULT_LIMITS = Limits()


@final
class Fetch:
    """Calls out, guarded. Connections are kept alive between calls to one origin; use it in one event loop.

    `loopback` is the user's `--dev`; `plain` allows http, which is how agents inside one network speak; `connections`
    is how many there are at once, None where somebody else limits that.
    `permitted`, `resolve` and `tls` are for tests, which have no public addresses; no configuration reaches them.
    """

    def __init__(  # noqa: PLR0913 - what is allowed, and the seams
        self,
        *,
        loopback: bool = False,
        plain: bool = False,
        connections: int | None = _CONNECTIONS,
        permitted: Callable[[Address], bool] = is_public,
        resolve: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
        caches: Caches = USUAL,
    ) -> None:
        self._connections = connections
        self._guard = Guard(loopback=loopback, plain=plain, permitted=permitted, most_known=caches.most(MOST_KNOWN))
        # The trust store of the operating system, which is what httpx2 uses too.
        context = tls or httpx2.create_ssl_context(trust_env=False)
        context.set_alpn_protocols(["http/1.1"])
        names = resolve or LookUps()
        # One for each scheme, which decides what is allowed.
        self._pinned = {"https": self._pin("https", names), "http": self._pin("http", names)}
        self._tls: dict[Scheme, ssl.SSLContext | None] = {"https": context, "http": None}
        self._pools = {"https": self._pool("https"), "http": self._pool("http")}

    async def send(  # noqa: PLR0913 - what a request is made of
        self,
        method: str,
        url: str,
        *,
        headers: Iterable[tuple[str, str]] = (),
        content: bytes | None = None,
        limits: Limits = _DEFAULT_LIMITS,
        body_wanted: Callable[[int], bool] | None = None,
    ) -> Answer:
        """Send one request, follow the redirects of a GET or HEAD, and return the answer, whatever its status.

        `body_wanted` says for which status the body matters, by default for every one: without it the answer is
        complete with its head, and its body is empty.

        Raises:
            RefusedAddress: the guard objects to the address, or to one that it redirects to.
            UnknownHost: the name cannot be looked up.
            CallTimeout: the time is over.
            AnswerTooLarge: the body is longer than the limit.
            ServiceUnavailable: anything else went wrong on the way.
            InvalidRequest: the method or a header cannot be sent.
        """
        target = self._guard.target(url)
        request = _Request(
            method=_checked_method(method), headers=_checked(headers), content=content, wanted=body_wanted
        )
        try:
            async with asyncio.timeout(limits.seconds):
                return await self._follow(request, target, limits)
        except TimeoutError as error:
            do = _AGAIN if request.method in _REPEATABLE else EFFECT_UNKNOWN
            raise CallTimeout(f"{target.shown} gave no answer within {limits.seconds:g} seconds. {do}") from error

    @asynccontextmanager
    async def stream(
        self, url: str, *, headers: Iterable[tuple[str, str]] = (), seconds: float = 10.0, idle_s: float = 45.0
    ) -> AsyncGenerator[Stream]:
        """Ask for something that does not end; how much of it is too much is for whoever reads it to say.

        `seconds` is for the head, `idle_s` for each silence after it. Redirects are answers like any other.

        Raises:
            RefusedAddress, UnknownHost, CallTimeout, ServiceUnavailable, InvalidRequest: as `send` does.
        """
        target = self._guard.target(url)
        request = _Request(method="GET", headers=_checked(headers), content=None, coding="identity")
        async with AsyncExitStack() as opened:
            try:
                response = await self._opened(opened, request, target, seconds)
            except Objection as error:
                raise _refused(target, target, error.why) from error
            named = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers)
            async with aclosing(_heard(response, target, idle_s)) as chunks:
                yield Stream(status=response.status, headers=named, chunks=chunks)

    async def _opened(
        self, opened: AsyncExitStack, request: "_Request", target: Target, seconds: float
    ) -> httpcore2.Response:
        """Send a request and return the head of its answer; leaving `opened` hangs up."""
        while True:
            stream = self._pools[target.scheme].stream(
                request.method,
                httpcore2.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.resource),
                headers=request.lines(target),
            )
            try:
                async with asyncio.timeout(seconds):
                    return await opened.enter_async_context(stream)
            except TimeoutError as error:
                raise CallTimeout(f"{target.shown} gave no answer within {seconds:g} seconds.") from error
            except Stale:
                continue  # a kept connection was closed meanwhile
            except _FOREIGN as error:
                raise _ours(target, error) from error

    async def certificate(self, url: str, seconds: float = 10.0) -> bytes:
        """Return the certificate that a host shows, in DER, once the system's trust store has accepted its chain.

        Raises:
            RefusedAddress: the guard objects to the address, or it is not https.
            UnknownHost, CallTimeout, ServiceUnavailable: it does not answer, or its certificate is not accepted.
        """
        target = self._guard.target(url)
        if target.scheme != "https":
            raise RefusedAddress(target.shown, "only https has a certificate")
        shown = await self._met(target, seconds)
        if not isinstance(shown, bytes):
            raise ServiceUnavailable(f"{target.shown} shows no certificate. Check the address.")
        return shown

    async def knock(self, url: str, seconds: float = 10.0) -> None:
        """Connect to a host and hang up, to know that it is there and may be called.

        Raises:
            RefusedAddress, UnknownHost, CallTimeout, ServiceUnavailable: it may not, or is not.
        """
        await self._met(self._guard.target(url), seconds)

    async def _met(self, target: Target, seconds: float) -> object:
        """Connect, and return the certificate, where there is one."""
        try:
            async with asyncio.timeout(seconds):
                return await self._handshake(target)
        except TimeoutError as error:
            raise CallTimeout(f"{target.shown} gave no answer within {seconds:g} seconds. {_AGAIN}") from error
        except Objection as error:
            raise RefusedAddress(target.shown, error.why) from error
        except _FOREIGN as error:
            raise _ours(target, error) from error

    async def _handshake(self, target: Target) -> object:
        wire = await self._pinned[target.scheme].connect(target.host, target.port, self._tls[target.scheme])
        try:
            encrypted = wire.info("ssl_object")
            return None if encrypted is None else encrypted.getpeercert(binary_form=True)
        finally:
            wire.close()

    async def close(self) -> None:
        """Close every connection."""
        for pool in self._pools.values():
            await pool.aclose()

    async def _follow(self, request: "_Request", first: Target, limits: Limits) -> Answer:
        target = first
        for _ in range(limits.redirects + 1):
            try:
                answer = await self._repeat(request, target, limits)
            except Objection as error:
                raise _refused(first, target, error.why) from error
            location = answer.header("location")
            if answer.status not in _REDIRECTS or location is None or request.method not in _REPEATABLE:
                return answer
            before, target = target, self._next(first, target, location)
            if target.origin != before.origin:
                request = request.for_strangers()
        raise ServiceUnavailable(
            f"{first.shown} redirects more than {limits.redirects} times. Give the address that it ends at."
        )

    def _next(self, first: Target, target: Target, location: str) -> Target:
        try:
            following = self._guard.target(urljoin(target.url, _as_text(location)))
        except ValueError:
            raise RefusedAddress(first.shown, "it redirects to an address that cannot be read") from None
        except RefusedAddress as error:
            shown, why = error.details["url"], error.details["why"]
            raise RefusedAddress(first.shown, f"it redirects to {shown}, and {why}") from error
        if target.scheme == "https" and following.scheme == "http":
            raise _refused(first, following, "that gives up https")
        return following

    async def _repeat(self, request: "_Request", target: Target, limits: Limits) -> Answer:
        """Exchange, and again for as long as it is only that a kept connection was closed meanwhile."""
        while True:
            try:
                return await self._exchange(request, target, limits)
            except Stale as error:
                if request.method not in _REPEATABLE:
                    raise ServiceUnavailable(
                        f"{target.shown} closed the connection before it answered. {EFFECT_UNKNOWN}"
                    ) from error

    async def _exchange(self, request: "_Request", target: Target, limits: Limits) -> Answer:
        try:
            async with self._pools[target.scheme].stream(
                request.method,
                httpcore2.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.resource),
                headers=request.lines(target),
                content=request.content,
            ) as response:
                headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers)
                answer = Answer(status=response.status, headers=headers, body=b"", url=target.url)
                async with aclosing(response.aiter_stream()) as chunks:
                    if request.wanted is not None and not request.wanted(answer.status):
                        await _skip(chunks)
                        return answer
                    body = await unpacked(chunks, answer.header("content-encoding"), limits.size)
        except TooLarge as error:
            raise AnswerTooLarge(f"{target.shown} sends more than {limits.size} bytes. Ask it for less.") from error
        except _FOREIGN as error:
            raise _ours(target, error) from error
        return Answer(status=answer.status, headers=answer.headers, body=body, url=answer.url)

    def _pool(self, scheme: Scheme) -> httpcore2.AsyncConnectionPool:
        pinned, tls = self._pinned[scheme], self._tls[scheme]
        return Pool(lambda host, port: pinned.connect(host, port, tls), self._connections)

    def _pin(self, scheme: Scheme, resolve: Resolver) -> Pinned:
        return Pinned(lambda address: self._guard.objection(scheme, address), resolve)


class _Request(Struct, frozen=True, kw_only=True):
    method: str
    headers: Headers
    content: bytes | None
    wanted: Callable[[int], bool] | None = None
    coding: str = "gzip"

    def for_strangers(self) -> "_Request":
        """Return what another origin may get of it."""
        kept = tuple((name, value) for name, value in self.headers if name.lower() in _HARMLESS)
        return _Request(method=self.method, headers=kept, content=None, wanted=self.wanted)

    def lines(self, target: Target) -> list[tuple[str, str]]:
        """Return every header as it is sent."""
        given = {name.lower() for name, _ in self.headers}
        lines = [("Host", target.authority), ("Accept-Encoding", self.coding)]
        lines += [(name, value) for name, value in _DEFAULTS if name.lower() not in given]
        lines += self.headers
        if self.content is not None or self.method in _WITH_BODY:
            lines.append(("Content-Length", str(len(self.content or b""))))
        return lines


_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_DEFAULTS = (("Accept", "*/*"), ("User-Agent", "switchboard"))


_FOREIGN = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    OSError,  # TLS errors while reading are not translated by httpcore2
    Garbled,
)


async def _heard(response: httpcore2.Response, target: Target, idle_s: float) -> AsyncGenerator[bytes]:
    """Yield a body as it comes, for as long as it comes."""
    async with aclosing(response.aiter_stream()) as chunks:
        while True:
            try:
                async with asyncio.timeout(idle_s):
                    chunk = await anext(chunks, None)
            except TimeoutError as error:
                raise CallTimeout(f"{target.shown} said nothing for {idle_s:g} seconds.") from error
            except _FOREIGN as error:
                raise _ours(target, error) from error
            if chunk is None:
                return
            yield chunk


async def _skip(chunks: AsyncIterator[bytes]) -> None:
    """Read a body away that nobody wants, if that is quickly done; whether it is whole does not matter either."""
    arrived = 0
    with suppress(TimeoutError, *_FOREIGN):
        async with asyncio.timeout(_UNWANTED_S):
            async for chunk in chunks:
                arrived += len(chunk)
                if arrived > _UNWANTED_SIZE:
                    return


def _checked_method(method: str) -> str:
    if not _TOKEN.fullmatch(method) or method.upper() == "CONNECT":
        raise InvalidRequest(
            "That is not a method of a request. The descriptor is wrong: tell the developer of the app."
        )
    return method.upper()


def _checked(headers: Iterable[tuple[str, str]]) -> Headers:
    """Return the headers that a caller may set; a value is never shown."""
    checked = tuple((name, value.strip(" \t")) for name, value in headers)
    for name, value in checked:
        if not _TOKEN.fullmatch(name):
            raise InvalidRequest(
                "A header has a name that cannot be sent. The descriptor is wrong: tell the developer of the app."
            )
        if not _VALUE.fullmatch(value):
            raise InvalidRequest(
                f"The value of the header {name} cannot be sent: it is not plain ASCII. Correct it, and call again.",
                header=name,
            )
    return tuple((name, value) for name, value in checked if name.lower() not in _OURS)


def _as_text(location: str) -> str:
    """Read a Location as what it most often is: UTF-8 that HTTP hands over as Latin-1."""
    try:
        return location.encode("latin-1").decode()
    except UnicodeDecodeError:
        return location


def _refused(first: Target, target: Target, why: str) -> RefusedAddress:
    return RefusedAddress(first.shown, why if target == first else f"it redirects to {target.shown}, and {why}")


def _ours(target: Target, error: Exception) -> SwitchboardError:
    """Say it in our words; the texts of protocol errors repeat what was sent, so they are not shown."""
    if isinstance(error, httpcore2.TimeoutException):
        return CallTimeout(f"{target.shown} gave no answer in time. {_AGAIN}")
    if isinstance(error, Garbled):
        return ServiceUnavailable(f"The answer of {target.shown} cannot be unpacked. {_AGAIN}")
    unsent = isinstance(error, httpcore2.ConnectError)
    kind = Unreached if unsent else ServiceUnavailable
    return kind(f"{target.shown} does not answer: {_reason(error)}. {_AGAIN}")


def _reason(error: Exception) -> str:
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate was not accepted, {cause.verify_message.rstrip('.')}"
        if isinstance(cause, ssl.SSLError):
            return (
                f"no encrypted connection could be made, {(cause.reason or 'it broke off').replace('_', ' ').lower()}"
            )
    for cause in causes:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
    return (
        "what it sends is cut off or not HTTP"
        if isinstance(error, httpcore2.ProtocolError)
        else "the connection broke off"
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Walk down to the first cause; httpcore2 cuts `__cause__` on the way, not `__context__`."""
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__
