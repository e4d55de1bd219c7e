"""Schemas from signatures, and inputs as arguments."""

import enum
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

import jsonschema_rs
import msgspec
import pydantic
import pytest

from agentfield import Agent
from agentfield.capability import Described, capability_of
from agentfield.docstrings import arguments, summary
from agentfield.signatures import Misfit, Signature, schema_of


class Colour(enum.Enum):
    """A choice."""

    RED = "red"
    GREEN = "green"


class Point(msgspec.Struct):
    """A struct."""

    x: int
    y: int = 0


@dataclass
class Options:
    """A dataclass."""

    depth: int = 3
    names: list[str] = field(default_factory=list[str])


class Query(TypedDict):
    """A dictionary."""

    text: str
    most: NotRequired[int]


class Inner(pydantic.BaseModel):
    """A model inside."""

    size: int = 1


class Model(pydantic.BaseModel):
    """A model."""

    name: str
    inner: Inner = Inner()


class Tree(msgspec.Struct):
    """Refers to itself."""

    leaves: list["Tree"] = []


def everything(  # noqa: D417, PLR0913 - that is the point
    text: str,
    number: int,
    *,
    ratio: float = 0.5,
    flag: bool = False,
    nothing: None = None,
    maybe: Optional[int] = None,  # noqa: UP045 - as people write it
    either: int | str = 3,
    one_of: Literal["a", "b"] = "a",
    colour: Colour = Colour.RED,
    words: list[str] = [],  # noqa: B006 - as people write it
    table: dict[str, float] | None = None,
    pair: tuple[int, str] = (1, "x"),
    query: Query | None = None,
    options: Options | None = None,
    point: Point = Point(1),  # noqa: B008
    model: Model | None = None,
    when: datetime | None = None,
    bounded: Annotated[int, msgspec.Meta(ge=1, le=5, description="How deep")] = 3,
    anything: Any = None,
) -> Tree:
    """Take everything.

    Args:
        text: A text,
            in two lines.
        number (int): A number.
        bounded: Not this one: the annotation says it.

    Returns:
        A tree.
    """
    del text, number, ratio, flag, nothing, maybe, either, one_of, colour, words, table, pair
    del query, options, point, model, when, bounded, anything
    return Tree()


PROPERTIES: dict[str, Any] = {
    "text": {"type": "string", "description": "A text, in two lines."},
    "number": {"type": "integer", "description": "A number."},
    "ratio": {"type": "number", "default": 0.5},
    "flag": {"type": "boolean", "default": False},
    "nothing": {"type": "null", "default": None},
    "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
    "either": {"anyOf": [{"type": "integer"}, {"type": "string"}], "default": 3},
    "one_of": {"enum": ["a", "b"], "default": "a"},
    "colour": {"$ref": "#/$defs/Colour", "default": "red"},
    "words": {"type": "array", "items": {"type": "string"}, "default": []},
    "when": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}], "default": None},
    "point": {"$ref": "#/$defs/Point", "default": {"x": 1, "y": 0}},
    "bounded": {"type": "integer", "minimum": 1, "maximum": 5, "description": "How deep", "default": 3},
    "anything": {"default": None},
}


def test_the_schema_of_a_function_keeps_types_defaults_and_descriptions() -> None:
    """Required is what has no default, and nothing else is allowed."""
    schema = Signature(everything).input_schema

    assert (schema["type"], schema["required"], schema["additionalProperties"]) == ("object", ["text", "number"], False)
    assert {name: schema["properties"][name] for name in PROPERTIES} == PROPERTIES
    assert {"Colour", "Point", "Options", "Query", "Inner"} <= schema["$defs"].keys()


