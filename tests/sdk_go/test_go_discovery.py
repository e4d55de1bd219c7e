"""`Discover` with every option, asked of a real control plane with agents that really run."""

import pytest
from tests.sdk_go.golang import Asker, Told, targets
from tests.support import requirement


def agents(found: Told) -> list[str]:
    return [one["agent_id"] for one in found["capabilities"]]


@requirement("sdk-go:agent:no-arguments", "sdk-go:discover:method")
def test_an_agent_without_arguments_discovers_everything(ask: Asker) -> None:
    """`agent.NewAgent()` goes by the environment."""
    found = ask.discover()

    assert agents(found) == ["a1", "agent-001", "agent-research-001"]
    assert (found["total_agents"], found["total_reasoners"], found["total_skills"]) == (3, 6, 6)


@requirement("sdk-go:discover:agent-alias")
@pytest.mark.parametrize("option", ["WithAgent", "WithNodeID"])
def test_one_agent_is_found_by_its_id_or_a_pattern(ask: Asker, option: str) -> None:
    """Both spellings mean the same."""
    assert agents(ask.discover(**{option: "a1"})) == ["a1"]
    assert agents(ask.discover(**{option: "agent-*"})) == ["agent-001", "agent-research-001"]


@requirement("sdk-go:discover:agent-ids-alias")
@pytest.mark.parametrize("option", ["WithAgentIDs", "WithNodeIDs"])
def test_several_agents_are_found_by_their_ids(ask: Asker, option: str) -> None:
    """Both spellings mean the same."""
    assert agents(ask.discover(**{option: ["a1", "*research*", "nobody"]})) == ["a1", "agent-research-001"]


@requirement("sdk-go:discover:patterns")
def test_reasoners_and_skills_are_found_by_patterns(ask: Asker) -> None:
    """Each of its own kind."""
    assert targets(ask.discover(WithAgent="a1", WithReasonerPattern="*research")) == ["a1:deep_research"]
    assert targets(ask.discover(WithAgent="a1", WithSkillPattern="web_s*h")) == ["a1:skill:web_search"]


@requirement("sdk-go:discover:tags")
def test_capabilities_are_found_by_tags_with_wildcards(ask: Asker) -> None:
    """`ml*` is `ml` and `mlops`."""
    assert targets(ask.discover(WithAgent="a1", WithTags=["ml*"])) == ["a1:deep_research", "a1:skill:web_scrape"]
    assert targets(ask.discover(WithAgent="a1", WithTags=["te*t", "search"])) == ["a1:summarise", "a1:skill:web_search"]


@requirement("sdk-go:discover:schema-options", "sdk-go:refined:with-schemas")
@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({}, {"description"}),
        ({"WithDescriptions": False}, set[str]()),
        ({"WithInputSchema": True}, {"description", "input_schema"}),
        ({"WithOutputSchema": True, "WithDescriptions": True}, {"description", "output_schema"}),
        ({"WithSchemas": True}, {"description", "input_schema", "output_schema"}),
        ({"WithExamples": True, "WithSchemas": False}, {"description", "examples"}),
    ],
)
def test_schemas_descriptions_and_examples_come_as_asked(ask: Asker, options: Told, keys: set[str]) -> None:
    """Descriptions if nothing is said; what is not there is left out when it is written again."""
    (agent,) = ask.discover(WithAgent="a1", WithReasonerPattern="deep_research", **options)["capabilities"]
    (reasoner,) = agent["reasoners"]

    assert reasoner.keys() - {"id", "tags", "invocation_target"} == keys


def test_a_schema_made_from_a_struct_says_what_its_tags_say(ask: Asker) -> None:
    """With description, default, limits and what is required."""
    (agent,) = ask.discover(WithAgent="a1", WithReasonerPattern="deep_research", WithSchemas=True, WithExamples=True)[
        "capabilities"
    ]
    (reasoner,) = agent["reasoners"]

    assert reasoner["input_schema"] == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Research query or topic"},
            "depth": {
                "type": "integer",
                "default": 3,
                "minimum": 1,
                "maximum": 5,
                "description": "Research depth level",
            },
            "sources": {"type": "array", "items": {"type": "string"}, "description": "Specific sources to search"},
        },
        "required": ["query"],
    }
    assert reasoner["output_schema"]["properties"]["confidence"] == {"type": "number", "minimum": 0, "maximum": 1}
    assert reasoner["examples"] == [
        {"name": "Basic research query", "input": {"query": "Latest advances in quantum computing", "depth": 3}}
    ]


@requirement("sdk-go:discover:format")
def test_the_answer_has_the_form_that_was_asked_for(ask: Asker) -> None:
    """JSON and compact as structs, XML as its text; the targets are the same in all of them."""
    answers = {name: ask(options={"WithFormat": name, "WithAgent": "a1"}) for name in ("json", "xml", "compact")}

    assert answers["xml"]["text"].startswith('<?xml version="1.0" encoding="UTF-8"?>\n<discovery discovered_at="')
    compact = answers["compact"]["compact"]
    assert compact["reasoners"][0] == {
        "id": "deep_research",
        "agent_id": "a1",
        "target": "a1:deep_research",
        "tags": ["research", "ml", "synthesis"],
    }
    wanted = ["a1:deep_research", "a1:summarise", "a1:skill:web_scrape", "a1:skill:web_search"]
    assert [sorted(targets(answer["found"])) for answer in answers.values()] == [sorted(wanted)] * 3


def test_a_wrong_option_is_the_servers_error_with_everything_it_says(ask: Asker) -> None:
    """Status, code, message, details and request id; the text has it all on one line."""
    told = ask(options={"WithFormat": "yaml"})

    refused = told["refused"]
    assert (refused["Status"], refused["Code"]) == (400, "invalid_parameter")
    assert refused["Message"] == "Invalid format parameter. Must be one of: json, xml, compact"
    assert refused["Details"]["allowed"] == ["json", "xml", "compact"]
    assert told["said"] == (
        f"discover: control plane answers 400 invalid_parameter: {refused['Message']} (request {refused['RequestID']})"
    )


@requirement("sdk-go:discover:health-status")
def test_agents_are_found_by_their_health(ask: Asker) -> None:
    """All of them are well."""
    assert len(agents(ask.discover(WithHealthStatus="active"))) == 3
    assert agents(ask.discover(WithHealthStatus="inactive")) == []


@requirement("sdk-go:discover:pagination")
def test_pages_are_asked_for_one_by_one_or_all(ask: Asker) -> None:
    """By limit and offset, or with `Pages`, in every format."""
    page = ask.discover(WithLimit=1, WithOffset=1)
    every = [
        ask(pages=True, options={"WithLimit": 2, "WithFormat": name})["pages"] for name in ("json", "xml", "compact")
    ]

    assert (agents(page), page["pagination"]) == (["agent-001"], {"limit": 1, "offset": 1, "has_more": True})
    assert every == [[["a1", "agent-001"], ["agent-research-001"]]] * 3


def test_every_answer_says_how_fresh_it_is(ask: Asker) -> None:
    """And one that has not changed is not sent again."""
    first, again = ask(), ask(again=True)

    fresh = first["freshness"]
    assert fresh["RequestID"].startswith("req_")
    assert (fresh["TotalCount"], fresh["Stale"], fresh["NotModified"]) == (3, False, False)
    assert fresh["ETag"].startswith('W/"')
    assert 0 <= fresh["Age"] < 5e9
    assert again["freshness"]["NotModified"] is True
    assert again["found"]["capabilities"] != []
