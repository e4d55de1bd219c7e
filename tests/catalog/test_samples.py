"""Example calls: exact for the schemas real tools have, fitting for any sane one, harmless for everything else."""

import json
import re
from pathlib import Path
from typing import Any, cast

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import schema

from switchboard.catalog.bindings import Json
from switchboard.catalog.samples import Sample, sample

Part = dict[str, Any]

HERE = Path(__file__).parent
DESCRIPTORS = [*(HERE.parent / "descriptors" / "variants").glob("*.json"), *Path("examples/home").rglob("aai.json")]
TREE = {
    "type": "object",
    "required": ["children", "next"],
    "properties": {
        "label": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
        "next": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]},
    },
}
FILTER = {
    "oneOf": [
        {"type": "object", "required": ["and"], "properties": {"and": {"$ref": "#/definitions/Filter"}}},
        {"type": "object", "required": ["field"], "properties": {"field": {"const": "status"}}},
    ]
}


def tool(**properties: Part) -> Part:
    return {"type": "object", "properties": properties, "required": list(properties)}


def options(**properties: Part) -> Part:
    return {"type": "object", "properties": properties}


REAL = [
    pytest.param({"type": "object"}, {}, id="no-arguments"),
    pytest.param({}, {}, id="empty"),
    pytest.param(
        {
            "type": "object",
            "properties": {
                "title": {"type": "string"},
                "start": {"type": "string", "format": "date-time"},
                "minutes": {"type": "integer", "minimum": 1, "default": 60},
            },
            "required": ["title", "start"],
        },
        {"title": "Example title", "start": "2030-01-15T09:30:00Z", "minutes": 60},
        id="calendar",
    ),
    pytest.param(
        {
            "type": "object",
            "properties": {
                "to": {"type": "array", "items": {"type": "string"}, "description": "Recipients"},
                "subject": {"type": "string"},
                "body": {"type": "string"},
            },
            "required": ["to", "body"],
        },
        {"to": ["alice@example.com"], "subject": "Example title", "body": "Example text"},
        id="mail",
    ),
    pytest.param(
        {"properties": {"text": {"type": "string"}, "tag": {"enum": ["home", "work"]}}, "required": ["text"]},
        {"text": "Example text", "tag": "home"},
        id="notes-without-type",
    ),
    pytest.param(
        options(query={"type": "string"}, page_size={"type": "integer"}, userId={"type": "string"}),
        {"query": "example query", "page_size": 10, "userId": "example-id"},
        id="names-in-either-case",
    ),
    pytest.param(
        tool(due={"type": "string"}, language={"type": "string"}, 标题={"type": "string"}),
        {"due": "2030-01-15", "language": "en", "标题": "example"},
        id="names",
    ),
    pytest.param(
        options(**{letter: {"type": "string"} for letter in "vwxyz"}, filters=options(a={"type": "string"})),
        {"v": "example", "w": "example", "x": "example"},
        id="three-options-that-are-scalar",
    ),
    pytest.param(
        options(old={"type": "string", "deprecated": True}, new={"type": "string"}),
        {"new": "example"},
        id="nothing-deprecated",
    ),
    pytest.param(
        tool(filters={"type": "object", "properties": {"url": {"type": "string"}, "count": {"type": "integer"}}}),
        {"filters": {"url": "https://example.com", "count": 10}},
        id="nested",
    ),
    pytest.param(
        {
            "type": "object",
            "properties": {"limit": {"anyOf": [{"type": "null"}, {"type": "integer"}], "default": None}},
        },
        {"limit": 10},
        id="pydantic-optional",
    ),
    pytest.param(
        tool(
            first={"type": "string", "examples": ["one", "two"], "default": "no"},
            second={"type": "integer", "example": "wrong type", "default": 7},
            third={"const": "fixed"},
            fourth={"type": ["null", "boolean"]},
            fifth={"type": "null"},
        ),
        {"first": "one", "second": 7, "third": "fixed", "fourth": True, "fifth": None},
        id="what-the-author-wrote",
    ),
    pytest.param(
        tool(
            short={"type": "string", "maxLength": 3},
            long={"type": "string", "minLength": 12},
            code={"type": "string", "pattern": "^[A-Z]{3}-\\d{4}$"},
            key={"type": "string", "pattern": "^(sk|pk)_[a-z0-9]+$", "minLength": 8},
            colour={"type": "string", "pattern": "^#([0-9a-f]{3}){2}$"},
        ),
        {
            "short": "exa",
            "long": "example exam",
            "code": "AAA-1111",
            "key": "sk_aaaaaaaa",
            "colour": "#3366ff",
        },
        id="strings",
    ),
    pytest.param(
        {
            "type": "object",
            "properties": {"url": {"type": "string"}, "odd": {"type": "string", "pattern": "^(?=.*Q)x{3}.*Z$"}},
            "required": ["url"],
        },
        {"url": "https://example.com"},
        id="an-option-with-a-hard-pattern-is-left-out",
    ),
    pytest.param(
        tool(
            limit={"type": "integer", "maximum": 5},
            least={"type": "integer", "minimum": 50},
            sevens={"type": "integer", "multipleOf": 7, "minimum": 10},
            share={"type": "number", "minimum": 0, "maximum": 1},
            tiny={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.1},
            below={"type": "integer", "exclusiveMaximum": 0},
            latitude={"type": "number", "minimum": -90, "maximum": 90},
        ),
        {"limit": 1, "least": 50, "sevens": 14, "share": 0.5, "tiny": 0.01, "below": -1, "latitude": 52.52},
        id="numbers",
    ),
    pytest.param(
        tool(
            tags={"type": "array", "items": {"enum": ["a", "b", "c"]}, "minItems": 2, "uniqueItems": True},
            pair={"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": False},
            none={"type": "array", "maxItems": 0},
            has={"type": "array", "contains": {"const": 5}},
            days={"type": "array", "items": {"type": "string", "format": "date"}, "minItems": 2, "uniqueItems": True},
        ),
        {"tags": ["a", "b"], "pair": ["example", 1], "none": [], "has": [5], "days": ["2030-01-15", "2030-01-12"]},
        id="arrays",
    ),
    pytest.param(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **tool(at={"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}], "items": False}),
            "dependentRequired": {"at": ["zone"]},
        },
        {"at": [1.5, "example"], "zone": "example"},
        id="2020-12",
    ),
    pytest.param(
        tool(
            headers={"type": "object", "additionalProperties": {"type": "string"}},
            two={"type": "object", "minProperties": 2},
        ),
        {"headers": {"example": "example"}, "two": {"example": "example", "example2": "example"}},
        id="maps",
    ),
    pytest.param(
        {
            **options(url={"type": "string"}, path={"type": "string"}),
            "oneOf": [{"required": ["url"]}, {"required": ["path"]}],
        },
        {"url": "https://example.com"},
        id="one-of-two",
    ),
    pytest.param(
        tool(target={"anyOf": [False, {"type": "object", "properties": {"id": {"type": "integer"}}}]}),
        {"target": {"id": 1}},
        id="first-branch-that-works",
    ),
    pytest.param(
        {
            **tool(kind={"type": "string", "enum": ["file"]}),
            "if": {"properties": {"kind": {"const": "file"}}},
            "then": {"required": ["path"], "properties": {"path": {"type": "string"}}},
        },
        {"kind": "file", "path": "/path/to/example.txt"},
        id="if-then",
    ),
    pytest.param(
        {
            "allOf": [{"$ref": "#/definitions/Base"}, tool(size={"type": "number", "maximum": 9})],
            "definitions": {"Base": tool(id={"type": "string"}, size={"type": "integer", "minimum": 4})},
        },
        {"id": "example-id", "size": 4},
        id="all-of",
    ),
    pytest.param(
        {**options(path={"type": "string"}, parent={"$ref": "#"}, other={"$ref": "#/properties/path"})},
        {"path": "/path/to/example.txt", "other": "example"},
        id="references-to-the-root",
    ),
    pytest.param(
        {**tool(tree={"$ref": "#/$defs/Tree"}), "$defs": {"Tree": TREE}},
        {"tree": {"label": "example", "children": [], "next": None}},
        id="tree",
    ),
    pytest.param(
        {**tool(filter={"$ref": "#/definitions/Filter"}), "definitions": {"Filter": FILTER}},
        {"filter": {"field": "status"}},
        id="recursion-ends-at-the-shallowest",
    ),
]


@pytest.mark.parametrize(("document", "expected"), REAL)
def test_a_tool_gets_the_example_a_person_would_write(document: Part, expected: Part) -> None:
    """What is required and a few options, with values that read well, in the author's order."""
    made = sample(schema(document))

    assert made == Sample(expected, fits=True)
    assert list(made.arguments) == list(expected)


FORMATS = ["date-time", "date", "time", "duration", "email", "uri", "uuid", "hostname", "ipv4", "ipv6", "regex"]


@pytest.mark.parametrize("shape", FORMATS)
def test_each_format_gets_a_value_of_that_format(shape: str) -> None:
    """The validator is told to look at formats, as a strict server would."""
    document = tool(value={"type": "string", "format": shape})

    made = sample(schema(document))

    assert jsonschema_rs.validator_for(document, validate_formats=True).is_valid(made.arguments)


@pytest.mark.parametrize("file", DESCRIPTORS, ids=lambda file: file.stem)
def test_every_tool_of_our_descriptors_gets_a_fitting_example(file: Path) -> None:
    """The spellings found in the wild, and the examples this repository ships."""
    assert all(sample(found).fits for found in parameters(json.loads(file.read_bytes())))


def parameters(part: Any) -> list[Json]:
    if isinstance(part, list):
        return [found for each in cast("list[Any]", part) for found in parameters(each)]
    if not isinstance(part, dict):
        return []
    fields = cast("Part", part)
    own = [schema(fields[key]) for key in ("parameters", "inputSchema") if isinstance(fields.get(key), dict)]
    return own + [found for value in fields.values() for found in parameters(value)]


def test_without_a_schema_a_call_has_no_arguments() -> None:
    """That fits, as everything does."""
    assert sample(None) == Sample({}, fits=True)


IMPERFECT = [
    pytest.param(tool(odd={"type": "string", "pattern": "^(?=.*Q)x{3}.*Z$"}), {"odd": "example"}, id="hard-pattern"),
    pytest.param({"type": "object", "properties": {"a": {"type": "text"}}}, {}, id="not-a-schema"),
    pytest.param(
        tool(path={"$ref": "other.json"}, id={"type": "string"}), {"id": "example-id"}, id="foreign-reference"
    ),
    pytest.param({"type": "string"}, {}, id="not-an-object"),
    pytest.param(tool(never=cast("Any", False)), {}, id="impossible"),
]


@pytest.mark.parametrize(("document", "expected"), IMPERFECT)
def test_what_cannot_be_made_to_fit_is_still_a_start_and_says_so(document: Part, expected: Part) -> None:
    """An example to adapt beats none."""
    assert sample(schema(document)) == Sample(expected, fits=False)


HOSTILE = [
    pytest.param(b"", id="empty"),
    pytest.param(b"\xff", id="not-text"),
    pytest.param(b'{"properties":{"\\ud800":{}}}', id="half-a-character"),
    pytest.param(b'{"minProperties":1e999}', id="infinite"),
    pytest.param(b'{"properties":{"a":' * 5000 + b"{}" + b"}}" * 5000, id="deep"),
    pytest.param(b'{"required":["a"],"properties":{"a":' * 90 + b"{}" + b"}}" * 90, id="nested-as-deep-as-read"),
    pytest.param(schema(tool(a={"type": "string", "minLength": 10**9})), id="long-string"),
    pytest.param(schema(tool(a={"type": "array", "minItems": 10**9})), id="long-array"),
    pytest.param(schema(tool(a={"type": "integer", "minimum": 10**400, "multipleOf": 0.1})), id="large-number"),
    pytest.param(schema({"required": ["x" * 30_000]}), id="long-name"),
    pytest.param(schema(tool(**{f"property{n}": {"default": "x" * 1900} for n in range(200)})), id="many-defaults"),
    pytest.param(schema(tool(a={"default": ["x" * 50_000]})), id="long-default"),
    pytest.param(schema(tool(a={"type": "string", "pattern": "^(a+)+$" * 50})), id="slow-pattern"),
    pytest.param(schema(tool(a={"type": "string", "pattern": "(((a{999}){999}){999})" * 9})), id="large-pattern"),
    pytest.param(schema({"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}}), id="loop"),
    pytest.param(
        schema(
            {
                "$ref": "#/definitions/d0",
                "definitions": {f"d{n}": {"allOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(40)},
            }
        ),
        id="doubling",
    ),
    pytest.param(
        schema(
            {
                **tool(a={"$ref": "#/definitions/0"}),
                "definitions": {
                    str(n): tool(**{f"p{m}": {"$ref": f"#/definitions/{m}"} for m in range(12)}) for n in range(12)
                },
            }
        ),
        id="every-path-is-a-loop",
    ),
    pytest.param(
        schema(
            {
                "$ref": "#/definitions/0",
                "definitions": {str(n): {"$ref": f"#/definitions/{n + 1}"} for n in range(2000)},
            }
        ),
        id="chain",
    ),
    pytest.param(
        schema(
            {
                **tool(a={"$ref": "#/definitions/0"}),
                "definitions": {
                    str(n): {"type": "array", "minItems": 20, "items": {"$ref": f"#/definitions/{n + 1}"}}
                    for n in range(9)
                },
            }
        ),
        id="arrays-of-arrays",
    ),
]


@pytest.mark.parametrize("document", HOSTILE)
def test_a_hostile_schema_neither_raises_nor_grows(document: bytes) -> None:
    """A guide stays readable whatever a stranger wrote."""
    assert len(msgspec.json.encode(sample(Json(document)).arguments)) < 20_000


names = st.sampled_from(["title", "url", "limit", "tags", "start", "noteId", "x", "a/b", "标题"])
small = st.integers(0, 6)


def part(**fields: Any) -> st.SearchStrategy[Part]:
    """Build a schema of these fields; a strategy among them is drawn from."""
    drawn: dict[str, st.SearchStrategy[Any]] = {
        key: value if isinstance(value, st.SearchStrategy) else st.just(value) for key, value in fields.items()
    }
    return st.fixed_dictionaries(drawn)


strings = st.one_of(
    part(type="string"),
    part(type="string", minLength=small, maxLength=st.integers(6, 12)),
    part(type="string", format=st.sampled_from(FORMATS)),
    part(type="string", pattern=st.sampled_from(["^[a-z]+$", "^\\d{4}-\\d{2}$", "^(on|off)$", "^[A-Z]{2,}_\\w+$"])),
)
numbers = st.one_of(
    part(type=st.sampled_from(["integer", "number"]), minimum=st.integers(-90, 9), maximum=st.integers(9, 90)),
    part(type="number", exclusiveMinimum=st.integers(-50, 0), exclusiveMaximum=st.integers(1, 50)),
    part(type="integer", multipleOf=st.integers(1, 9), minimum=small),
    part(type="number", multipleOf=st.sampled_from([0.5, 0.25, 2.5])),
)
choices = st.lists(
    st.one_of(st.text(max_size=5), st.integers(-9, 9), st.none()), min_size=1, max_size=4, unique_by=repr
)
fixed = st.one_of(
    part(enum=choices),
    part(const=st.text(max_size=5)),
    part(type="string", default=st.text(max_size=5), examples=st.sampled_from([[1], ["one", 2], []])),
    st.sampled_from(cast("list[Part]", [{"type": "boolean"}, {"type": "null"}, {"type": ["null", "integer"]}, {}])),
)


def objects(parts: st.SearchStrategy[Part]) -> st.SearchStrategy[Part]:
    def built(properties: Part, chosen: list[str], more: object) -> Part:
        required = [name for name in properties if name in chosen]
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": more}

    more = st.sampled_from([True, False, {"type": "string"}])
    return st.builds(built, st.dictionaries(names, parts, max_size=5), st.lists(names, max_size=5), more)


def nested(parts: st.SearchStrategy[Part]) -> st.SearchStrategy[Part]:
    stranger = part(type="object", required=["never-in-the-others"])
    return st.one_of(
        objects(parts),
        objects(parts),
        part(type="array", items=parts, minItems=st.integers(0, 3)),
        part(type="array", items=parts, uniqueItems=True),
        part(type="array", items=part(type="string"), uniqueItems=True, minItems=small),
        part(anyOf=st.lists(parts, min_size=1, max_size=3)),
        part(oneOf=st.tuples(parts, stranger)),
        part(allOf=st.tuples(parts, part(description="Said twice"))),
        part(**{"$ref": st.sampled_from(["#/$defs/Tree", "#/$defs/Leaf", "#/$defs/Tree/properties/label"])}),
        part(**{"$ref": "#/definitions/Filter"}),
    )


parts = st.recursive(st.one_of(strings, numbers, fixed), nested, max_leaves=12)
DEFINITIONS = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$defs": {"Tree": TREE, "Leaf": {"type": "string", "format": "uuid"}},
    "definitions": {"Filter": FILTER},
}


@settings(max_examples=150)
@given(objects(parts))
def test_any_sane_schema_gets_an_example_that_fits(document: Part) -> None:
    """Said by the validator itself, not only by the sample; and the same every time."""
    whole = {**document, **DEFINITIONS}

    made = sample(schema(whole))

    assert made.fits
    assert jsonschema_rs.is_valid(whole, made.arguments)
    assert made == sample(schema(whole))


POSSIBLE: list[str] = re.findall(
    r"\S+",
    """
    $ref $defs $id $schema type properties required items prefixItems additionalItems contains additionalProperties
    minProperties minItems maxItems uniqueItems minLength maxLength minimum maximum exclusiveMinimum multipleOf pattern
    format enum const default examples example allOf anyOf oneOf not if then else dependencies dependentRequired
    """,
)
keywords = st.sampled_from(POSSIBLE)
words = st.sampled_from(["#", "#/$defs/a", "a", "object", "array", "string", "number", "null", "date", "[", "^a+$", ""])
anything = st.recursive(
    st.one_of(words, st.text(max_size=9), st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(keywords, words), inner, max_size=6)
    ),
    max_leaves=30,
)


@settings(max_examples=300)
@given(anything)
def test_any_json_at_all_is_survived(document: object) -> None:
    """Nothing raises, and what comes back is small."""
    made = sample(Json(msgspec.json.encode(document)))

    assert len(msgspec.json.encode(made.arguments)) < 20_000


plain_leaves = st.one_of(
    part(type=st.sampled_from(["string", "integer", "number", "boolean", "null"])),
    part(type="string", default=st.text(max_size=5), description="Said"),
    part(type="integer", default=st.integers(-9, 9)),
    part(type="boolean", default=st.booleans()),
    part(type="string", default=st.integers()),
)


def plain_objects(parts: st.SearchStrategy[Part]) -> st.SearchStrategy[Part]:
    def built(properties: Part, chosen: list[str]) -> Part:
        required = [name for name in properties if name in chosen]
        return {"type": "object", "properties": properties, "required": required, "description": "An object"}

    return st.builds(built, st.dictionaries(names, parts, max_size=5), st.lists(names, max_size=5))


plain_parts = st.recursive(
    plain_leaves, lambda inner: st.one_of(plain_objects(inner), part(type="array", items=inner)), max_leaves=12
)


@settings(max_examples=150)
@given(plain_objects(plain_parts))
def test_a_plain_schema_gives_the_same_example_with_and_without_the_validator(document: Part) -> None:
    """Leaving the validator out saves a gateway its memory, and changes nothing else."""
    the_long_way: Part = {**document, "allOf": [{}]}

    assert sample(schema(document)) == sample(schema(the_long_way))
