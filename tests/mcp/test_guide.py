"""The texts a model reads: the line of an app in the list, and its guide."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import app, schema

from switchboard.catalog.bindings import ApiKey, AppCredential, Auth, Cookie, OAuth2
from switchboard.catalog.model import Annotations, App, Capability, Names
from switchboard.mcp.guide import AAI, PORTABLE, Spelling, guide, line

Part = dict[str, Any]
TREE = {"type": "object", "properties": {"label": {"type": "string"}, "next": {"$ref": "#/$defs/Tree"}}}
HOW_TO = "Settings, then Keys.\n## Not a heading"


def named(*names: str, description: str = "macOS reminders", aliases: Sequence[str] = ()) -> App:
    texts = tuple((tag, name) for tag, name in zip(("en", "zh-CN", "de", "fr", "es"), names, strict=False))
    return replace(app("com.x"), names=Names(texts, "en"), description=description, aliases=tuple(aliases))


def taking(properties: Mapping[str, object], *required: str, **more: object) -> Part:
    return {"type": "object", "properties": properties, "required": list(required), **more}


def with_tool(document: Mapping[str, object] | None, **changes: Any) -> App:
    """Return an app with one tool that takes this."""
    made = app("com.x", "run")
    tool = replace(made.capabilities[0], input_schema=None if document is None else schema(document), **changes)
    return replace(made, capabilities=(tool,))


def text_of(shown: App, spelling: Spelling = AAI, address: str | None = None, note: str | None = None) -> str:
    return guide(shown, address=address or shown.id, spelling=spelling, locale="en", note=note)


def parameters(text: str) -> list[str]:
    """Return the lines under the first `**Parameters**:`."""
    return text.partition("**Parameters**:\n")[2].partition("\n\n")[0].splitlines()


def example(text: str, spelling: Spelling = AAI) -> Part:
    """Return the call of the first example."""
    call = next(text for text in text.splitlines() if text.startswith(f"{spelling.execute}("))
    return json.loads(call.removeprefix(f"{spelling.execute}(").removesuffix(")"))


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (
            named("Reminders", "提醒事项", aliases=["todo", "待办"]),
            "【Reminders|提醒事项】macOS reminders. Aliases: todo, 待办. Call to get guide.",
        ),
        (named("Mail", description="Email client"), "【Mail】Email client. Call to get guide."),
        (named("Mail", description="Email client."), "【Mail】Email client. Call to get guide."),
        (named("Mail", description="邮件。"), "【Mail】邮件。 Call to get guide."),
        (named("Mail", description="Send it!"), "【Mail】Send it! Call to get guide."),
        (named("Mail", description=""), "【Mail】Call to get guide."),
        (named("Mail", "Mail", "Post"), "【Mail|Post】macOS reminders. Call to get guide."),
        (
            named("Mail", description="x】【Bank|Safe", aliases=["a】【b|c"]),
            "【Mail】x][Bank/Safe. Aliases: a][b/c. Call to get guide.",
        ),
        (named("A|B】C【D"), "【A/B]C[D】macOS reminders. Call to get guide."),
        (named("A\n\u202eB", description="c\x1b[1m\r\nd"), "【A B】c[1m d. Call to get guide."),
    ],
)
def test_the_line_of_an_app_is_one_sentence_after_the_other(shown: App, expected: str) -> None:
    """Names, description, aliases, and what to do; whatever the descriptor's own punctuation is."""
    assert line(shown) == expected


def test_the_line_of_an_app_stays_short() -> None:
    """Five hundred apps have to fit into a list."""
    shown = named(*("n" * 500 for _ in range(5)), description="d" * 5000, aliases=["a" * 500] * 50)

    assert len(line(shown)) < 400


def test_a_guide_has_the_headings_of_the_seeds() -> None:
    """App info, sign-in, operations, and what to call in the end."""
    shown = replace(
        with_tool(taking({"title": {"type": "string"}}, "title")), names=Names((("en", "Reminders"),), "en")
    )

    assert text_of(shown).splitlines() == [
        "# Reminders Operation Guide",
        "",
        "> com.x application",
        "",
        "## App Info",
        "- ID: com.x",
        "- Platform: web",
        "- Version: 1.0.0",
        "- Operations: 1, 1 shown",
        "",
        "## Authentication",
        "No sign-in. The user is asked for consent before the first execution.",
        "",
        "## Available Operations",
        "",
        "### run",
        "",
        "**Parameters**:",
        "- title (string, required)",
        "",
        "**Example**:",
        'aai:exec({"app":"com.x","tool":"run","args":{"title":"Example title"}})',
        "",
        "---",
        "Use aai:exec tool to execute operations. The user is asked before an operation runs.",
    ]


