"""The AAI registry: the directory of published apps in both shapes of the seeds, their descriptors, publishing.

Descriptors are served to the byte as they were published. Addresses are those under which this server was asked, or
what the operator says they are.
"""

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from switchboard.actions.app_ports import Edition, Record
from switchboard.actions.publish import Publish
from switchboard.actions.shelf import Published, Shelf
from switchboard.catalog.errors import InvalidRequest, NotFound
from switchboard.catalog.model import Caller
from switchboard.catalog.text import nearest
from switchboard.rest.answers import json_response, time_text
from switchboard.rest.bodies import read_body

APPS = "/api/v1/apps"
SEED_APPS = "/v1/apps"
READING = (APPS, SEED_APPS)
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_MOST_WARNINGS = 50
_MOST_KEPT = 16
_NOT_MODIFIED = 304
_CREATED = 201


def is_reading(path: str) -> bool:
    """Tell whether a path is one of the registry."""
    return path in READING or path.startswith(f"{APPS}/")


class RegistryRoutes:
    """The endpoints of the registry."""

    def __init__(self, shelf: Shelf, publish: Publish, public_url: str = "") -> None:
        self._shelf = shelf
        self._publish = publish
        self._public_url = public_url.rstrip("/")
        self._listed: dict[tuple[str, str], tuple[int, bytes]] = {}

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route(SEED_APPS, self.seed_list, methods=["GET"]),
            Route(APPS, self.list, methods=["GET"]),
            Route(f"{APPS}/{{app_id}}/aai.json", self.descriptor, methods=["GET"]),
            Route(f"{APPS}/{{app_id}}", self.get, methods=["GET"]),
            Route(f"{APPS}/{{app_id}}", self.put, methods=["PUT"]),
            Route(f"{APPS}/{{app_id}}", self.delete, methods=["DELETE"]),
        ]

    async def seed_list(self, request: Request) -> Response:
        """List the apps as seed 000 has it."""
        return await self._list(request, "id")

    async def list(self, request: Request) -> Response:
        """List the apps as seeds 001 and 003 have it."""
        return await self._list(request, "appId")

    async def get(self, request: Request) -> Response:
        """Show one app and every version of it, also when it is withdrawn."""
        await self._shelf.look()
        app_id = _id(request)
        app, record = self._shelf.apps().get(app_id), self._shelf.withdrawn().get(app_id)
        base = self._base(request)
        # Who has keys here is nobody's business who has none.
        named = _caller(request).name != "anonymous"
        if app is not None:
            body = {**_entry("appId", app, base), "status": "published", **_past(app.record, named=named)}
        elif record is not None:
            body = {"appId": app_id, "version": record.newest.version, "status": "withdrawn"}
            body |= {"withdrawn_at": time_text(record.withdrawn_at or 0.0), **_past(record, named=named)}
        else:
            raise self._unknown(app_id)
        return self._answer(request, msgspec.json.encode(body))

    async def descriptor(self, request: Request) -> Response:
        """Return a descriptor to the byte as it was published, by default the newest."""
        await self._shelf.look()
        app_id, version = _id(request), request.query_params.get("version")
        app = self._shelf.apps().get(app_id)
        if version is not None:
            return self._answer(request, await self._publish.edition(app_id, version))
        if app is None:
            raise self._unknown(app_id)
        return self._answer(request, app.raw)

    async def put(self, request: Request) -> Response:
        """Publish a descriptor: 201 where the app was not published before, 200 otherwise."""
        base = self._base(request)
        raw = await read_body(request)
        done = await self._publish.publish(_id(request), raw, _caller(request))
        answer: dict[str, Any] = {**_entry("appId", done.app, base), "status": done.done}
        if done.warnings:
            answer["warnings"] = list(done.warnings[:_MOST_WARNINGS])
        if done.done != "published":
            return json_response(answer)
        return json_response(answer, _CREATED, {"Location": answer["descriptor_url"]})

    async def delete(self, request: Request) -> Response:
        """Withdraw an app."""
        record = await self._publish.withdraw(_id(request), _caller(request))
        at = time_text(record.withdrawn_at or 0.0)
        version = record.newest.version
        return json_response({"appId": _id(request), "version": version, "status": "withdrawn", "withdrawn_at": at})

    async def _list(self, request: Request, key: str) -> Response:
        await self._shelf.look()
        return self._answer(request, self._directory(key, self._base(request)))

    def _directory(self, key: str, base: str) -> bytes:
        """Return the directory, encoded once for each address that it is asked for under."""
        version, body = self._listed.get((key, base), (-1, b""))
        if version == self._shelf.version:
            return body
        body = msgspec.json.encode({"apps": [_entry(key, app, base) for app in self._shelf.apps().values()]})
        if len(self._listed) >= _MOST_KEPT:
            self._listed.clear()
        self._listed[key, base] = self._shelf.version, body
        return body

    def _answer(self, request: Request, body: bytes) -> Response:
        """Answer with a document, or with 304 to somebody who has it; every instance gives it the same tag."""
        tag = f'"{blake2b(body, digest_size=12).hexdigest()}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if self._shelf.stale_since is not None:
            since = time_text(self._shelf.stale_since)
            headers["Warning"] = f'110 switchboard "Response is Stale: no store since {since}"'
        known = request.headers.get("if-none-match", "")
        if known.strip() == "*" or tag in known:
            return Response(status_code=_NOT_MODIFIED, headers=headers)
        return Response(body, headers=headers, media_type="application/json")

    def _base(self, request: Request) -> str:
        """Return what the addresses of this server begin with."""
        if self._public_url:
            return self._public_url
        host = request.headers.get("host", "")
        if not _HOST.fullmatch(host):
            raise InvalidRequest("The Host header is missing, or is none.")
        return f"{request.url.scheme}://{host}"

    def _unknown(self, app_id: str) -> NotFound:
        near = nearest(app_id, self._shelf.apps())
        return NotFound(f"There is no published app {app_id!r}.", app=app_id, nearest=near)


def _entry(key: str, app: Published, base: str) -> dict[str, Any]:
    return {
        key: app.app.id,
        "name": app.app.names.primary,
        "description": app.app.description,
        "version": app.edition.version,
        "descriptor_url": _url(base, app.app.id),
    }


def _past(record: Record, *, named: bool) -> Mapping[str, Any]:
    """Return when each version was published, the newest first."""

    def told(edition: Edition) -> dict[str, Any]:
        fields: dict[str, Any] = {"version": edition.version, "published_at": time_text(edition.at)}
        return {**fields, "published_by": edition.by} if named else fields

    owner = {"owner": record.owner} if named else {}
    return {**owner, "history": [told(edition) for edition in reversed(record.editions)]}


def _url(base: str, app_id: str) -> str:
    return f"{base}{APPS}/{app_id}/aai.json"


def _caller(request: Request) -> Caller:
    return Caller(getattr(request.state, "caller", "anonymous"))


def _id(request: Request) -> str:
    return str(request.path_params["app_id"])
