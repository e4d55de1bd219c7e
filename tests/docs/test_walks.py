"""Every page that somebody would follow from top to bottom is followed so, in a fresh checkout.

Translations have the same examples to the byte, which is tested beside them, so they are not followed once more.
"""

from pathlib import Path

import pytest
from tests.docs.documents import ROOT, blocks, commands
from tests.docs.walk import Walk, need_tools
from tests.sdk_go.golang import need_go
from tests.support import requirement


@requirement("docs:integration:hour")
def test_the_tutorial_leads_to_executed_capabilities(tmp_path: Path) -> None:
    """Over REST, from Python, over MCP, and one of their own: within the time limit of a test, so within the hour."""
    need_tools()
    with Walk(tmp_path) as reader:
        reader.follow(ROOT / "docs/tutorial.md")

        assert "com.example.stdio-notes" in reader.answer
        assert [agent["agent_id"] for agent in reader.discovered()] == ["demo-statistician", "demo-writer", "shop"]


def test_an_app_is_written_checked_tried_and_published(tmp_path: Path) -> None:
    """On a web site, in a home and in a registry; at the end both apps are found."""
    need_tools()
    with Walk(tmp_path) as reader:
        reader.follow(ROOT / "docs/guides/APP_DEVELOPER.md")

        assert reader.answer.endswith("2 apps, 0 descriptors that cannot be used\n")


def test_agents_in_python_and_go_find_and_call_each_other(tmp_path: Path) -> None:
    """The page for agent developers, with both agents running at its end."""
    need_tools()
    need_go()
    with Walk(tmp_path) as reader:
        reader.follow(ROOT / "docs/guides/AGENT_DEVELOPER.md")

        assert [agent["agent_id"] for agent in reader.discovered()] == ["greeter", "librarian", "shell-agent"]


def test_a_control_plane_with_keys_and_rules_is_set_up(tmp_path: Path) -> None:
    """The page for platform teams, from the settings file to a published app and what a model may not run."""
    need_tools()
    with Walk(tmp_path) as reader:
        reader.follow(ROOT / "docs/guides/PLATFORM_TEAMS.md")

        assert reader.answer == '"code":"CONSENT_REQUIRED"\n'


@pytest.mark.parametrize("guide", ["AI_ORCHESTRATOR", "DYNAMIC_ROUTING", "SCHEMA_VALIDATION"])
def test_a_guide_with_a_program_is_followed(guide: str, tmp_path: Path) -> None:
    """The server in one terminal, the program in another, and the program as it is printed."""
    need_tools()
    with Walk(tmp_path) as reader:
        reader.follow(ROOT / f"docs/guides/{guide}.md")

        assert reader.answer


@pytest.mark.parametrize("example", ["agent", "dynamic_routing", "orchestrator", "schema_validation"])
def test_an_example_runs_as_its_page_says(example: str, tmp_path: Path) -> None:
    """Beside a control plane with its sample agents, which the page asks for."""
    need_tools()
    with Walk(tmp_path) as reader:
        reader.serve()
        reader.follow(ROOT / f"examples/{example}/README.md")

        assert reader.answer


def test_a_server_for_others_without_a_key_refuses_as_shown(tmp_path: Path) -> None:
    """The one command of the operations page that is meant to fail."""
    need_tools()
    (shown,) = [block for block in blocks(ROOT / "docs/operations.md") if block.marker == "refusal"]
    (command,) = commands(shown)
    with Walk(tmp_path) as reader:
        assert reader.type(f"{command.text} 2>&1 || echo exit code $?") == f"{command.output}\nexit code 2\n"
