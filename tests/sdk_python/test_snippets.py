"""Every piece of Python in the discovery document runs as it is printed, against a real server with real agents.

Names that the document uses without saying what they are (`ai_select_best_reasoner`, `matches_requirements`, ...) come
before a piece; what it leaves in its variables is printed after it. `openai` is a stand-in.
"""

import json
import re
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from tests.sdk_python.running import run
from tests.servers import ControlPlane
from tests.support import requirement

import agentfield

TEXT = (Path(__file__).parent / "snippets.md").read_text(encoding="utf-8")
SNIPPETS: dict[str, str] = dict(re.findall(r"^## (.+?)\n\n```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
APP = "from agentfield import Agent\napp = Agent()\n"
NAMES = "import json\nfrom agentfield import *\n"


def told(plane: ControlPlane, name: str, before: str = "", after: str = "") -> str:
    """Run a piece with what stands around it, and return what was printed."""
    return run(plane, f"{NAMES}{before}\n{SNIPPETS[name]}\n{after}\n")


def test_all_sixteen_pieces_are_here() -> None:
    """As many as the document has."""
    assert len(SNIPPETS) == 16


@requirement("sdk-python:signature:snippet", "sdk-python:agent:no-arguments", "sdk-python:discover:method")
def test_the_call_with_every_keyword_finds_what_fits_all_of_them(researchers: ControlPlane) -> None:
    """12.2: by agent, by lists, by patterns, by tags; with schemas and without examples."""
    after = "print([r.invocation_target for a in capabilities.capabilities for r in (*a.reasoners, *a.skills)])\n"
    after += "print(capabilities.capabilities[1].reasoners[0].input_schema['required'])"

    printed = told(researchers, "12.2 signature", after=after).splitlines()

    assert printed == [
        "['a2:skill:web_parser', 'agent-001:web_researcher', 'agent-001:skill:web_scraper']",
        "['query']",
    ]


@requirement("sdk-python:example:basic")
def test_the_basic_piece_prints_the_three_totals(researchers: ControlPlane) -> None:
    """12.3."""
    assert told(researchers, "12.3 basic").splitlines() == [
        "Found 4 agents",
        "Found 3 reasoners",
        "Found 4 skills",
    ]


@requirement("sdk-python:example:wildcards")
def test_the_wildcard_piece_finds_by_reasoner_by_skill_and_by_tag(researchers: ControlPlane) -> None:
    """12.3."""
    after = "print([[a.agent_id for a in found.capabilities] for found in (research_caps, web_skills, ml_caps)])"

    printed = told(researchers, "12.3 wildcards", APP, after)

    assert printed.strip() == str(
        [["agent-001", "agent-research-001"], ["agent-001", "agent-research-001"], ["agent-001", "agent-research-001"]]
    )


@requirement("sdk-python:example:access")
def test_the_access_piece_prints_agents_and_their_reasoners(researchers: ControlPlane) -> None:
    """12.3: id, target, tags and schema."""
    printed = told(researchers, "12.3 access", APP).splitlines()

    assert printed[:4] == [
        "Agent: agent-001",
        "  Reasoner: web_researcher",
        "  Target: agent-001:web_researcher",
        "  Tags: ['mlops', 'deep_learning']",
    ]
    assert printed[4].startswith("  Input Schema: {'type': 'object', 'properties': {'query'")
    assert printed[5] == "Agent: agent-research-001"


@requirement("sdk-python:example:execute")
def test_the_execute_piece_runs_what_it_found(researchers: ControlPlane) -> None:
    """12.3: the target as it was printed, the result as the agent gave it."""
    printed = told(researchers, "12.3 execute", APP, "print(json.dumps(result))")

    assert json.loads(printed) == {"findings": ["AI trends 2025 in depth 3"], "sources": []}


@requirement("sdk-python:example:xml")
def test_the_xml_piece_puts_the_capabilities_into_a_prompt(researchers: ControlPlane) -> None:
    """12.3: text, and nothing but text."""
    printed = told(researchers, "12.3 xml", APP, "print(system_prompt)")

    assert "You have access to these capabilities:\n\n<?xml" in printed
    assert 'target="agent-research-001:deep_research"' in printed
    assert "<description>Perform comprehensive research using multiple sources.</description>" in printed


@requirement("sdk-python:example:compact")
def test_the_compact_piece_gives_ids_agents_targets_and_tags(researchers: ControlPlane) -> None:
    """12.3."""
    after = "r = compact_caps.reasoners[-1]\nprint(r.id, r.agent_id, r.target, r.tags, len(compact_caps.skills))"

    assert told(researchers, "12.3 compact", APP, after).strip() == (
        "deep_research agent-research-001 agent-research-001:deep_research ['research', 'ml', 'synthesis'] 4"
    )


def printed_types() -> dict[str, dict[str, str]]:
    """Return the classes of 12.4 with their fields, as they are written."""
    classes: dict[str, dict[str, str]] = {}
    for line in SNIPPETS["12.4 types"].splitlines():
        if match := re.match(r"class (\w+):", line):
            classes[match[1]] = {}
        elif match := re.match(r"    (\w+): (.+)", line):
            classes[list(classes)[-1]][match[1]] = match[2]
    return classes


def written(hint: Any) -> str:
    """Write a type as the document does."""
    inner = get_args(hint)
    if get_origin(hint) is list:
        return f"List[{written(inner[0])}]"
    if type(None) in inner:
        return f"Optional[{written(inner[0])}]"
    return (get_origin(hint) or hint).__name__.replace("Dict", "dict")


@requirement(
    "sdk-python:types:response", "sdk-python:types:agent", "sdk-python:types:reasoner", "sdk-python:types:skill"
)
def test_the_types_have_every_field_of_the_document_with_its_type() -> None:
    """12.4: ours may have more."""
    for name, fields in printed_types().items():
        ours = {field: written(hint) for field, hint in get_type_hints(getattr(agentfield, name)).items()}
        assert fields.items() <= ours.items(), name


def test_the_types_of_an_answer_are_those_types(researchers: ControlPlane, app: agentfield.Agent) -> None:
    """Times are times, lists are lists, what was not asked for is None."""
    found = app.discover(agent="agent-research-001", include_output_schema=True, include_examples=True)
    agent = found.capabilities[0]

    assert researchers.url.startswith("http")
    assert found.discovered_at.tzinfo is not None
    assert (agent.version, agent.health_status, agent.deployment_type) == ("2.3.1", "active", "long_running")
    assert agent.last_heartbeat <= found.discovered_at
    assert agent.reasoners[0].output_schema == {"type": "object"}
    assert agent.reasoners[0].examples == [{"name": "Basic research query", "input": {"query": "quantum", "depth": 3}}]
    assert (agent.reasoners[0].input_schema, agent.skills[0].description) == (
        None,
        "Search the web using multiple search engines.",
    )


@requirement("sdk-python:use-case:orchestrator")
def test_use_case_1_selects_a_reasoner_and_executes_it(researchers: ControlPlane) -> None:
    """14."""
    before = f"""{APP}
user_query, user_input = "quantum", {{"query": "quantum", "depth": 1}}
def ai_select_best_reasoner(found, query):
    return max((r for a in found.capabilities for r in a.reasoners), key=lambda r: query in str(r.input_schema))
"""
    printed = told(researchers, "14 use case 1", before, "print(json.dumps(result))")

    assert json.loads(printed)["findings"] == ["quantum in depth 1"]


@requirement("sdk-python:use-case:tool-registry")
def test_use_case_2_gives_a_model_the_tools(researchers: ControlPlane) -> None:
    """14: compact answers are converted, and the provider takes them."""
    before = f"{APP}import openai\nfrom agentfield import to_openai_tools as convert_to_openai_tools\n"
    after = "call = llm_response.tool_calls[0]\nprint(from_tool_call(call, tools).target, len(tools.skills))"

    printed = told(researchers, "14 use case 2", before, after)

    assert printed.split()[1] == "4"
    assert printed.split()[0] in {"a1:summarise", "agent-001:web_researcher"}


@requirement("sdk-python:use-case:health")
def test_use_case_3_counts_the_active_agents(researchers: ControlPlane) -> None:
    """14."""
    before = f"{APP}def alert_if_below_threshold(count, min_agents): print(count, count < min_agents)\n"

    assert told(researchers, "14 use case 3", before).split() == ["4", "False"]


@requirement("sdk-python:refined:integration", "sdk-python:discover:agent-id")
def test_the_refined_piece_asks_in_every_way_and_routes(researchers: ControlPlane) -> None:
    """Every question is answered, and the route ends in a result."""
    before = "def matches_requirements(schema, query): return 'query' in schema['required']\n"
    after = """
print(capabilities.total_agents, research_reasoners.total_reasoners, ml_capabilities.total_agents,
      [a.agent_id for a in agent_caps.capabilities], xml_manifest[:5], len(targets.reasoners))
print(route_to_best_reasoner("tea"))
"""
    printed = told(researchers, "refined integration", before, after).splitlines()

    assert printed == [
        "4 2 3 ['agent-research-001'] <?xml 3",
        "{'findings': ['tea in depth 3'], 'sources': []}",
    ]


@requirement("sdk-python:refined:schema-routing")
def test_schema_based_routing_executes_what_accepts_the_input(researchers: ControlPlane) -> None:
    """The first reasoner whose schema the input fits."""
    before = f"""{APP}
def validates_against_schema(given, schema):
    return given.keys() <= schema["properties"].keys() and set(schema["required"]) <= given.keys()
"""
    after = "print(intelligent_route({'query': 'tea', 'depth': 2}))"

    printed = told(researchers, "refined schema routing", before, after)

    assert printed.strip() == "{'findings': ['tea in depth 2'], 'sources': []}"


@requirement("sdk-python:refined:tag-discovery")
def test_tag_based_discovery_finds_by_any_of_the_tags(researchers: ControlPlane) -> None:
    """Patterns and words."""
    after = "print([len(found.capabilities) for found in (ml_tools, web_tools)])"

    assert told(researchers, "refined tag discovery", APP, after).strip() == "[2, 2]"


@requirement("sdk-python:refined:just-in-time")
def test_just_in_time_selection_executes_the_target_of_a_compact_item(researchers: ControlPlane) -> None:
    """With the input as it is printed, `{...}`, which is nothing."""
    before = f"""{APP}
class ai_model:
    def select_tool(task, tools):
        return next(tool for tool in (*tools.reasoners, *tools.skills) if task in tool.id)
original = app.execute
def shown(**call):
    print(call["target"], original(**call))
"""
    after = "app.execute = shown\nai_orchestrator('web_status')"

    printed = told(researchers, "refined just in time", before, after)

    assert printed.strip() == "agent-research-001:skill:web_status the web is there"


@requirement("sdk-python:refined:orchestrated-task")
def test_the_orchestrated_task_lets_a_model_choose_and_executes(researchers: ControlPlane) -> None:
    """Discovered tools go to a model, and the one it calls is executed."""
    before = """
def get_target_from_tool_name(name, descriptions):
    return next(item["target"] for item in descriptions if item["name"] == name)
"""
    after = "print(ai_orchestrated_task('Perform comprehensive research on tea'))"

    printed = told(researchers, "refined orchestrated task", before, after)

    assert "Perform comprehensive research on tea in depth 3" in printed


@pytest.mark.parametrize("name", SNIPPETS)
def test_no_piece_was_changed_to_fit(name: str) -> None:
    """A piece is Python by itself, and calls nothing of ours but `Agent`, `discover` and `execute`."""
    compile(SNIPPETS[name], name, "exec")

    assert set(re.findall(r"\bapp\.(\w+)", SNIPPETS[name])) <= {"discover", "execute"}
