"""Web APIs: where the arguments go, what they can never do, and what answers mean."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.executors.grounds import tool_call
from tests.net.web import Asked, Names, Reply, Site, Web, redirect, reply

from switchboard.actions.ports import Blob, Call, Outcome, Secret, Text
from switchboard.catalog.bindings import Http, Json, Pairs, Route
from switchboard.catalog.errors import (
    AuthDenied,
    AuthExpired,
    AuthRequired,
    CallTimeout,
    InvalidParams,
    InvalidRequest,
    NotFound,
    NotSupported,
    RateLimited,
    ServiceUnavailable,
    SwitchboardError,
)
from switchboard.executors.http import HttpExecutor
from switchboard.executors.templates import Filled, fill
from switchboard.net.fetch import Fetch

API = "https://api.test/v1"
TOKEN = Secret(headers=(("Authorization", "Bearer sesame-open"),), query=(("key", "p/ss wort"),))


def filled(route: Route, arguments: dict[str, Any], *, base: str = API, headers: Pairs = (), **schema: Any) -> Filled:
    """Put arguments into a request, and send nothing."""
    execution = Http(base_url=base, default_headers=headers)
    return fill(execution, tool_call(execution, "tool", arguments, route=route, schema=schema))


def body(document: Any) -> Json:
    return Json(json.dumps(document).encode())


async def _ask(answer: Reply, route: Route, arguments: dict[str, Any], secret: Secret | None) -> tuple[Outcome, Asked]:
    fetch = Fetch(loopback=True)
    async with Site({"/tool": answer, "/elsewhere": reply(200, b"there")}) as site:
        try:
            call = tool_call(Http(base_url=site.url("", "127.0.0.1")), "tool", arguments, route=route)
            outcome = await HttpExecutor(lambda: fetch).run(call, secret)
        finally:
            await fetch.close()
        return outcome, site.asked[-1]


def ask(
    answer: Reply, route: Route | None = None, arguments: dict[str, Any] | None = None, secret: Secret | None = None
) -> tuple[Outcome, Asked]:
    """Call a tool of a real server that answers always the same."""
    return asyncio.run(_ask(answer, route or Route(path="/tool", method="GET"), arguments or {}, secret))


@pytest.mark.parametrize(
    ("path", "value", "url"),
    [
        ("/items/{id}", "a b/c?d#e", f"{API}/items/a%20b%2Fc%3Fd%23e"),
        ("/items/${id}", "../../admin?x=1", f"{API}/items/..%2F..%2Fadmin%3Fx%3D1"),
        ("/items/{id}", "%2e%2e", f"{API}/items/%252e%252e"),
        ("/items/{id}", "世界", f"{API}/items/%E4%B8%96%E7%95%8C"),
        ("/items/{id}", 7, f"{API}/items/7"),
        ("/items/{id}", True, f"{API}/items/true"),
        ("/items/{id}.json", "..", f"{API}/items/...json"),
        ("/items/{id}", "@evil.test", f"{API}/items/%40evil.test"),
        ("/items/{id}", "a\r\nHost: evil.test", f"{API}/items/a%0D%0AHost%3A%20evil.test"),
        ("/find?q={id}&n=1", "a&b=c", f"{API}/find?q=a%26b%3Dc&n=1"),
        ("/find?q={id}", "..", f"{API}/find?q=.."),
    ],
)
def test_a_value_in_the_path_stays_one_value(path: str, value: Any, url: str) -> None:
    """Percent-encoded whole: it cannot become another path, query, host or header."""
    assert filled(Route(path=path, method="GET"), {"id": value}).url() == url


@pytest.mark.parametrize("value", ["", ".", ".."])
@pytest.mark.parametrize("path", ["/items/{id}", "/items/${id}/parts", "/items/{id}?x=1"])
def test_a_value_that_would_be_a_step_is_refused(path: str, value: str) -> None:
    """`DELETE /items/..` is another address, and so is `DELETE /items/`; no way of writing it would help."""
    with pytest.raises(InvalidParams) as caught:
        filled(Route(path=path, method="DELETE"), {"id": value})

    assert caught.value.details["violations"] == ["$.id: would change the address"]


def test_two_values_that_make_a_step_together_are_refused() -> None:
    """What counts is the whole segment."""
    with pytest.raises(InvalidParams):
        filled(Route(path="/items/{a}{b}", method="GET"), {"a": ".", "b": "."})


def test_a_value_without_which_there_is_no_address_is_asked_for() -> None:
    """Unless the schema has a default."""
    route = Route(path="/items/{id}", method="GET")
    with pytest.raises(InvalidParams, match="'id'"):
        filled(route, {})

    assert filled(route, {}, properties={"id": {"default": 3}}).url() == f"{API}/items/3"


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("https://api.test", "/x", "https://api.test/x"),
        ("https://api.test/", "/x", "https://api.test/x"),
        ("https://api.test/v1/", "/x/", "https://api.test/v1/x/"),
        ("https://api.test/v1?lang=de", "/x?a=1", "https://api.test/v1/x?lang=de&a=1"),
        ("https://api.test/v1", None, "https://api.test/v1"),
        ("https://api.test/v1", "/x#part", "https://api.test/v1/x"),
    ],
)
def test_base_and_path_are_joined_with_one_slash(base: str, path: str | None, url: str) -> None:
    """What either has in its query is kept."""
    assert filled(Route(path=path, method="GET"), {}, base=base).url() == url


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_what_has_no_place_goes_into_the_query(method: str) -> None:
    """Lists once for each item, objects as JSON, nothing for null; there is no body."""
    arguments = {"id": 1, "q": "a b&c", "tags": ["x", "y"], "deep": {"a": [1]}, "none": None, "yes": True}
    request = filled(Route(path="/items/{id}", method=method, query=(("fixed", "1"),)), arguments)

    query = "fixed=1&q=a+b%26c&tags=x&tags=y&deep=%7B%22a%22%3A%5B1%5D%7D&yes=true"
    assert request.url() == f"{API}/items/1?{query}"
    assert (request.body, request.content_type) == (None, None)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", None])
def test_what_has_no_place_goes_into_the_body(method: str | None) -> None:
    """As JSON, with its types; what stands in the path is not said twice."""
    request = filled(Route(path="/items/{id}", method=method), {"id": 1, "n": None, "deep": {"a": [1.5]}})

    assert json.loads(request.body or b"") == {"n": None, "deep": {"a": [1.5]}}
    assert request.content_type == "application/json"
    assert request.url() == f"{API}/items/1"


def test_a_body_template_is_filled() -> None:
    """A place that is all of a value keeps its type, and goes with an argument that is not given."""
    template = {
        "query": "${text}",
        "page": "${page}",
        "filter": {"sort": "${sort}", "all": ["${missing}", "${text}"], "literal": "{text}"},
        "said": "${text} on page ${page}",
        "fixed": 3,
    }
    request = filled(
        Route(path="/find", method="POST", body=body(template)),
        {"text": 'a"b${page}', "page": 2, "sort": None, "unused": 1},
    )

    assert json.loads(request.body or b"") == {
        "query": 'a"b${page}',
        "page": 2,
        "filter": {"sort": None, "all": ['a"b${page}'], "literal": "{text}"},
        "said": 'a"b${page} on page 2',
        "fixed": 3,
    }


def test_queries_and_headers_are_filled() -> None:
    """An optional argument that is not given takes its parameter with it."""
    route = Route(
        path="/find",
        method="GET",
        query=(("q", "${text}"), ("page", "${page}")),
        headers=(("X-Lang", "${lang}"), ("X-Team", "${team}"), ("X-Fixed", "{x}")),
    )
    request = filled(route, {"text": "a&b", "lang": "de"})

    assert request.url() == f"{API}/find?q=a%26b"
    assert request.headers == (("X-Lang", "de"), ("X-Fixed", "{x}"))


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b", "世界", "a\x7fb"])
def test_a_value_that_would_be_another_header_is_refused(value: str) -> None:
    """Before anything is sent, and without showing it."""
    with pytest.raises(InvalidRequest, match="X-Lang") as caught:
        filled(Route(path="/x", method="GET", headers=(("X-Lang", "${lang}"),)), {"lang": value})

    assert value not in caught.value.message


def test_a_form_is_sent_as_a_form() -> None:
    """Where the descriptor says that the app wants one."""
    headers = (("content-type", "application/x-www-form-urlencoded"),)
    request = filled(Route(path="/x", method="POST"), {"a": "1 &", "b": [1, 2]}, headers=headers)

    assert request.body == b"a=1+%26&b=1&b=2"


def test_headers_of_a_tool_win_over_those_of_its_app(tmp_path: Path) -> None:
    """And what opens the app wins over both, whatever the letters; the body is JSON unless somebody says otherwise."""
    del tmp_path

    async def story() -> None:
        fetch = Fetch(loopback=True)
        async with Site({"/tool": reply(200)}) as site:
            execution = Http(
                base_url=site.url("", "127.0.0.1"),
                default_headers=(("X-A", "app"), ("X-B", "app"), ("authorization", "none"), ("Host", "evil.test")),
            )
            route = Route(path="/tool", method="POST", headers=(("x-b", "tool"),))
            await HttpExecutor(lambda: fetch).run(tool_call(execution, "tool", {"a": 1}, route=route), TOKEN)
            await fetch.close()
            asked = site.asked[0]

        assert (asked.headers["x-a"], asked.headers["x-b"]) == ("app", "tool")
        assert asked.headers["authorization"] == "Bearer sesame-open"
        assert asked.headers["content-type"] == "application/json"
        assert asked.headers["host"] == f"127.0.0.1:{site.port}"
        assert (asked.path, asked.body) == ("/tool?key=p%2Fss+wort", b'{"a":1}')

    asyncio.run(story())


@pytest.mark.parametrize(
    ("kind", "content", "outcome"),
    [
        ("application/json", b'{"a": [1]}', Outcome(parts=(Text('{"a":[1]}'),), data=Json(b'{"a":[1]}'))),
        ("application/problem+json; charset=utf-8", b"[1]", Outcome(parts=(Text("[1]"),), data=Json(b"[1]"))),
        ("application/json", b'"said"', Outcome(parts=(Text("said"),))),
        ("application/json", b"\xef\xbb\xbf{}", Outcome(parts=(Text("{}"),), data=Json(b"{}"))),
        ("application/json", b"{broken", Outcome(parts=(Text("{broken"),))),
        ("application/json", b"[" * 9999, Outcome(parts=(Text("[" * 9999),))),
        ("", b"[1]", Outcome(parts=(Text("[1]"),), data=Json(b"[1]"))),
        ("text/plain", "世界".encode(), Outcome(parts=(Text("世界"),))),
        ("text/plain; charset=iso-8859-1", b"Z\xfcrich", Outcome(parts=(Text("Zürich"),))),
        ("text/plain; charset=nonsense", b"x", Outcome(parts=(Text("x"),))),
        ("text/plain; charset=hex", b"x", Outcome(parts=(Text("x"),))),
        ("text/plain; charset=Shift_JIS", "世界".encode("shift_jis"), Outcome(parts=(Text("世界"),))),
        ("text/plain; charset=windows-1252", b"\x80", Outcome(parts=(Text("€"),))),
        ("text/plain; charset=utf-16le", "a世".encode("utf-16le"), Outcome(parts=(Text("a世"),))),
        ("text/plain; charset=iso-8859-12", "ü".encode(), Outcome(parts=(Text("ü"),))),
        ("text/plain; charset=punycode", b"a-fsa", Outcome(parts=(Text("a-fsa"),))),
        ("text/plain; charset=utf-7", b"+AGE-", Outcome(parts=(Text("+AGE-"),))),
        ("text/plain; charset=unicode_escape", rb"\x41", Outcome(parts=(Text(r"\x41"),))),
        ("text/html", b"<p>", Outcome(parts=(Text("<p>"),))),
        ("image/png", b"\x89PNG", Outcome(parts=(Blob("image/png", b"\x89PNG"),))),
        ("application/octet-stream", b"", Outcome(parts=(Text(""),))),
    ],
)
def test_an_answer_is_what_it_says_it_is(kind: str, content: bytes, outcome: Outcome) -> None:
    """JSON is data and text, text is text, everything else is a file."""
    headers = [f"Content-Type: {kind}"] if kind else []

    assert ask(reply(200, content, *headers))[0] == outcome


@pytest.mark.parametrize(
    ("output", "kind", "outcome"),
    [
        ("text", "application/json", Outcome(parts=(Text('{"a": 1}'),))),
        ("json", "text/plain", Outcome(parts=(Text('{"a":1}'),), data=Json(b'{"a":1}'))),
        ("json", "application/octet-stream", Outcome(parts=(Text('{"a":1}'),), data=Json(b'{"a":1}'))),
    ],
)
def test_the_descriptor_may_know_better_what_an_answer_is(output: Any, kind: str, outcome: Outcome) -> None:
    """Its `output` wins over the header."""
    route = Route(path="/tool", method="GET", output=output)

    assert ask(reply(200, b'{"a": 1}', f"Content-Type: {kind}"), route)[0] == outcome


@pytest.mark.parametrize(
    ("status", "secret", "error"),
    [
        (400, None, InvalidParams),
        (401, None, AuthRequired),
        (401, TOKEN, AuthExpired),
        (403, TOKEN, AuthDenied),
        (404, None, NotFound),
        (405, None, InvalidRequest),
        (408, None, CallTimeout),
        (409, None, InvalidRequest),
        (422, None, InvalidParams),
        (429, None, RateLimited),
        (500, None, ServiceUnavailable),
        (501, None, NotSupported),
        (503, None, ServiceUnavailable),
        (504, None, CallTimeout),
        (304, None, ServiceUnavailable),
    ],
)
def test_a_status_means_one_error(status: int, secret: Secret | None, error: type[SwitchboardError]) -> None:
    """Protocol, error codes; the app's own words come along, safe to show."""
    with pytest.raises(SwitchboardError) as caught:
        ask(reply(status, b"" if status == 304 else b"no\x1b[31m way\n"), secret=secret)

    assert type(caught.value) is error
    assert status == 304 or "no[31m way" in caught.value.message
    assert error is not InvalidParams or caught.value.details["schema"] == {"type": "object"}


