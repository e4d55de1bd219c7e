"""Every Go snippet of seed 004 for users of the SDK, word for word, compiled and run against agents that really run.

A snippet that is no whole program gets what stands around it: a package, imports, `app`, `ctx`, and at the end a use of
every variable, without which Go compiles nothing. The snippet of the refined part declares a named function inside
`main` and returns a value from it, which no Go compiler takes; `MENDED` has the two lines that are changed for that.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.sdk_go.golang import HERE, build, go, module_file, need_go, run
from tests.servers import ControlPlane
from tests.support import requirement

SNIPPETS = HERE / "snippets"
PACKAGE = '"github.com/Agent-Field/agentfield/sdk/go/agent"'
MENDED = (
    ("    func routeToBestReasoner(userQuery string) {", "    routeToBestReasoner := func(userQuery string) any {"),
    ("\n    }\n}\n", "\n    return nil\n    }\n"),
)
# What stands beside every snippet: `show` uses variables, and prints them.
BESIDE = """package main

import (
	"encoding/json"
	"os"
)

func show(values ...any) {
	if err := json.NewEncoder(os.Stdout).Encode(values); err != nil {
		panic(err)
	}
}

func matchesRequirements(schema map[string]interface{}, query string) bool {
	properties, _ := schema["properties"].(map[string]interface{})
	return properties["query"] != nil && query != ""
}
"""
TYPES = """
type Pagination = agent.Pagination

