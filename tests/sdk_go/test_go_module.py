"""The Go SDK by Go's own judges: format, vet, its own tests under the race detector, and no dependency."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.sdk_go.golang import HERE, SDK, go, need_go
from tests.support import requirement

MODULES = (SDK, HERE / "programs")


@pytest.fixture(autouse=True)
def _with_go() -> None:
    need_go()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.name))
def test_the_code_is_formatted_and_vetted(module: Path) -> None:
    """As every Go programmer expects."""
    gofmt = Path(go("env", "GOROOT", folder=module).strip()) / "bin/gofmt"
    listed = subprocess.run([str(gofmt), "-l", str(module)], capture_output=True, text=True, check=True)  # noqa: S603

    go("vet", "./...", folder=module)
    assert listed.stdout == ""


@pytest.mark.timeout(420)
def test_its_own_tests_pass_under_the_race_detector() -> None:
    """Where there is no C compiler, without it."""
    has_cgo = go("env", "CGO_ENABLED", folder=SDK).strip() == "1"

    go("test", *(["-race"] if has_cgo else []), "./...", folder=SDK)


@requirement("sdk-go:module:path")
def test_the_package_has_the_path_of_the_seed_and_needs_nothing_else() -> None:
    """`github.com/Agent-Field/agentfield/sdk/go/agent`, with the standard library only."""
    package = json.loads(go("list", "-json", "./agent", folder=SDK))
    outside = [name for name in package["Imports"] if "." in name.split("/")[0]]

    assert (package["ImportPath"], package["Name"]) == ("github.com/Agent-Field/agentfield/sdk/go/agent", "agent")
    assert outside == []
    assert "require" not in (SDK / "go.mod").read_text()