def test_portable_spelling_names_the_tool_that_this_client_sees() -> None:
    """In every example and at the end."""
    text = text_of(with_tool(None), PORTABLE)

    assert example(text, PORTABLE) == {"app": "com.x", "tool": "run", "args": {}}
    assert "Use aai_exec tool" in text
    assert "aai:exec" not in text


def test_a_web_app_is_called_by_its_address_and_an_old_copy_says_so() -> None:
    """The address is in the example, because anybody can claim an id."""
    text = text_of(with_tool(None), address="https://x.example", note="This is a copy\nfrom yesterday.")

    assert "- ID: com.x\n- Address: https://x.example\n" in text
    assert "\nNote: This is a copy from yesterday.\n" in text
    assert example(text)["app"] == "https://x.example"


def test_every_name_of_an_app_is_in_its_guide() -> None:
    """The title is for the user, the names are for finding it again."""
    shown = named("Reminders", "提醒事项", aliases=["todo"])

    text = guide(shown, address=shown.id, spelling=AAI, locale="zh-TW")

    assert text.startswith("# 提醒事项 Operation Guide\n")
    assert "- Names: Reminders, 提醒事项, todo\n" in text


@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        (None, ["No sign-in. The user is asked for consent before the first execution."]),
        (
            OAuth2(authorization_endpoint="https://x/a", token_endpoint="https://x/t", scopes=("read", "write")),  # noqa: S106
            ["OAuth 2.1: the first execution opens the browser, where the user signs in.", "Scopes: read, write"],
        ),
        (
            ApiKey(location="header", name="X-Key", obtain_url="https://x.example/keys", instructions=HOW_TO),
            [
                "API key: the user is asked for it once, outside this conversation. Never ask for it in the chat.",
                "Where to get one: https://x.example/keys",
                "How to: Settings, then Keys. ## Not a heading",
            ],
        ),
        (
            AppCredential(token_endpoint="https://x/t", instructions=HOW_TO),  # noqa: S106
            [
                (
                    "App id and secret: the user is asked for them once, outside this conversation. Never ask for them "
                    "in the chat."
                ),
                "How to: Settings, then Keys. ## Not a heading",
            ],
        ),
        (
            Cookie(
                login_url="https://x.example/login", required_cookies=("sid",), domain="x.example", instructions=HOW_TO
            ),
            [
                "Browser session: the user signs in at https://x.example/login",
                "How to: Settings, then Keys. ## Not a heading",
            ],
        ),
    ],
)
def test_a_guide_says_how_the_user_signs_in(auth: Auth | None, expected: list[str]) -> None:
    """What happens, what the app says about it, and that no secret belongs into the chat."""
    text = text_of(replace(app("com.x"), auth=auth))

    assert text.partition("## Authentication\n")[2].partition("\n\n")[0].splitlines() == expected


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        (Annotations(read_only=True), "> Does it.\n\nOnly reads, as the app says.\n\n**Parameters**"),
        (Annotations(destructive=True), "> Does it.\n\nMay destroy or overwrite data.\n\n**Parameters**"),
        (Annotations(read_only=False, destructive=False), "> Does it.\n\n**Parameters**"),
        (None, "> Does it.\n\n**Parameters**"),
    ],
)
def test_a_guide_says_what_an_operation_does_to_data(annotations: Annotations | None, expected: str) -> None:
    """Where the app says it."""
    assert expected in text_of(with_tool(None, annotations=annotations, description="Does it."))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(None, ["- none"], id="no schema"),
        pytest.param({"type": "object"}, ["- none"], id="no parameters"),
        pytest.param(
            taking({"to": {"type": "string", "description": "Who gets it"}, "cc": {"type": ["string", "null"]}}, "to"),
            ["- to (string, required): Who gets it.", "- cc (string or null, optional)"],
            id="types",
        ),
        pytest.param(
            taking(
                {"size": {"enum": ["S", "M"], "default": "M"}, "kind": {"const": 1}, "ask": {"enum": list(range(30))}}
            ),
            [
                '- size (string, optional): One of: "S", "M". Default: "M".',
                "- kind (integer, optional): Always: 1.",
                f"- ask (integer, optional): One of: {', '.join(map(str, range(20)))}, …",
            ],
            id="choices",
        ),
        pytest.param(
            taking(
                {
                    "n": {"type": "integer", "minimum": 0, "exclusiveMaximum": 9, "multipleOf": 3},
                    "s": {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[a-z]+$"},
                    "at": {"type": "string", "format": "date-time", "description": "When?"},
                }
            ),
            [
                "- n (integer, optional): At least: 0. Less than: 9. A multiple of: 3.",
                "- s (string, optional): Shortest: 1. Longest: 5. Pattern: `^[a-z]+$`.",
                "- at (string, optional): When? Format: `date-time`.",
            ],
            id="limits",
        ),
        pytest.param(
            taking({"tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2}, "any": {"type": "array"}}),
            ['- tags (array of string, optional): Each one of: "a", "b". Most: 2.', "- any (array, optional)"],
            id="lists",
        ),
        pytest.param(
            taking(
                {
                    "to": taking({"name": {"type": "string"}, "at": taking({"city": {"type": "string"}})}, "name"),
                    "rows": {
                        "type": "array",
                        "items": {"type": "array", "items": taking({"x": {"type": "number"}}, "x")},
                    },
                },
                "to",
            ),
            [
                "- to (object, required)",
                "  - name (string, required)",
                "  - at (object, optional)",
                "    - city (string, optional)",
                "- rows (array of array of object, optional)",
                "  - x (number, required)",
            ],
            id="nested",
        ),
        pytest.param(
            taking(
                {
                    "a": {"$ref": "#/definitions/a~1b", "description": "Here"},
                    "b": {"$ref": "#/definitions/again"},
                    "c": {"$ref": "https://elsewhere.example/schema"},
                },
                definitions={
                    "a/b": {"type": "integer", "description": "There"},
                    "again": {"$ref": "#/definitions/a~1b"},
                },
            ),
            ["- a (integer, optional): Here.", "- b (integer, optional): There.", "- c (any, optional)"],
            id="references",
        ),
        pytest.param(
            taking(
                {
                    "who": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                    "at": {"oneOf": [taking({"x": {"type": "number"}}, "x"), {"type": "null"}]},
                    "all": {"allOf": [taking({"y": {"type": "string"}}, "y"), taking({"z": {"type": "string"}})]},
                }
            ),
            [
                "- who (string or null, optional)",
                "- at (object or null, optional)",
                "  - x (number, required)",
                "- all (object, optional)",
                "  - y (string, required)",
                "  - z (string, optional)",
            ],
            id="branches",
        ),
        pytest.param(
            {
                "type": "object",
                "anyOf": [taking({"id": {}, "by": {}}, "id", "by"), taking({"name": {}, "by": {}}, "by")],
            },
            ["- id (any, optional)", "- by (any, required)", "- name (any, optional)"],
            id="either",
        ),
    ],
)
def test_a_guide_shows_what_an_operation_takes(document: Part | None, expected: list[str]) -> None:
    """Each parameter on a line: name, type, whether it is required, and what it may be."""
    assert parameters(text_of(with_tool(document))) == expected


def test_a_schema_that_leads_back_to_itself_is_cut() -> None:
    """At a depth at which nobody reads on."""
    forest = {"type": "array", "items": {"$ref": "#/$defs/Forest"}}
    either = {"anyOf": [{"$ref": "#/$defs/Either"}] * 20, "oneOf": [{"$ref": "#/$defs/Either"}] * 20}
    again = {"$ref": "#/$defs/Again"}
    defs = {"Tree": TREE, "Forest": forest, "Either": either, "Again": again}
    document = taking({name.lower(): {"$ref": f"#/$defs/{name}"} for name in defs}, **{"$defs": defs})

    shown = parameters(text_of(with_tool(document)))

    assert shown[0] == "- tree (object, optional)"
    assert len(shown) < 20


def test_a_schema_that_unfolds_to_millions_stays_short() -> None:
    """The rest is announced, and never made."""
    wide: Part = {"Leaf": {"type": "string"}}
    for level in range(4):
        inner = {"$ref": f"#/$defs/{'Leaf' if level == 0 else f'L{level - 1}'}"}
        wide[f"L{level}"] = taking({f"p{number}": inner for number in range(100)})
    text = text_of(with_tool({**wide["L3"], "$defs": wide}))

    assert len(text.encode()) < 10_000
    assert parameters(text)[-1].startswith("- … and more")


def test_an_example_that_would_be_long_is_only_begun() -> None:
    """The parameters above it say the rest."""
    document = taking(
        {"text": {"type": "string", "default": "long " * 300}, "more": {"default": ["x" * 300] * 4}}, "text"
    )

    text = text_of(with_tool(document))

    assert example(text) == {"app": "com.x", "tool": "run", "args": {}}
    assert "**Example** (with the parameters in args):" in text


@pytest.mark.parametrize("described", ["", "Does one of many things, and this says which of them it is. " * 20])
def test_an_app_with_five_hundred_tools_has_a_guide_that_can_be_read(described: str) -> None:
    """Under 30 kB, with every tool named."""
    made = app("com.x", *(f"do_thing_number_{number}" for number in range(500)))
    takes = schema(taking({f"parameter_{number}": {"type": "string"} for number in range(5)}, "parameter_0"))
    tools = tuple(replace(tool, description=described, input_schema=takes) for tool in made.capabilities)

    text = text_of(replace(made, capabilities=tools))

    assert len(text.encode()) < 30_000
    assert [f"do_thing_number_{number}" for number in range(500) if f"do_thing_number_{number}" not in text] == []
    assert " more operations\nTheir parameters are left out here. Call aai:exec with one of them: " in text


def test_tools_whose_very_names_are_too_much_are_counted() -> None:
    """A name has up to 500 characters, and a descriptor any number of tools."""
    made = app("com.x", *("名" * 490 + str(number) for number in range(300)))

    text = text_of(made)

    assert len(text.encode()) < 30_000
    assert "- … and 2" in text


def test_an_app_without_tools_says_so() -> None:
    """And nothing else."""
    assert "## Available Operations\nThis app offers no operations.\n\n---\n" in text_of(app("com.x"))


def test_names_with_characters_that_nobody_sees_show_them() -> None:
    """In the heading, the parameter and the example, which calls the tool all the same."""
    shown = with_tool(taking({"a\u202eb": {"type": "string"}}, "a\u202eb"))
    tool = replace(shown.capabilities[0], id="run\u200b\U000e0041")

    text = text_of(replace(shown, capabilities=(tool,)))

    assert '### "run\\u200b\\udb40\\udc41"\n' in text
    assert '- "a\\u202eb" (string, required)\n' in text
    assert (example(text)["tool"], list(example(text)["args"])) == ("run\u200b\U000e0041", ["a\u202eb"])
    assert text.replace("\n", "").isprintable()


SIMPLE = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "format": "date-time"},
        {"type": "string", "minLength": 3, "maxLength": 9},
        {"type": "integer", "minimum": 3, "maximum": 7},
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "boolean"},
        {"enum": ["a", 2, None]},
        {"const": {"x": 1}},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
    ]
)
KEYS = st.text(min_size=1, max_size=8)


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Part]) -> Part:
    properties = draw(st.dictionaries(KEYS, inner, max_size=4))
    return taking(properties, *draw(st.sets(st.sampled_from(sorted(properties)))) if properties else ())


