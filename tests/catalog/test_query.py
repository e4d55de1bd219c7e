"""The discovery parameters: defaults, spellings, ranges, and what a wrong one is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support import requirement

from switchboard.catalog.errors import InvalidQuery
from switchboard.catalog.query import PARAMETERS, Query, parse_query


def parse(**parameters: str) -> Query:
    return parse_query(parameters.items())


@requirement(
    "discovery:flags:input-schema-default",
    "discovery:flags:output-schema-default",
    "discovery:flags:examples-default",
    "discovery:format:default",
    "discovery:offset:default",
)
def test_without_parameters_the_defaults_of_the_seed_hold() -> None:
    """No filter, no schemas, JSON, the first hundred; descriptions are left to the format."""
    query = parse_query([])

    assert query == Query()
    assert (query.input_schema, query.output_schema, query.examples) == (False, False, False)
    assert (query.descriptions, query.format, query.limit, query.offset) == (None, "json", 100, 0)


def test_all_spellings_of_the_agent_filter_unite() -> None:
    """`agent`, `agent_id`, `node_id` name one, `agent_ids` and `node_ids` several; order does not matter."""
    query = parse(agent="c", agent_id="a", node_id="c", agent_ids="b, a", node_ids="d,,")

    assert query.agents == ("a", "b", "c", "d")
    assert query == parse(agent_ids="d,c,b,a")


@requirement("discovery:format:values", "discovery:health-status:values")
@pytest.mark.parametrize("value", ["json", "xml", "compact", "XML"])
def test_the_three_formats_are_known_in_any_case(value: str) -> None:
    """`format` is a closed set, and so is `health_status`."""
    assert parse(format=value).format == value.lower()
    for health in ("active", "inactive", "degraded", "unknown", "Active"):
        assert parse(health_status=health).health == health.lower()


FLAGS = {
    "include_input_schema": "input_schema",
    "include_output_schema": "output_schema",
    "include_descriptions": "descriptions",
    "include_examples": "examples",
}


@requirement("discovery:flags:boolean")
@pytest.mark.parametrize(
    ("value", "meaning"), [("true", True), ("1", True), ("YES", True), ("false", False), ("0", False), ("No", False)]
)
def test_booleans_have_three_spellings_each(value: str, meaning: bool) -> None:
    """In any case."""
    for name, field in FLAGS.items():
        assert getattr(parse(**{name: value}), field) is meaning
        assert parse(**{name: value}) == replace(Query(), **{field: meaning})
        with pytest.raises(InvalidQuery):
            parse(**{name: "maybe"})


@pytest.mark.parametrize("name", ["reasoner", "skill", "tags", "agent", "agent_ids"])
def test_an_empty_pattern_or_list_is_no_filter(name: str) -> None:
    """`reasoner=` is the same as not asking."""
    assert parse(**{name: ""}) == Query()
    assert parse(**{name: ""}) == parse_query([])


REFUSED = [
    ("format", "yaml", ["json", "xml", "compact"]),
    ("format", "", ["json", "xml", "compact"]),
    ("health_status", "dead", ["active", "inactive", "degraded", "unknown"]),
    ("health_status", "", ["active", "inactive", "degraded", "unknown"]),
    ("limit", "501", ["0-500"]),
    ("limit", "-1", ["0-500"]),
    ("limit", "10abc", ["0-500"]),
    ("limit", "", ["0-500"]),
    ("limit", " 5", ["0-500"]),
    ("limit", "\u0665", ["0-500"]),
    ("limit", "9" * 5000, ["0-500"]),
    ("offset", "-1", None),
    ("offset", "1.5", None),
    ("offset", "ten", None),
    ("include_examples", "maybe", None),
    ("include_descriptions", "", None),
    ("include_input_schema", "y", None),
]


@requirement(
    "discovery:format:refused",
    "discovery:limit:max",
    "discovery:limit:integer",
    "discovery:offset:integer",
)
@pytest.mark.parametrize(("name", "value", "allowed"), REFUSED)
def test_a_value_that_cannot_be_meant_is_refused_with_what_is_allowed(
    name: str, value: str, allowed: list[str] | None
) -> None:
    """The details are those of seed 004, 3.7: parameter, provided, allowed."""
    with pytest.raises(InvalidQuery) as error:
        parse(**{name: value})

    assert error.value.details["parameter"] == name
    assert error.value.details["provided"] == value
    assert error.value.details["allowed"] == (allowed or error.value.details["allowed"])
    assert error.value.message.startswith(f"Invalid {name} parameter. Must be ")


def test_the_limits_themselves_are_allowed() -> None:
    """0 and 500, with leading zeros, and a far offset."""
    assert [parse(limit=value).limit for value in ("0", "500", "007", "0" * 5000)] == [0, 500, 7, 0]
    assert parse(offset="1000000").offset == 1_000_000


def test_an_unknown_parameter_is_refused_with_the_nearest_known_one() -> None:
    """`include_input_schemas` was meant to be `include_input_schema`."""
    with pytest.raises(InvalidQuery) as near:
        parse(include_input_schemas="true")
    with pytest.raises(InvalidQuery) as far:
        parse(zzz="1")

    assert near.value.message.endswith("Did you mean include_input_schema?")
    assert near.value.details["allowed"] == ["include_input_schema"]
    assert far.value.details["allowed"] == list(PARAMETERS)


def test_lists_that_would_take_seconds_to_match_are_refused() -> None:
    """Five hundred entries, twenty of them with wildcards, are enough for everybody."""
    assert len(parse(agent_ids=",".join(f"a{i}" for i in range(500))).agents) == 500
    for value in (",".join(f"a{i}" for i in range(501)), ",".join(f"a{i}*" for i in range(21))):
        for name in ("agent_ids", "tags"):
            with pytest.raises(InvalidQuery):
                parse(**{name: value})


def test_a_single_value_given_twice_is_refused() -> None:
    """Which of two limits was meant cannot be known; lists unite instead."""
    with pytest.raises(InvalidQuery):
        parse_query([("limit", "1"), ("limit", "2")])

    assert parse_query([("tags", "b"), ("tags", "a")]).tags == ("a", "b")


@given(st.lists(st.tuples(st.sampled_from(PARAMETERS) | st.text(max_size=10), st.text(max_size=12)), max_size=8))
def test_any_parameters_give_a_query_or_a_refusal_that_names_one_of_them(parameters: list[tuple[str, str]]) -> None:
    """Parsing is total: a Query within its ranges, or InvalidQuery about a parameter that was given."""
    refusal, query = None, Query()
    try:
        query = parse_query(parameters)
    except InvalidQuery as error:
        refusal = error

    assert refusal is None or refusal.details["parameter"] in {name for name, _ in parameters}
    assert 0 <= query.limit <= 500
    assert query.offset >= 0
