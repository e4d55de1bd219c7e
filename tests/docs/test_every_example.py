"""No example escapes: each is run or read by a test that is named here, or says above itself why it is not.

`<!-- not run: ... -->` on the line before an example is that reason.
"""

import re
from pathlib import Path

import pytest
from tests.docs.documents import ROOT, Block, blocks, documents
from tests.docs.test_security_docs import collected
from tests.docs.walk import is_file

MUST = {"console", "python", "go", "json", "sh", "bash", "shell"}
"""Languages in which somebody would paste something."""
TRANSLATION = "test_languages.py::test_a_translation_has_the_same_examples"
GUIDE = "test_walks.py::test_a_guide_with_a_program_is_followed"
EXAMPLE = "test_walks.py::test_an_example_runs_as_its_page_says"
API = {
    "": "test_documents.py::test_every_example_of_a_document_does_what_it_shows",
    "log": "test_documents.py::test_every_example_of_a_document_does_what_it_shows",
    "store-down": "test_documents.py::test_a_server_without_its_store_answers_as_shown",
    "failure": "test_documents.py::test_a_failure_inside_has_the_body_shown",
    "refused": "test_documents.py::test_the_settings_file_shown_gives_callers_names_and_rules",
}


def walked(test: str) -> dict[str, str]:
    """Return what a walk does: commands, commands for other terminals, files."""
    return dict.fromkeys(("", "server", "FILE"), test)


RUN: dict[str, dict[str, str]] = {
    "README.md": walked("test_readme.py::test_everything_on_the_first_page_works_as_pasted"),
    "README.zh-CN.md": walked(TRANSLATION),
    "docs/tutorial.md": walked("test_walks.py::test_the_tutorial_leads_to_executed_capabilities"),
    "docs/zh-CN/tutorial.md": walked(TRANSLATION),
    "docs/guides/APP_DEVELOPER.md": walked("test_walks.py::test_an_app_is_written_checked_tried_and_published"),
    "docs/zh-CN/app-developer.md": walked(TRANSLATION),
    "docs/guides/AGENT_DEVELOPER.md": walked("test_walks.py::test_agents_in_python_and_go_find_and_call_each_other"),
    "docs/guides/PLATFORM_TEAMS.md": walked("test_walks.py::test_a_control_plane_with_keys_and_rules_is_set_up"),
    "docs/guides/AI_ORCHESTRATOR.md": walked(GUIDE),
    "docs/guides/DYNAMIC_ROUTING.md": walked(GUIDE),
    "docs/guides/SCHEMA_VALIDATION.md": walked(GUIDE),
    "docs/guides/USING_DISCOVERY_API.md": API,
    "docs/api/AGENT_REGISTRATION.md": API,
    "docs/api/DISCOVERY_API.md": API,
    "docs/api/EXECUTION_API.md": API,
    "docs/api/REGISTRY_API.md": API,
    "docs/api/WATCH_API.md": API,
    "docs/api/MCP_HTTP.md": {
        **API,
        "allowed": "test_documents.py::test_the_rules_shown_let_the_call_pass_that_was_refused",
        "config": "test_documents.py::test_the_configuration_shown_opens_the_door",
    },
    "docs/gateway.md": {
        "": "test_gateway_docs.py::test_every_example_of_the_reference_does_what_it_shows",
        "site": "test_gateway_docs.py::test_every_example_of_the_reference_does_what_it_shows",
        "key": "test_gateway_docs.py::test_the_key_of_the_reference_opens_a_vault",
        "sign-in": "test_gateway_docs.py::test_the_sign_in_of_the_reference_works_as_shown",
    },
    "docs/install.md": {"": "test_install_docs.py::test_every_command_prints_what_is_shown"},
    "docs/operations.md": {
        "refusal": "test_walks.py::test_a_server_for_others_without_a_key_refuses_as_shown",
        "sqlite": "test_deploy.py::test_a_backup_made_as_the_guide_says_brings_everything_back",
        "postgresql": "test_deploy.py::test_a_dump_made_as_the_guide_says_brings_everything_back",
    },
    "examples/agent/README.md": walked(EXAMPLE),
    "examples/dynamic_routing/README.md": walked(EXAMPLE),
    "examples/orchestrator/README.md": walked(EXAMPLE),
    "examples/schema_validation/README.md": walked(EXAMPLE),
    "sdk/python/README.md": {
        "": "test_documents.py::test_every_program_of_the_readme_prints_what_it_shows",
        "compiled": "test_documents.py::test_every_program_of_the_readme_prints_what_it_shows",
    },
    "sdk/go/README.md": {
        "": "test_go_readme.py::test_every_piece_of_code_runs",
        "module": "test_go_readme.py::test_a_module_of_ones_own_uses_the_sdk",
    },
    "tests/sdk_python/snippets.md": {"": "test_snippets.py::test_all_sixteen_pieces_are_here"},
}


def accounted(name: str, block: Block) -> bool:
    """Say whether an example is run, or says why not."""
    marker = "FILE" if is_file(block.marker) else block.marker
    return bool(block.why.strip()) or marker in RUN.get(name, {})


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_example_is_run_or_says_why_not(document: Path) -> None:
    """Also those that are indented, or have a form that the tests would overlook."""
    name, found = str(document.relative_to(ROOT)), [block for block in blocks(document) if block.language in MUST]
    opened = re.findall(r"^[ \t>]*(?:```|~~~) ?(\w+)", document.read_text(encoding="utf-8"), re.MULTILINE)

    assert len(found) == len([language for language in opened if language in MUST])
    assert [str(block) for block in found if not accounted(name, block)] == []


def test_every_test_that_is_named_here_exists() -> None:
    """One that is renamed takes its line along; a document that is gone, too."""
    assert {test for tests in RUN.values() for test in tests.values()} - collected() == set()
    assert [name for name in RUN if not (ROOT / name).is_file()] == []


def test_an_example_that_nobody_runs_is_noticed(tmp_path: Path) -> None:
    """So that the test above can fail: in a document that nobody knows, only the one with a reason passes."""
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ true\n```\n\n<!-- not run: needs a moon -->\n```console\n$ land\n```\n", encoding="utf-8"
    )

    assert [accounted("page.md", block) for block in blocks(page)] == [False, True]