PARTS = st.recursive(
    SIMPLE, lambda inner: objects(inner) | inner.map(lambda part: {"type": "array", "items": part}), max_leaves=6
)


@settings(max_examples=60)
@given(objects(PARTS))
def test_the_example_of_a_guide_fits_the_schema(document: Part) -> None:
    """It is one line of JSON, and the call it shows would be let through."""
    text = text_of(with_tool(document))

    arguments = example(text)["args"]
    assert "\n**Example**:\n" in text
    assert jsonschema_rs.validator_for({"$schema": "http://json-schema.org/draft-07/schema#", **document}).is_valid(
        arguments
    )


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "required", "enum", "anyOf", "allOf", "$ref", "description", "x"]
            ),
            inner | st.sampled_from(["#", "#/properties/x", "object", "array"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(["type", "properties", "items", "required", "anyOf", "$ref"]), ANY), st.text())
def test_whatever_a_schema_holds_there_is_a_guide_of_lines_that_are_ours(document: Part, words: str) -> None:
    """Nothing raises, and every line begins in one of the ways that a guide's lines begin."""
    shown = with_tool(document, description=words)
    ways = ("# ", "## ", "### ", "> ", "- ", "  ", "**", "aai:exec(", "---", "Use ", "No sign-in.")

    lines = text_of(replace(shown, description=words, names=Names((("en", words or "x"),), "en"))).split("\n")

    assert [text for text in lines if text and not text.startswith(ways)] == []
    assert all(text.isprintable() for text in lines)


def test_capabilities_without_a_description_have_no_empty_quotation() -> None:
    """Nothing said is nothing shown."""
    bare = Capability(kind="tool", id="run", binding=app("com.x", "run").capabilities[0].binding)

    assert "### run\n\n**Parameters**" in text_of(replace(app("com.x"), capabilities=(bare,)))


@pytest.mark.parametrize("auth", [None, ApiKey(location="header", name="X-Key")])
def test_a_server_speaks_of_its_rules_and_of_no_user(auth: ApiKey | None) -> None:
    """There is nobody to be asked, and nobody who could sign in."""
    text = guide(replace(app("shop", "buy"), auth=auth), address="shop", spelling=AAI, locale="en", asks=False)

    assert "The rules of this server decide what may run." in text
    assert "The user is asked" not in text
    assert ("Use a gateway (aai-gateway)" in text) == (auth is not None)
