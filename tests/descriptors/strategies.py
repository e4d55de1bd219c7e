"""Descriptors for property tests: correct ones in every shape the contract allows, and ones with a single change."""

import json
from typing import Any

from hypothesis import strategies as st

Record = st.SearchStrategy[dict[str, Any]]


def record(required: dict[str, Any], optional: dict[str, Any] | None = None) -> Record:
    """Objects with these keys, and some of those."""
    return st.fixed_dictionaries(required, optional=optional or {})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=6,
)
text = st.text(min_size=1, max_size=8, alphabet=st.characters(categories=["L", "N", "P"], exclude_characters="|"))
strings = st.dictionaries(text, text, max_size=2)
headers = st.dictionaries(st.sampled_from(["Accept", "X-Own"]), text, max_size=2)
milliseconds = st.integers(1, 86_400_000)
program = {"command": text}
program_extras = {"args": st.lists(text, max_size=2), "env": strings, "timeout": milliseconds}
urls = st.sampled_from(["https://example.com", "http://127.0.0.1:8080/a?b=c", "https://é.example/x#y"])
executions: Record = st.one_of(
    record({"type": st.just("http"), "baseUrl": urls}, {"defaultHeaders": headers, "timeout": milliseconds}),
    record({"type": st.just("stdio"), **program}, {**program_extras, "keepAlive": st.booleans()}),
    record(
        {
            "type": st.just("acp"),
            "start": record(program, {"args": st.lists(text), "env": strings}),
        }
    ),
    record(
        {"type": st.just("apple-events")},
        {"bundleId": text, "eventClass": st.text(min_size=4, max_size=4), "timeout": milliseconds},
    ),
    record(
        {"type": st.just("dbus")},
        {
            "service": text,
            "objectPath": text.map(lambda path: f"/{path}"),
            "interface": text,
            "bus": st.sampled_from(["session", "system"]),
        },
    ),
    record({"type": st.just("com"), "progId": text}),
    record({"type": st.just("mcp"), "transport": st.just("stdio"), **program}, {**program_extras, "cwd": text}),
    record(
        {"type": st.just("mcp"), "transport": st.sampled_from(["streamable-http", "sse"]), "url": urls},
        {"headers": headers},
    ),
    record({"type": st.just("skill"), "path": text}),
    record({"type": st.just("cli"), **program}, {**program_extras, "cwd": text}),
    record({"type": st.just("script"), "language": st.sampled_from(["applescript", "jxa", "com"])}),
)
auths: Record = st.one_of(
    record(
        {
            "type": st.just("oauth2"),
            "oauth2": record(
                {"authorizationEndpoint": urls, "tokenEndpoint": urls},
                {
                    "scopes": st.lists(text, max_size=2),
                    "pkce": st.just({"method": "S256"}),
                    "extraParams": strings,
                    "clientId": text,
                },
            ),
        }
    ),
    record(
        {
            "type": st.just("apiKey"),
            "apiKey": record(
                {"location": st.sampled_from(["header", "query"]), "name": text},
                {"prefix": st.text(max_size=3), "obtainUrl": urls, "instructions": st.text(max_size=5)},
            ),
        }
    ),
    record(
        {
            "type": st.just("appCredential"),
            "appCredential": record(
                {"tokenEndpoint": urls},
                {"tokenType": st.just("userAccessToken"), "expiresIn": st.integers(1, 10**6)},
            ),
        }
    ),
    record(
        {
            "type": st.just("cookie"),
            "cookie": record(
                {"loginUrl": urls, "requiredCookies": st.lists(text, min_size=1, max_size=2), "domain": text}
            ),
        }
    ),
)
tools: Record = record(
    {
        "name": st.text(min_size=1, max_size=12, alphabet="abcXYZ019_-./"),
        "description": st.text(max_size=8),
        "execution": record(
            {"path": text.map(lambda path: f"/a{path}")},
            {
                "method": st.sampled_from(["GET", "post", "Do_it"]),
                "headers": headers,
                "query": strings,
                "body": json_values.filter(lambda value: value is not None),
                "output": st.sampled_from(["json", "text"]),
                "timeout": milliseconds,
            },
        ),
    },
    {
        "parameters": st.dictionaries(text, json_values, max_size=2).map(lambda rest: {**rest, "type": "object"}),
        "returns": st.dictionaries(text, json_values, max_size=2),
        "annotations": record({}, {"readOnlyHint": st.booleans()}),
    },
)
languages = st.sampled_from(["en", "zh-CN", "zh-Hant-TW", "und", "und-x-2"])
identities: Record = st.dictionaries(languages, text, min_size=1).flatmap(
    lambda names: record(
        {
            "id": st.sampled_from(["com.example.mail", "org.x-y.Z_1", "a.b.c.d"]),
            "name": st.just(names),
            "defaultLang": st.sampled_from(sorted(names)),
            "description": text,
        },
        {"aliases": st.lists(text, max_size=2), "iconUrl": urls},
    )
)
documents: Record = record(
    {
        "schemaVersion": st.sampled_from(["1.0", "1.1"]),
        "version": st.sampled_from(["1.0.0", "0.2.10-beta.1", "3.0.0+build-5"]),
        "platform": st.sampled_from(["macos", "linux", "windows", "web"]),
        "app": identities,
        "execution": executions,
        "tools": st.lists(tools, max_size=2, unique_by=lambda tool: tool["name"]),
    },
    {"auth": auths},
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the way to every value at a place the contract speaks about; inside schemas anything goes."""
    found = [path] if path else []
    if path and path[-1] in ("parameters", "returns", "body"):
        return found
    if isinstance(value, dict):
        found += [place for key, item in value.items() for place in places(item, (*path, key))]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    elif isinstance(value, list):
        found += [place for i, item in enumerate(value) for place in places(item, (*path, i))]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return found


@st.composite
def mutated_documents(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a correct descriptor with one value replaced, removed or added, somewhere."""
    document: dict[str, Any] = json.loads(json.dumps(draw(documents)))
    way = draw(st.sampled_from(places(document)))
    holder: Any = document
    for step in way[:-1]:
        holder = holder[step]
    what = draw(st.sampled_from(["replace", "remove", "add"]))
    if what == "replace":
        holder[way[-1]] = draw(json_values)
    elif what == "remove":
        del holder[way[-1]]
    elif isinstance(holder, dict):
        holder[draw(text)] = draw(json_values)
    else:
        holder.append(draw(json_values))
    return document