func main() {
	pairs := [][2]reflect.Type{
		{reflect.TypeOf(DiscoveryResponse{}), reflect.TypeOf(agent.DiscoveryResponse{})},
		{reflect.TypeOf(AgentCapability{}), reflect.TypeOf(agent.AgentCapability{})},
		{reflect.TypeOf(ReasonerCapability{}), reflect.TypeOf(agent.ReasonerCapability{})},
		{reflect.TypeOf(SkillCapability{}), reflect.TypeOf(agent.SkillCapability{})},
	}
	told := map[string][][3]string{}
	for _, pair := range pairs {
		for place := range pair[0].NumField() {
			printed := pair[0].Field(place)
			ours, _ := pair[1].FieldByName(printed.Name)
			wanted := strings.ReplaceAll(printed.Type.String(), "main.", "agent.")
			said := ""
			if ours.Type == nil || ours.Type.String() != wanted || ours.Tag != printed.Tag {
				said = "differs"
			}
			told[pair[0].Name()] = append(told[pair[0].Name()], [3]string{printed.Name, printed.Tag.Get("json"), said})
		}
	}
	empty, _ := json.Marshal([]any{agent.ReasonerCapability{}, agent.SkillCapability{}})
	show(told, json.RawMessage(empty))
}
"""


def snippet(name: str) -> str:
    return (SNIPPETS / f"{name}.go.txt").read_text(encoding="utf-8")


def fragment(name: str, *variables: str) -> str:
    """Return a program around statements."""
    code = snippet(name)
    imports = ['"context"', *(['"fmt"'] if "fmt." in code else []), PACKAGE]
    begin = "func main() {\n\tapp := agent.NewAgent()\n\tctx := context.Background()\n"
    return _program(imports, f"{begin}{code}\n\tshow({', '.join(variables)})\n}}\n")


def signature() -> str:
    """Return a program around the call of 13.2, whose imports are its own."""
    imports, statements = snippet("13.2-signature").split("\n\n", 1)
    return f"package main\n\n{imports}\n\nfunc main() {{\n{statements}\n\tshow(capabilities, err)\n}}\n"


def refined() -> str:
    """Return the program of the refined part, with what no compiler takes mended."""
    code = snippet("refined-integration")
    for printed, mended in MENDED:
        assert code.count(printed) == 1
        code = code.replace(printed, mended)
    used = "caps, err, researchReasoners, mlCaps, xmlManifest.String(), routeToBestReasoner"
    return f'{code}\n\tshow({used}("AI trends 2025"))\n}}\n'


def types() -> str:
    """Return a program that compares the types of 13.4 with ours, field by field."""
    imports = ['"encoding/json"', '"reflect"', '"strings"', '"time"', PACKAGE]
    return _program(imports, snippet("13.4-types") + TYPES)


def _program(imports: list[str], code: str) -> str:
    return "package main\n\nimport (\n" + "\n".join(imports) + f"\n)\n\n{code}"


PROGRAMS = {
    "signature": signature(),
    "basic": snippet("13.3-basic"),
    "wildcards": fragment("13.3-wildcards", "researchCaps", "webSkills", "mlCaps", "err"),
    "access": fragment("13.3-access"),
    "execute": fragment("13.3-execute", "result", "err"),
    "xml": fragment("13.3-xml", "systemPrompt"),
    "compact": fragment("13.3-compact", "compactCaps", "compactCaps.Compact", "err"),
    "types": types(),
    "refined": refined(),
}


class Snippets:
    """The programs, built."""

    def __init__(self, folder: Path, server: str) -> None:
        self._folder = folder
        self._server = server

    def text(self, name: str) -> str:
        """Run one, and return what it printed."""
        return run(self._folder / name, self._server)

    def shown(self, name: str) -> list[Any]:
        """Run one, and return the variables it showed at its end."""
        return json.loads(self.text(name).splitlines()[-1])


@pytest.fixture(scope="module")
def snippets(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Snippets:
    need_go()
    module = tmp_path_factory.mktemp("snippets")
    for name, code in PROGRAMS.items():
        folder = module / name
        folder.mkdir()
        (folder / "main.go").write_text(code, encoding="utf-8")
        (folder / "beside.go").write_text(BESIDE, encoding="utf-8")
    module_file(module)
    go("vet", "./...", folder=module)
    return Snippets(build(module, module / "bin"), plane.url)


def test_the_programs_contain_the_snippets_word_for_word() -> None:
    """But for the two mended lines, and the split between imports and statements of 13.2."""
    for file in SNIPPETS.glob("13.*.go.txt"):
        printed = file.read_text(encoding="utf-8")
        parts = printed.split("\n\n", 1) if file.name.startswith("13.2") else [printed]
        assert any(all(part in program for part in parts) for program in PROGRAMS.values()), file.name
    kept = set(snippet("refined-integration").splitlines()) - set(PROGRAMS["refined"].splitlines())
    assert kept == {"    func routeToBestReasoner(userQuery string) {"}


@requirement("sdk-go:signature:snippet")
def test_the_call_with_every_option(snippets: Snippets) -> None:
    """13.2: a reasoner with the tag `ml`, and of the skills that start with `web_` the one with a tag `mlops`."""
    found, err = snippets.shown("signature")

    assert err is None
    assert [one["agent_id"] for one in found["capabilities"]] == ["a1", "agent-001"]
    agent = found["capabilities"][1]
    assert [one["id"] for one in agent["reasoners"]] == ["deep_research"]
    assert [one["id"] for one in agent["skills"]] == ["web_scrape"]
    assert agent["reasoners"][0]["input_schema"]["required"] == ["query"]


@requirement("sdk-go:example:basic")
def test_the_basic_program_shows_the_numbers(snippets: Snippets) -> None:
    """13.3, as printed, a whole program."""
    assert snippets.text("basic") == "Found 3 agents\nFound 6 reasoners\nFound 6 skills\n"


@requirement("sdk-go:example:wildcards")
def test_the_wildcard_snippet_finds_by_reasoner_skill_and_tag(snippets: Snippets) -> None:
    """13.3."""
    research, web, ml, err = snippets.shown("wildcards")

    assert err is None
    assert {one["id"] for agent in research["capabilities"] for one in agent["reasoners"]} == {"deep_research"}
    assert {one["id"] for agent in web["capabilities"] for one in agent["skills"]} == {"web_search", "web_scrape"}
    assert (ml["total_reasoners"], ml["total_skills"]) == (3, 3)


@requirement("sdk-go:example:access")
def test_the_access_snippet_shows_agents_and_reasoners(snippets: Snippets) -> None:
    """13.3."""
    lines = snippets.text("access").splitlines()

    assert lines[0] == "Agent: a1"
    assert lines[1:4] == ["  Reasoner: deep_research", "  Target: a1:deep_research", "  Tags: [research ml synthesis]"]
    assert lines[4].startswith("  Input Schema: map[properties:map[depth:map[")


@requirement("sdk-go:example:execute")
def test_the_execute_snippet_runs_the_discovered_target(snippets: Snippets) -> None:
    """13.3: by an agent in Go, which fills in the default depth."""
    result, err = snippets.shown("execute")

    assert err is None
    assert (result["status"], result["target"]) == ("succeeded", "a1.deep_research")
    assert result["result"] == {"findings": ["found: AI trends 2025"], "depth": 3, "confidence": 0.5}


@requirement("sdk-go:example:xml")
def test_the_xml_snippet_puts_the_xml_into_the_prompt(snippets: Snippets) -> None:
    """13.3: `%s` gives the text."""
    (prompt,) = snippets.shown("xml")

    assert prompt.startswith('\nYou have access to these capabilities:\n\n<?xml version="1.0" encoding="UTF-8"?>')
    assert '<agent id="agent-research-001"' in prompt
    assert prompt.endswith("</discovery>\n\n\nSelect and use the appropriate capability for the user's request.\n")


@requirement("sdk-go:example:compact")
def test_the_compact_snippet_gives_the_minimal_data(snippets: Snippets) -> None:
    """13.3: ids, agents, targets and tags, and one loop for every format."""
    found, compact, err = snippets.shown("compact")

    assert err is None
    assert {frozenset(one) for one in compact["reasoners"]} == {frozenset({"id", "agent_id", "target", "tags"})}
    assert len(compact["reasoners"]) == len(compact["skills"]) == 6
    assert [one["agent_id"] for one in found["capabilities"]] == ["a1", "agent-001", "agent-research-001"]


@requirement("sdk-go:types:response", "sdk-go:types:agent", "sdk-go:types:reasoner", "sdk-go:types:skill")
def test_the_types_are_those_of_the_seed_field_by_field(snippets: Snippets) -> None:
    """13.4: names, types and JSON tags; what is empty and may be is left out."""
    told, empty = snippets.shown("types")

    assert [field for fields in told.values() for field in fields if field[2]] == []
    assert {name: len(fields) for name, fields in told.items()} == {
        "DiscoveryResponse": 6,
        "AgentCapability": 8,
        "ReasonerCapability": 7,
        "SkillCapability": 5,
    }
    assert [set(one) for one in empty] == [{"id", "tags", "invocation_target"}] * 2


@requirement("sdk-go:refined:no-context", "sdk-go:refined:integration")
def test_the_refined_snippet_discovers_selects_and_executes_without_a_context(snippets: Snippets) -> None:
    """The refined part: `app.Discover(...)` and `app.Execute(request)` with no context at all."""
    caps, err, research, ml, xml, result = snippets.shown("refined")

    assert err is None
    assert (caps["total_agents"], research["total_reasoners"], ml["total_agents"]) == (3, 3, 3)
    assert "output_schema" in ml["capabilities"][0]["reasoners"][0]
    assert xml.startswith("<?xml")
    assert result["result"]["findings"] == ["found: AI trends 2025"]
