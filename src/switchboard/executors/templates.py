"""The request that a tool of a web API stands for, with the arguments in their places. Decides only, sends nothing.

In a path, `{name}` and `${name}` are places; in queries, headers and bodies only `${name}`, because braces have a
meaning of their own there. A place that is the whole of a value keeps the argument's type, and goes away with an
argument that is not given. What has no place goes into the query, or into the JSON body of methods that have one.
"""

import re
from collections.abc import Mapping
from typing import Any, cast, final
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import msgspec
from msgspec import Struct

from switchboard.actions.ports import Call
from switchboard.catalog.bindings import Http, Pairs
from switchboard.catalog.errors import InvalidParams, InvalidRequest

_PLACE_IN_PATH = re.compile(r"\$?\{([^{}]+)\}")
_PLACE = re.compile(r"\$\{([^{}]+)\}")
_IN_QUERY = frozenset({"GET", "HEAD", "DELETE"})
_NO_BODY = frozenset({"GET", "HEAD"})
_STEPS = frozenset({"", ".", ".."})
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_FORM = "application/x-www-form-urlencoded"
_MISSING = object()


class Filled(Struct, frozen=True, kw_only=True):
    """A request that is ready to be sent, but for what opens the app."""

    method: str
    address: str
    query: Pairs
    headers: Pairs
    body: bytes | None
    content_type: str | None

    def url(self, more: Pairs = ()) -> str:
        """Return the whole address, with more in its query."""
        query = urlencode([*self.query, *more])
        return self.address + (("&" if "?" in self.address else "?") + query if query else "")


def fill(execution: Http, call: Call) -> Filled:
    """Put the arguments of a call into the request of its tool.

    Raises:
        InvalidParams: an argument is missing that has a place, or would change the path.
        InvalidRequest: an argument cannot be sent in a header.
    """
    route = call.capability.binding.route
    method = (route.method or "POST").upper()
    places = _Places(call)
    address = _address(execution.base_url, _path(route.path or "", places))
    query = _pairs({name: places.value(text) for name, text in route.query})
    headers = tuple((name, _header(name, value)) for name, value in _pairs(_values(route.headers, places)))
    template: object = _MISSING if route.body is None else places.value(msgspec.json.decode(route.body))
    rest = places.rest()
    if template is _MISSING and method not in _IN_QUERY:
        template = rest
    elif template is _MISSING:
        query = (*query, *_pairs(rest))
    content_type = None if template is _MISSING or method in _NO_BODY else _content_type(execution, route.headers)
    return Filled(
        method=method,
        address=address,
        query=query,
        headers=headers,
        body=None if content_type is None else _body(template, content_type),
        content_type=content_type,
    )


@final
class _Places:
    """The arguments of one call, and which of them have found a place."""

    def __init__(self, call: Call) -> None:
        schema = cast("object", msgspec.json.decode(call.capability.input_schema or b"{}"))
        properties = cast("dict[str, Any]", schema).get("properties") if isinstance(schema, dict) else None
        self._properties = cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
        self._arguments = call.arguments
        self._used: set[str] = set()

    def argument(self, name: str) -> object:
        """Return an argument that has a place, or the default of the schema, or nothing."""
        self._used.add(name)
        described = self._properties.get(name)
        default = (
            cast("dict[str, Any]", described).get("default", _MISSING) if isinstance(described, dict) else _MISSING
        )
        return self._arguments.get(name, default)

    def text(self, name: str) -> str:
        """Return an argument as text.

        Raises:
            InvalidParams: it is missing.
        """
        value = self.argument(name)
        if value is _MISSING or value is None:
            message = f"This tool needs the argument {name!r}. Give it, and call again."
            raise InvalidParams(message, violations=[f"$.{name}: is missing"], schema={"required": [name]})
        return _plain(value)

    def value(self, template: object) -> object:
        """Return a template with everything filled in."""
        if isinstance(template, str):
            whole = _PLACE.fullmatch(template)
            return self.argument(whole[1]) if whole else _PLACE.sub(lambda match: self.text(match[1]), template)
        if isinstance(template, list):
            items = [self.value(item) for item in cast("list[object]", template)]
            return [item for item in items if item is not _MISSING]
        if isinstance(template, dict):
            members = {key: self.value(item) for key, item in cast("dict[str, object]", template).items()}
            return {key: item for key, item in members.items() if item is not _MISSING}
        return template

    def rest(self) -> dict[str, Any]:
        """Return what has no place."""
        return {name: value for name, value in self._arguments.items() if name not in self._used}


def _path(template: str, places: _Places) -> str:
    """Fill a path segment by segment: a step up or an empty one would be another address."""
    path, mark, query = template.partition("#")[0].partition("?")
    segments = [_segment(segment, places) for segment in path.split("/")]
    filled = _PLACE_IN_PATH.sub(lambda match: quote(places.text(match[1]), safe=""), query)
    return "/".join(segments) + mark + filled


def _segment(template: str, places: _Places) -> str:
    names = _PLACE_IN_PATH.findall(template)
    filled = _PLACE_IN_PATH.sub(lambda match: quote(places.text(match[1]), safe=""), template)
    if names and filled in _STEPS:
        message = f"The argument {names[0]!r} is part of an address and must not be empty, '.' or '..'."
        raise InvalidParams(message, violations=[f"$.{names[0]}: would change the address"], schema={"required": names})
    return filled


def _address(base: str, path: str) -> str:
    parts = urlsplit(base)
    before, mark, query = path.partition("?")
    joined = f"{parts.path.rstrip('/')}/{before.lstrip('/')}" if before else parts.path
    return urlunsplit(
        (parts.scheme, parts.netloc, joined, "&".join(filter(None, (parts.query, query if mark else ""))), "")
    )


def _values(pairs: Pairs, places: _Places) -> dict[str, object]:
    return {name: places.value(text) for name, text in pairs}


def _pairs(values: Mapping[str, object]) -> Pairs:
    """Return what goes into a query: a list is said once for each item, and nothing is not said."""
    pairs: list[tuple[str, str]] = []
    for name, value in values.items():
        items = cast("list[object]", value) if isinstance(value, list) else [value]
        pairs += [(name, _plain(item)) for item in items if item is not _MISSING and item is not None]
    return tuple(pairs)


def _header(name: str, value: str) -> str:
    if not _HEADER_VALUE.fullmatch(value):
        raise InvalidRequest(
            f"The value of the header {name} cannot be sent: it is not plain ASCII. Correct it, and call again.",
            header=name,
        )
    return value


def _plain(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _content_type(execution: Http, headers: Pairs) -> str:
    told = [value for name, value in (*execution.default_headers, *headers) if name.lower() == "content-type"]
    return told[-1] if told else "application/json"


def _body(value: object, content_type: str) -> bytes:
    if content_type.partition(";")[0].strip().lower() == _FORM and isinstance(value, dict):
        return urlencode(_pairs(cast("dict[str, object]", value))).encode()
    return value.encode() if isinstance(value, str) and "json" not in content_type else msgspec.json.encode(value)