def test_arguments_have_the_types_they_are_annotated_with() -> None:
    """Not dictionaries and texts."""
    given = Signature(everything).arguments(
        b'{"text": "t", "number": 1, "colour": "green", "pair": [2, "y"], "query": {"text": "q"}, "options": '
        b'{"depth": 1}, "point": {"x": 4}, "model": {"name": "m"}, "when": "2026-11-15T10:30:00Z", "either": "x"}'
    )

    assert (given["colour"], given["pair"], given["query"]) == (Colour.GREEN, (2, "y"), {"text": "q"})
    assert (given["options"], given["point"]) == (Options(1), Point(4))
    assert (given["model"], given["either"]) == (Model(name="m", inner=Inner(size=1)), "x")
    assert given["when"] == datetime(2026, 11, 15, 10, 30, tzinfo=UTC)
    assert (given["ratio"], given["words"], given["bounded"]) == (0.5, [], 3)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"number": 1}', "missing required field `text`"),
        (b'{"text": 1, "number": 1}', r"Expected `str`, got `int` - at `\$.text`"),
        (b'{"text": "", "number": 1, "txt": ""}', "unknown field `txt`"),
        (b'{"text": "", "number": 1, "bounded": 6}', r"<= 5 - at `\$.bounded`"),
        (b'{"text": "", "number": 1, "model": {"name": 3}}', r"valid string.*\$.model"),
        (b"[]", "Expected `object`"),
        (b"{", "Input data was truncated|malformed"),
        (b"\xff", "malformed|utf-8"),
    ],
)
def test_an_input_that_does_not_fit_is_refused_with_the_place(body: bytes, said: str) -> None:
    """Before anything runs."""
    with pytest.raises(Misfit, match=f"(?s){said}"):
        Signature(everything).arguments(body)


def test_unions_of_several_objects_take_the_first_that_fits() -> None:
    """Dataclasses, structs, models, in any mixture."""

    def choose(thing: Point | Options | None, other: Model | Point = Point(0)) -> None:  # noqa: B008
        del thing, other

    signature = Signature(choose)
    validator = jsonschema_rs.validator_for(signature.input_schema)

    assert signature.arguments(b'{"thing": {"x": 1}}')["thing"] == Point(1)
    assert signature.arguments(b'{"thing": {"depth": 1}}')["thing"] == Options(1)
    assert signature.arguments(b'{"thing": null, "other": {"name": "m"}}')["other"] == Model(name="m")
    assert validator.is_valid({"thing": {"x": 1}, "other": {"name": "m"}})
    with pytest.raises(Misfit, match=r"(?s)fits none of 2: .* - at `\$.other`"):
        signature.arguments(b'{"thing": null, "other": 3}')


def test_what_is_left_over_goes_to_a_function_that_takes_anything() -> None:
    """`**rest` opens the schema."""

    def collect(query: str, **rest: Any) -> None:
        del query, rest

    signature = Signature(collect)

    assert signature.arguments(b'{"query": "q", "more": [1]}') == {"query": "q", "more": [1]}
    assert "additionalProperties" not in signature.input_schema


def test_schemas_stand_on_their_own() -> None:
    """Every reference leads somewhere, recursive ones too."""
    for schema in (
        schema_of(Tree),
        schema_of(list[Model]),
        Signature(everything).input_schema,
        schema_of(Model | Tree),
    ):
        jsonschema_rs.validator_for(schema)
    assert jsonschema_rs.validator_for(schema_of(Tree)).is_valid({"leaves": [{"leaves": []}]})
    assert not jsonschema_rs.validator_for(schema_of(Tree)).is_valid({"leaves": [{"leaves": 1}]})


def test_what_cannot_be_said_in_json_is_told_when_it_is_offered() -> None:
    """With the function, and why."""

    def positional(first: int, /) -> None:
        del first

    def several(*numbers: int) -> None:
        del numbers

    def strange(thing: complex) -> None:
        del thing

    def unknown(thing: "Nowhere") -> None:  # noqa: F821 # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType]
        del thing

    wrong: list[tuple[Callable[..., Any], str]] = [
        (positional, "positional: 'first: int' cannot be given by name"),
        (several, "several: '\\*numbers: int' cannot be given by name"),
        (strange, "strange: there is no JSON Schema .* complex"),
        (unknown, "unknown: name 'Nowhere' is not defined"),
    ]
    for function, said in wrong:
        with pytest.raises(TypeError, match=said):
            Agent("a").skill(function)


def boxes(kind: type) -> type[pydantic.BaseModel]:
    """Make a model with a model inside that has a name everybody uses."""
    item = pydantic.create_model("Item", value=(kind, ...))
    many: Any = list.__class_getitem__(item)
    return pydantic.create_model("Box", items=(many, ...))


def test_models_of_one_name_keep_their_own_schemas() -> None:
    """As of two modules that both have an `Item`."""

    def pack(numbers: Any, texts: Any) -> None: ...

    pack.__annotations__ = {"numbers": boxes(int), "texts": boxes(str)}
    signature = Signature(pack)
    valid = jsonschema_rs.validator_for(signature.input_schema)

    given = {"numbers": {"items": [{"value": 1}]}, "texts": {"items": [{"value": "one"}]}}
    assert valid.is_valid(given)
    assert signature.arguments(msgspec.json.encode(given))["texts"].items[0].value == "one"
    assert not valid.is_valid({**given, "texts": {"items": [{"value": 1}]}})


