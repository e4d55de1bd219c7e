"""The XML answer: the layout of the seed, and well-formed whatever agents say."""

from xml.etree import ElementTree as ET

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.descriptors.strategies import json_values
from tests.rest.test_discovery import RESEARCH
from tests.servers import ControlPlane, registration
from tests.support import requirement

from switchboard.catalog.bindings import AgentServer, Binding, Json
from switchboard.catalog.model import Agent, Capability
from switchboard.catalog.query import Query
from switchboard.catalog.selection import Page
from switchboard.rest import render_xml

PARSE = ET.fromstring
QUERY = "format=xml&include_input_schema=true&include_output_schema=true"


@requirement(
    "discovery:case:11",
    "format:xml:declaration",
    "format:xml:root",
    "format:xml:summary",
    "format:xml:capabilities",
    "format:xml:agent",
    "format:xml:reasoner",
    "format:xml:skill",
    "format:xml:description",
    "format:xml:tags",
    "format:xml:input-schema",
    "format:xml:output-schema",
    "format:xml:field-required",
    "format:xml:field-limits",
    "format:xml:field-text",
)
def test_the_xml_answer_has_the_layout_of_the_seed(plane: ControlPlane) -> None:
    """Section 3.5, element by element."""
    plane.register(RESEARCH)

    answer = plane.raw(QUERY)
    root = PARSE(answer.content)

    assert answer.text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n')
    assert (root.tag, list(root.attrib)) == ("discovery", ["discovered_at"])
    summary, capabilities = root
    assert summary.attrib == {"total_agents": "1", "total_reasoners": "1", "total_skills": "1"}
    (found,) = capabilities
    assert found.tag == "agent"
    assert list(found.attrib) == [
        "id",
        "base_url",
        "version",
        "health_status",
        "deployment_type",
        "last_heartbeat",
    ]
    reasoners, skills = found
    (reasoner,), (skill,) = reasoners, skills
    assert (reasoner.tag, reasoner.attrib) == (
        "reasoner",
        {"id": "deep_research", "target": "agent-research-001:deep_research"},
    )
    assert skill.attrib["target"] == "agent-research-001:skill:web_search"
    assert reasoner.findtext("description") == "Performs comprehensive research"
    assert [tag.text for tag in reasoner.findall("tags/tag")] == ["research", "ml", "synthesis"]
    query, depth = reasoner.findall("input_schema/field")
    assert (query.attrib, query.text) == (
        {"name": "query", "type": "string", "required": "true"},
        "Research query or topic",
    )
    assert depth.attrib == {"name": "depth", "type": "integer", "min": "1", "max": "5", "default": "3"}
    assert reasoner.find("output_schema/field[@name='findings'][@type='array']") is not None
    assert skill.find("output_schema") is None


@requirement("format:xml:field-limit-spellings")
def test_limits_in_the_short_spelling_are_the_same(plane: ControlPlane) -> None:
    """`min` and `max`, as the refined part of the seed writes them."""
    short = {"type": "object", "properties": {"depth": {"type": "integer", "min": 1, "max": 5}}}
    plane.register(registration("a") | {"reasoners": [{"id": "r", "input_schema": short}]})

    field = PARSE(plane.raw(QUERY).content).find(".//field")
    assert field is not None
    assert field.attrib == {"name": "depth", "type": "integer", "min": "1", "max": "5"}


def test_nested_objects_nest() -> None:
    """An object in an object, and objects in a list."""
    nested = {
        "type": "object",
        "properties": {
            "filter": {"type": "object", "properties": {"lang": {"enum": ["en", "zh"]}}, "required": ["lang"]},
            "rows": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": ["string", "null"]}}}},
        },
    }
    root = rendered(nested)

    assert [field.attrib["name"] for field in root.findall(".//input_schema/field")] == ["filter", "rows"]
    lang = root.find(".//field[@name='filter']/field")
    assert lang is not None
    assert lang.attrib == {"name": "lang", "type": "any", "required": "true", "enum": "en|zh"}
    row = root.find(".//field[@name='rows']/field")
    assert row is not None
    assert row.attrib["type"] == "string|null"


def rendered(document: object, text: str = "a") -> ET.Element:
    """Render one agent whose words and schema are given, and parse the answer."""
    item = Capability(
        kind="reasoner",
        id="r" + text,
        description=text,
        tags=(text,),
        binding=Binding(AgentServer(base_url="http://x")),
        input_schema=Json(msgspec.json.encode(document)),
        examples=Json(b'[{"input":{"a":"]]>&<"}}]'),
    )
    owner = Agent(id="x" + text, base_url="http://x", version=text, capabilities=(item,), reasoner_count=1)
    head, items = render_xml.agent_fragments(owner, Query(format="xml", input_schema=True, examples=True))
    body = head + render_xml.agent_heartbeat(b"2026-01-01T00:00:00Z") + render_xml.agent_tail(items, [])
    page = Page(total_agents=1, total_reasoners=1, total_skills=0, has_more=False, matches=())
    return PARSE(b"".join(render_xml.document("x", page, [body])))


@given(json_values | st.dictionaries(st.sampled_from(["properties", "required", "type"]), json_values), st.text())
def test_whatever_an_agent_says_the_answer_is_well_formed(document: object, text: str) -> None:
    """Control characters, quotes, brackets and odd schemas; what XML can hold comes back as it was."""
    root = rendered(document, text)

    found = root.find(".//description")
    if text:
        assert found is not None
        assert [a for a, b in zip(found.text or "", text, strict=True) if a not in (b, "\ufffd")] == []
