"""The documents of the gateway are true: a reader follows them in a checkout, and sees what they show.

In a document, `/path/to/` is that checkout. The console example marked `site` runs in another terminal meanwhile, the
one marked `key` in a home that needs a key, and the one marked `sign-in` beside a site that wants a sign-in.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.clients.clients import MODULES, NODE
from tests.docs.documents import ROOT, blocks, commands, steady, steady_json
from tests.gateways import GATEWAY, Page, Site, environment_of, web_app
from tests.leaks import secret

from switchboard.catalog.errors import CODES
from switchboard.descriptors.document import LARGEST
from switchboard.mcp.greeting import LEGACY, MODERN
from switchboard.mcp.server import PAGE
from switchboard.mcp.stdio import LONGEST
from switchboard.net.fetch import Limits

REFERENCE = ROOT / "docs/gateway.md"
REALPATH = "realpath .venv/bin/aai-gateway"
SWITCHBOARD = str(Path(GATEWAY[0]).with_name("switchboard"))
CLIENT = {"AAI_<APP>_CLIENT_ID", "AAI_<APP>_CLIENT_SECRET"}
UNTOLD = {"LC_ALL", "LC_MESSAGES", "LANG"}
"""Variables that `--help` leaves to the reference."""
BETWEEN = "\x1e"
"""Printed between the outputs of two commands: the ASCII character for this purpose."""


class Checkout:
    """A reader's copy of the repository, and their terminal in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkout"
        self.folder.mkdir()
        (self.folder / ".venv").symlink_to(sys.prefix)
        (self.folder / "examples").symlink_to(ROOT / "examples")
        self.environment = environment_of(folder)
        del self.environment["AAI_HOME"], self.environment["PYTHONPATH"]
        # Not the keychain of whoever runs these tests.
        self.environment |= {"SWITCHBOARD_VAULT": "file", "SWITCHBOARD_PASSPHRASE": secret("passphrase")}

    def type(self, *lines: str) -> list[str]:
        """Type commands into one terminal and return what each of them prints."""
        script = "".join(f"{line}\nprintf '{BETWEEN}'\n" for line in lines)
        done = subprocess.run(  # noqa: S603 - our own documents
            ["bash", "-e", "-o", "pipefail", "-c", script],  # noqa: S607 - wherever bash is
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return [output.replace(f"{self.folder}/", "/path/to/") for output in done.stdout.split(BETWEEN)[:-1]]

    def gateway(self) -> str:
        """Return the path of the command, in the way the reference tells."""
        (printed,) = self.type(REALPATH)
        return printed.strip()

    def key(self) -> tuple[str, str]:
        """Return the commands that make a key and name it, in the way the reference tells; they take it from there."""
        (made,) = [block for block in blocks(REFERENCE) if block.marker == "key"]
        (command,) = commands(made)
        self.environment.pop("SWITCHBOARD_PASSPHRASE", None)
        return command.text, "export SWITCHBOARD_KEY_FILE=~/.switchboard-key"

    @contextmanager
    def site(self, typed: str) -> Generator[int]:
        """Run the web server of the document, on a free port, for as long as the block lasts."""
        *before, serve = typed.removesuffix(" 8000").splitlines()
        self.type(*before)
        with subprocess.Popen(  # noqa: S603 - our own documents
            ["bash", "-c", f"exec {serve} 0"],  # noqa: S607 - wherever bash is
            cwd=self.folder,
            env={**self.environment, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as server:
            assert server.stdout is not None
            port = re.search(r"port (\d+)", server.stdout.readline())
            assert port is not None
            try:
                yield int(port[1])
            finally:
                server.send_signal(signal.SIGINT)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Return a checkout of somebody who has a shell; where CI has none, that is a failure and no excuse."""
    if shutil.which("bash") is None and not os.environ.get("CI"):
        pytest.skip("no bash on this machine: the examples in the documents were not run")
    return Checkout(tmp_path)


def section(heading: str) -> str:
    """Return what stands below one heading of the reference."""
    text = REFERENCE.read_text(encoding="utf-8")
    found = re.search(rf"^#+ {heading}\n(.*?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1]


def first_cells(text: str) -> str:
    return "\n".join(re.findall(r"^\| (.*?) \|", text, re.MULTILINE))


def help_text(*command: str) -> str:
    asked = [*(command or GATEWAY), "--help"]
    return subprocess.run(asked, capture_output=True, encoding="utf-8", check=True).stdout  # noqa: S603 - ours


def options(text: str) -> set[str]:
    return set(re.findall(r"--[a-z][a-z-]*", text))


def settled(text: str) -> str:
    """Return a text without what differs from run to run: how long calls took, and where the checkout is."""
    return re.sub(r" +(TOOK|\d+ ms)$", " TOOK", re.sub(r"file:///\S+", "FILE", steady(text)), flags=re.MULTILINE)


def constant(module: str, name: str) -> float:
    """Return a number of the program, wherever its module lies."""
    texts = [file.read_text(encoding="utf-8") for file in (ROOT / "src/switchboard").rglob(module)]
    (found,) = [value for text in texts for value in re.findall(rf"^{name} = ([\d.]+)$", text, re.MULTILINE)]
    return float(found)


def shown_configuration(document: Path) -> dict[str, Any]:
    (shown,) = [block for block in blocks(document) if block.language == "json" and "mcpServers" in block.text]
    return json.loads(shown.text)


def test_the_configuration_shown_starts_the_gateway_in_a_client(checkout: Checkout) -> None:
    """Pasted into the file of a client (the inspector), with the path that the command beside it prints."""
    if not MODULES.exists() and not os.environ.get("CI"):
        pytest.skip("the official MCP clients are not installed; `make setup` does it")
    configuration = shown_configuration(REFERENCE)
    entry = configuration["mcpServers"]["aai-gateway"]
    assert entry["command"] == "/path/to/.venv/bin/aai-gateway"
    entry["command"] = checkout.gateway()
    file = checkout.folder / "client.json"
    file.write_text(json.dumps(configuration), encoding="utf-8")
    inspector = MODULES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"

    done = subprocess.run(  # noqa: S603 - our own programs
        [
            *(str(NODE), str(inspector), "--cli", "--config", str(file), "--server", "aai-gateway"),
            *("--method", "tools/list", "--format", "json"),
        ],
        cwd="/",
        env=checkout.environment,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    names = [tool["name"] for tool in json.loads(done.stdout)["result"]["tools"]]
    assert entry["args"] == ["--tool-names", "portable"]
    assert names[-2:] == ["web_discover", "aai_exec"]


def test_every_example_of_the_reference_does_what_it_shows(checkout: Checkout) -> None:
    """Typed into one terminal from top to bottom, with the web server of the document beside it."""
    found = [block for block in blocks(REFERENCE) if "mcpServers" not in block.text]
    (site,) = [block for block in found if block.marker == "site"]
    typed = [
        command for block in found if block.language == "console" and not block.marker for command in commands(block)
    ]

    with checkout.site("\n".join(command.text for command in commands(site))) as port:
        lines = [command.text.replace("localhost:8000", f"localhost:{port}") for command in typed]
        printed = checkout.type(*lines)

    for command, output in zip(typed, printed, strict=True):
        if command.output:
            assert settled(output) == settled(command.output), command.text
    answers = {block.text: steady_json(block.text) for block in found if block.language == "json"}
    shown_below = (output for command, output in zip(typed, printed, strict=True) if not command.output)
    outputs = [steady_json(output) for output in shown_below if output.startswith("{")]
    assert {block.language for block in found} == {"console", "json"}
    assert {block.marker for block in found} == {"", "site", "key", "sign-in"}
    assert list(answers.values()) == outputs


def test_the_key_of_the_reference_opens_a_vault(checkout: Checkout) -> None:
    """Made as shown, and named as told, it is what decisions are kept with."""
    make, name = checkout.key()
    grant = "AAI_HOME=examples/home .venv/bin/switchboard consent grant com.example.notes --caller me --yes"

    *_, granted, listed = checkout.type(make, name, grant, ".venv/bin/switchboard consent list")

    assert granted.endswith("It is allowed.\n")
    assert listed.endswith("1 decision\n")


def test_the_sign_in_of_the_reference_works_as_shown(checkout: Checkout) -> None:
    """With a site on this machine in the place of the one that is named."""
    (block,) = [block for block in blocks(REFERENCE) if block.marker == "sign-in"]
    auth = {"type": "apiKey", "apiKey": {"location": "header", "name": "X-Key", "obtainUrl": "https://a.test"}}
    (checkout.folder / "typed").write_text(secret("key"), encoding="utf-8")

    with Site({"/search": Page(body=b"{}", kind="application/json")}) as site:
        site.publish(web_app("com.example.board", site.url, "Board", auth=auth))
        lines = [_here(command.text, site.url) for command in commands(block)]
        _, _, *outputs = checkout.type(*checkout.key(), *lines)
        printed = [output.replace(site.url, "https://board.example") for output in outputs]

    assert printed[0].endswith("You are signed in.\n")
    assert printed[1].endswith("It is allowed.\n")
    for command, output in zip(commands(block), printed, strict=True):
        if command.output:
            assert steady(output) == steady(command.output), command.text


def _here(command: str, url: str) -> str:
    """Return a command as somebody would type it for a site on this machine, with their key."""
    if "https://board.example" not in command:
        return command
    return f"{command.replace('https://board.example', url)} --dev 2>/dev/null < typed"


def test_every_option_stands_in_the_reference() -> None:
    """The table of options and `--help` have the same ones."""
    table = first_cells(section("Start").partition("| variable |")[0])

    assert options(table) == options(help_text())


@pytest.mark.parametrize(("heading", "commands"), [("consent", "list grant revoke"), ("auth", "list login logout")])
def test_every_option_of_the_terminal_stands_in_the_reference(heading: str, commands: str) -> None:
    """Each command has one row, with its options; what both groups have is told once."""
    told = section(f"switchboard {heading}")
    rows = dict(re.findall(rf"^\| `switchboard {heading} (\w+).*?` \|(.*)$", told, re.MULTILINE))

    assert list(rows) == commands.split()
    for name in rows:
        row = next(line for line in told.splitlines() if line.startswith(f"| `switchboard {heading} {name}"))
        wanted = options(help_text(SWITCHBOARD, heading, name)) - {"--help", "--dev"}
        assert options(row) == wanted, name
    assert "`--dev`" in told


def test_every_way_to_ask_stands_in_the_reference() -> None:
    """The table and the option have the same ones, in the same order."""
    found = re.search(r"--consent \{([\w,]+)\}", help_text())
    assert found is not None

    assert re.findall(r"^\| `(\w+)` \|", section("Being asked").partition("| `--consent` |")[2], re.MULTILINE)[:5] == (
        found[1].split(",")
    )


def test_every_variable_stands_in_the_reference() -> None:
    """The table of variables has those of `--help`, the usual ones of the user's language, and few others."""
    table = first_cells(section("Start").partition("| variable |")[2])
    named = set(re.findall(r"^  ([A-Z][A-Z_]{3,})[ /]", help_text(), re.MULTILINE))

    assert named
    assert "  AAI_<APP>_CLIENT_ID, _SECRET " in help_text()
    named |= CLIENT
    assert set(re.findall(r"`([A-Z_]+(?:<APP>[A-Z_]+)?)`", table)) == named | UNTOLD


def test_every_error_code_stands_in_the_reference() -> None:
    """The table of errors and the error tree have the same codes, in the same order."""
    assert re.findall(r"`([A-Z_]+)`", first_cells(section("Errors"))) == list(CODES)


def test_every_protocol_version_stands_in_the_reference() -> None:
    """Older ones first."""
    shown = re.findall(r"\d{4}-\d\d-\d\d", first_cells(section("Protocol versions")))

    assert shown == [*reversed(LEGACY), *MODERN]


def test_the_limits_are_those_of_the_program() -> None:
    """What the table says in words is what the code says in numbers."""
    table = section("Limits")

    assert f"| {LONGEST // 1024**2} MiB; a longer one" in table
    assert f"| {PAGE} entries;" in table
    assert f"| a descriptor | {LARGEST // 1024**2} MiB |" in table
    assert f"| {Limits().seconds:g} seconds with all redirects, of which at most {Limits().redirects} |" in table
    assert f"| a call that waits for the user | {constant('questions.py', 'PATIENCE_S'):g} seconds |" in table
    assert f"| an open question | {constant('questions.py', 'OPEN_S') / 60:g} minutes |" in table
    assert f"| questions open at once | {constant('questions.py', '_MOST_OPEN'):g} " in table