@pytest.mark.parametrize(
    ("told", "known"), [("12", 12), ("Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:00 GMT")]
)
def test_too_many_calls_say_when_to_try_again(told: str, known: object) -> None:
    """As the app says it."""
    with pytest.raises(RateLimited, match=told) as caught:
        ask(reply(429, b"", f"Retry-After: {told}"))

    assert caught.value.details["retry_after"] == known


@pytest.mark.parametrize("status", [200, 400, 401, 500])
def test_what_opens_an_app_is_never_shown(status: int) -> None:
    """Even where the app itself repeats it."""

    async def echo(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        content = json.dumps([asked.headers["authorization"], asked.path, "sesame-open", "p/ss wort"]).encode()
        await reply(status, content, "Content-Type: application/json")(asked, reader, writer)

    try:
        shown = repr(ask(echo, secret=TOKEN)[0])
    except SwitchboardError as error:
        shown = f"{error} {error.message} {error.details} {error!r}"

    assert "[secret]" in shown
    assert not any(secret in shown for secret in ("sesame-open", "p/ss wort", "p%2Fss+wort", "p%2Fss%20wort"))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", json.dumps({"you sent": "schlüssel/1"}).encode()),
        ("application/json", rb'{"you sent": "\u0073chl\u00fcssel\/1"}'),
        ("application/json", rb'"\u0073chl\u00fcssel/1"'),
        ("image/png", "a picture of schlüssel/1".encode()),
        ("text/plain", json.dumps("schlüssel/1").encode()),
    ],
)
def test_what_opens_an_app_is_found_in_every_spelling(kind: str, body: bytes) -> None:
    """Letters in code, and what is neither text nor JSON."""
    outcome, _ = ask(reply(200, body, f"Content-Type: {kind}"), secret=Secret(query=(("key", "schlüssel/1"),)))

    shown = json.loads(json.dumps(repr(outcome)))
    assert "[secret]" in shown
    assert "chlüssel/1" not in shown
    assert "chl\\xc3\\xbcssel" not in shown
    assert "fcssel" not in shown


def test_a_redirect_is_followed_only_without_a_secret() -> None:
    """What opens an app is for this address only; and nothing but a question is asked again."""
    outcome, asked = ask(redirect("/elsewhere"))
    assert (outcome.parts, asked.path) == ((Text("there"),), "/elsewhere")

    with pytest.raises(ServiceUnavailable):
        ask(redirect("/elsewhere"), secret=TOKEN)
    with pytest.raises(ServiceUnavailable):
        ask(redirect("/elsewhere"), Route(path="/tool", method="POST"))


def test_a_private_address_is_not_called(tmp_path: Path) -> None:
    """All requests go through the guarded client."""

    async def story() -> None:
        async with Web(tmp_path).fetch(Names(), loopback=False) as fetch:
            execution = Http(base_url="https://169.254.169.254")
            call: Call = tool_call(execution, "tool", route=Route(path="/latest", method="GET"))
            with pytest.raises(InvalidRequest, match="is not called"):
                await HttpExecutor(lambda: fetch).run(call, None)

    asyncio.run(story())
