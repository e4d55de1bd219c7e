"""Who is to answer over the network: the control plane and the registries that the user has named."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from switchboard.catalog.errors import ServiceUnavailable, SwitchboardError
from switchboard.doctor.checks import Finding
from switchboard.named import REGISTRIES, REGISTRY_KEYS, Named, named_registries

if TYPE_CHECKING:
    from switchboard.net.fetch import Fetch

_ASK_S = 4.0
_GOOD = 200
_KEY_REFUSED = (401, 403)
_SHAPES = ("/api/v1/apps", "/v1/apps")
SERVER, KEY = "AGENTFIELD_SERVER", "AGENTFIELD_API_KEY"


def control_plane(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Ask every control plane for nothing, with its key."""
    urls, keys = environment.get(SERVER, "").split(), environment.get(KEY, "").split()
    if not urls:
        yield Finding("control-plane", "ok", f"none is named ({SERVER})")
        return
    if len(keys) > 1 and len(keys) != len(urls):
        remedy = f"Set {KEY} to one key for all of them, or to one for each in their order, - for none."
        yield Finding("control-plane", "problem", f"{len(keys)} keys for {len(urls)} control planes", remedy)
        return
    if len(keys) <= 1:
        keys = (keys or ["-"]) * len(urls)
    for url, key in zip(urls, keys, strict=True):
        yield from _control_plane(url, "" if key == "-" else key)


def _control_plane(url: str, key: str) -> Iterator[Finding]:
    from switchboard.net.client import request  # noqa: PLC0415 - 120 ms where one is named

    shown, path = _shown(url), "/api/v1/discovery/capabilities"
    try:
        status, _ = request(
            "GET",
            url.rstrip("/") + path,
            api_key=key or None,
            parameters=[("limit", "0")],
            timeout_s=_ASK_S,
        )
    except ServiceUnavailable:
        remedy = f"Start it with switchboard serve, or correct {SERVER}."
        yield Finding("control-plane", "problem", f"{shown} does not answer", remedy)
        return
    if status == _GOOD:
        yield Finding("control-plane", "ok", f"{shown} answers" + (", and takes the key" if key else ""))
    elif status in _KEY_REFUSED:
        given = "does not take the key" if key else "wants a key"
        yield Finding("control-plane", "problem", f"{shown} {given}", f"Set {KEY} to a key of that control plane.")
    else:
        remedy = f"Look whether {SERVER} names a control plane; its own log says more."
        yield Finding("control-plane", "problem", f"{shown} answers {status}", remedy)


def registries(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Ask every registry for its list."""
    try:
        named = named_registries((), environment)
    except ValueError as error:
        remedy = f"Correct {REGISTRIES}, and {REGISTRY_KEYS} beside it."
        yield Finding("registries", "problem", str(error), remedy)
        return
    if not named:
        yield Finding("registries", "ok", f"none is named ({REGISTRIES})")
        return
    yield from asyncio.run(_registries(named))


async def _registries(named: Sequence[Named]) -> list[Finding]:
    from switchboard.net.fetch import Fetch  # noqa: PLC0415 - as above
    from switchboard.net.guard import is_reachable  # noqa: PLC0415

    fetch = Fetch(loopback=True, permitted=is_reachable)
    try:
        return list(await asyncio.gather(*(_registry(fetch, one.url, one.key) for one in named)))
    finally:
        await fetch.close()


async def _registry(fetch: "Fetch", url: str, key: str | None) -> Finding:
    from switchboard.net.fetch import Limits  # noqa: PLC0415 - as above

    shown, remedy = _shown(url), f"Correct {REGISTRIES}, or ask who runs the registry."
    headers = [("Authorization", f"Bearer {key}")] if key else []
    seen: list[int] = []
    for shape in _SHAPES:
        try:
            answer = await fetch.send(
                "GET",
                url.rstrip("/") + shape,
                headers=headers,
                limits=Limits(seconds=_ASK_S / 2),
                body_wanted=lambda _: False,
            )
        except SwitchboardError as error:
            return Finding("registries", "problem", f"{shown} cannot be asked ({error.code})", remedy)
        if answer.status == _GOOD:
            return Finding("registries", "ok", f"{shown} answers")
        if answer.status in _KEY_REFUSED:
            given = "does not take the key" if key else "wants a key"
            return Finding(
                "registries", "problem", f"{shown} {given}", f"Set {REGISTRY_KEYS} to a key of that registry."
            )
        seen.append(answer.status)
    return Finding("registries", "problem", f"{shown} has no list of apps (it answers {seen[0]})", remedy)


def _shown(url: str) -> str:
    """Return an address without what may be a password in it."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "an address that is none"
    return f"{parts.scheme}://{parts.hostname}{port}" if parts.hostname else "an address without a host"