def test_a_default_of_none_allows_null() -> None:
    """As everybody reads it, and as models send it."""

    def ask(most: int = None) -> None: ...  # type: ignore[assignment] # noqa: RUF013 - what people write

    signature = Signature(ask)

    assert signature.input_schema["properties"]["most"] == {
        "anyOf": [{"type": "integer"}, {"type": "null"}],
        "default": None,
    }
    assert signature.arguments(b'{"most":null}') == {"most": None}


def test_abstract_containers_and_annotated_unions_are_read_like_plain_ones() -> None:
    """Also with members that msgspec cannot tell apart by itself."""

    def take(
        every: Iterable[int], some: Sequence[Point | Options], one: Annotated[Point | Options, "a note"]
    ) -> None: ...

    given = Signature(take).arguments(b'{"every":[1],"some":[{"x":1},{"depth":2}],"one":{"x":3}}')

    assert given == {"every": [1], "some": [Point(1), Options(2)], "one": Point(3)}


def test_limits_of_pydantic_fields_are_kept() -> None:
    """In the schema, and for whoever does not look at it."""

    def count(
        most: Annotated[int, pydantic.Field(ge=1, description="How many.")],
        word: Annotated[str, pydantic.Field(max_length=3, pattern="^t")] = "tea",
    ) -> None: ...

    signature = Signature(count)

    assert signature.input_schema["properties"] == {
        "most": {"type": "integer", "minimum": 1, "description": "How many."},
        "word": {"type": "string", "maxLength": 3, "pattern": "^t", "default": "tea"},
    }
    with pytest.raises(Misfit, match="most"):
        signature.arguments(b'{"most":0}')


class Shelf:
    """Has methods, and can be called itself."""

    def __call__(self, title: str) -> str:
        """Find a book."""
        return title

    def find(self, title: str) -> str:
        """Find a book."""
        return title


NAMELESS: Callable[[str], str] = lambda title: title  # noqa: E731 - what has no name


def numbers(most: int) -> Iterator[int]:
    """Yield."""
    yield most


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (Shelf.find, "find: 'self' is not a caller's to give"),
        (Shelf(), "A skill needs a name"),
        (NAMELESS, "A skill needs a name"),
        (numbers, "numbers yields"),
    ],
)
def test_what_cannot_be_offered_is_told_with_what_to_do(function: Callable[..., Any], said: str) -> None:
    """Before anybody calls it."""
    with pytest.raises(TypeError, match=said):
        Agent("a").skill(function)


@pytest.mark.parametrize("function", [Shelf(), Shelf().find, functools.partial(Shelf.find, Shelf())])
def test_whatever_behaves_like_a_function_can_be_offered(function: Callable[..., Any]) -> None:
    """With the annotations and the docstring of what it runs."""
    made = capability_of("skill", function, Described(name="find"))

    assert (made.id, made.description) == ("find", "Find a book.")
    assert made.signature.input_schema["properties"] == {"title": {"type": "string"}}
    assert function(**made.signature.arguments(b'{"title":"Tea"}')) == "Tea"


def test_an_entry_has_what_the_function_and_its_author_say() -> None:
    """Names and descriptions may be given; else the code says them."""
    own = capability_of("reasoner", everything, Described(tags=["x"], examples=[{"input": {"text": "t"}}])).entry()
    given = capability_of("skill", everything, Described(name="all", description="All of it")).entry()

    assert (own["id"], own["description"], own["tags"]) == ("everything", "Take everything.", ["x"])
    assert own["examples"] == [{"input": {"text": "t"}}]
    assert own["output_schema"]["title"] == "Tree"
    assert (given["id"], given["description"]) == ("all", "All of it")


@pytest.mark.parametrize(
    ("text", "said", "named"),
    [
        ("", "", {}),
        ("One line.", "One line.", {}),
        ("Two\nlines.\n\nMore.", "Two lines.", {}),
        (
            "Say.\n\nArgs:\n    a: First.\n    b (int): Second\n        line: goes on.\n\nReturns:\n    c: No.",
            "Say.",
            {"a": "First.", "b": "Second line: goes on."},
        ),
        ("Args:\n    a:\n        Below.\nRaises:\n    X: No.", "", {"a": "Below."}),
    ],
)
def test_docstrings_are_read(text: str, said: str, named: dict[str, str]) -> None:
    """The first paragraph, and the section on arguments."""
    assert (summary(text), arguments(text)) == (said, named)
