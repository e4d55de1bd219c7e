"""Whatever a stranger types: one line that says what to do, the right exit code, and never a traceback."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.errors.rows import missing
from tests.gateways import Page, Site, environment_of
from tests.servers import ControlPlane, registration

from switchboard.catalog import errors

BIN = Path(sys.executable).parent
NOT_UTF_8 = os.fsdecode(b"\xff\xfe")


class Row(NamedTuple):
    """What is typed, how it ends, and what the line says; `{plane}` and the like stand for what a ground has."""

    typed: tuple[str, ...]
    code: int
    says: tuple[str, ...]
    environment: dict[str, str] = {}  # noqa: RUF012 - never changed
    given: str = ""


class Ground:
    """A control plane that wants a key, a server that is none, a port where nobody is, and files of every kind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plane = ControlPlane(folder, SWITCHBOARD_API_KEY="right")
        self.plane.client.headers["X-API-Key"] = "right"
        self.plane.register(registration("writer", skills={"go": []}))
        discovery, nodes = "/api/v1/discovery/capabilities", "/api/v1/nodes"
        page = Page(body=b"<h1>Welcome</h1>", kind="text/html")
        self.site = Site(
            {discovery: page, "/page": page, f"/json{nodes}": Page(body=b'{"a": 1}', kind="application/json")}
        )
        (folder / "empty").mkdir()
        (folder / "half.json").write_text('{"half": ')
        (folder / "secret.json").write_text("{}")
        (folder / "plane.toml").write_text("port = ")
        self._taken = socket.create_server(("127.0.0.1", 0))
        self.names = {
            "plane": self.plane.url,
            "site": self.site.url,
            "folder": str(folder),
            "taken": str(self._taken.getsockname()[1]),
        }

    def run(self, row: Row) -> "subprocess.CompletedProcess[str]":
        """Type a row."""
        filled = {name: _filled(value, self.names) for name, value in row.environment.items()}
        return subprocess.run(  # noqa: S603 - our own commands
            [str(BIN / row.typed[0]), *(_filled(word, self.names) for word in row.typed[1:])],
            env={**environment_of(self.folder), "SWITCHBOARD_VAULT": "file", **filled},
            input=row.given,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            cwd=self.folder,
            timeout=60,
            check=False,
        )

    def close(self) -> None:
        """End everything."""
        self._taken.close()
        self.plane.stop()
        self.site.close()


def _filled(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Generator[Ground]:
    built = Ground(tmp_path_factory.mktemp("home"))
    yield built
    built.close()


NO_VAULT = {"SWITCHBOARD_VAULT": "drawer"}
KEY = {"AGENTFIELD_API_KEY": "right", "AGENTFIELD_SERVER": "{plane}"}
ROWS = [
    # What cannot be understood: 2.
    Row(
        ("switchboard", "discoverr"),
        2,
        ("No such command 'discoverr'", "Did you mean 'discover'?", "switchboard --help"),
    ),
    Row(("switchboard", "consent", "lst"), 2, ("'lst'", "Did you mean 'list'?", "switchboard consent --help")),
    Row(("switchboard", "discover", "--frmat", "xml"), 2, ("--frmat", "--format", "switchboard discover --help")),
    Row(("switchboard", "discover", "--limit", "many"), 2, ("--limit", "integer", "switchboard discover --help")),
    Row(("switchboard", "discover", "--format", "yaml"), 2, ("--format", "yaml", "json", "xml", "compact")),
    Row(("switchboard", "discover", "extra"), 2, ("extra", "switchboard discover --help")),
    Row(("switchboard", "discover", "--server", ""), 2, ("'' is no address", "http://localhost:8080")),
    Row(("switchboard", "discover", "--server", "nonsense"), 2, ("'nonsense' is no address", "http://localhost:8080")),
    Row(("switchboard", "discover", "--server", "http://[::"), 2, ("is no address", "http://localhost:8080")),
    Row(("switchboard", "discover", "--server", "http://127.0.0.1:99999"), 2, ("is no address",)),
    Row(("switchboard", "discover", "--api-key", "kéy"), 2, ("The API key has characters that cannot be sent", "Copy")),
    Row(("switchboard", "check"), 2, ("Missing argument", "switchboard check --help")),
    Row(
        ("switchboard", "check", "nowhere.json"), 2, ("nowhere.json cannot be read", "No such file", "Name an aai.json")
    ),
    Row(("switchboard", "check", ""), 2, ("aai.json cannot be read", "Name an aai.json")),
    Row(("switchboard", "check", "empty"), 2, ("empty/aai.json cannot be read", "Name an aai.json")),
    Row(
        ("switchboard", "check", "/dev/null"), 2, ("/dev/null cannot be read", "not a regular file", "Name an aai.json")
    ),
    Row(("switchboard", "check", NOT_UTF_8), 2, ("cannot be read", "No such file", "Name an aai.json")),
    Row(("switchboard", "check", "{site}"), 2, ("is not called: it is not https", "With --dev")),
    Row(("switchboard", "check", "https://127.0.0.1:1/aai.json"), 2, ("is this machine; --dev allows that",)),
    Row(("switchboard", "check", "https://10.0.0.1/aai.json"), 2, ("10.0.0.1 is not public", "Correct the address")),
    Row(("switchboard", "check", "https://ada:pw@127.0.0.1:1/aai.json"), 2, ("is not called",)),
    Row(("switchboard", "check", "ftp://example.com/aai.json"), 2, ("is not called: it is not https",)),
    Row(("switchboard", "check", "--dev", "{site}"), 2, ("/.well-known/aai.json answers 404", "Put the descriptor")),
    Row(
        ("switchboard", "check", "--dev", "{site}/page"), 2, ("/page answers with a page, not with JSON", "name where")
    ),
    Row(("switchboard", "check", "--dev", "http://127.0.0.1:1"), 2, ("does not answer", "Try again later")),
    Row(("switchboard", "check", "--dev", "secret.json"), 2, ("--dev is for addresses", "Leave it out")),
    Row(("switchboard", "execute"), 2, ("Missing argument", "switchboard execute --help")),
    Row(("switchboard", "execute", ""), 2, ("Name what to run", "switchboard discover")),
    Row(("switchboard", "execute", "a:b", "--input", "{half"), 2, ("--input must be a JSON object", "for example")),
    Row(("switchboard", "execute", "a:b", "--input", ""), 2, ("--input must be a JSON object", "for example")),
    Row(("switchboard", "execute", "a:b", "--input", NOT_UTF_8), 2, ("--input must be a JSON object", "for example")),
    Row(("switchboard", "execute", "a:b", "--input", "-"), 2, ("--input must be a JSON object",), given="[1]"),
    Row(("switchboard", "audit", "--limit", "0"), 2, ("--limit", "greater than or equal to 1")),
    Row(("switchboard", "install"), 2, ("Name a client", "switchboard install --list")),
    Row(("switchboard", "install", "crusor"), 2, ("'crusor' is no client that is known", "Did you mean cursor?")),
    Row(("switchboard", "consent", "grant", "x"), 2, ("--caller", "switchboard consent grant --help")),
    Row(("switchboard", "consent", "grant", "x", "--caller", " "), 2, ("--caller must be a name", "switchboard audit")),
    Row(("switchboard", "auth", "login", ""), 2, ("Name an app", "its id, or the address")),
    Row(("switchboard", "serve", "--port", "70000"), 2, ("The setting port cannot be used", "65535", "Correct")),
    Row(("switchboard", "serve", "--log-level", "loud"), 2, ("log_level", "'loud'", "debug, info, warning or error")),
    Row(("switchboard", "serve", "--config", "nope.toml"), 2, ("nope.toml cannot be read", "No such file", "another")),
    Row(("switchboard", "serve", "--config", "empty"), 2, ("empty cannot be read", "Is a directory", "another")),
    Row(("switchboard", "serve", "--config", "plane.toml"), 2, ("plane.toml is not TOML", "Correct it")),
    Row(
        ("switchboard", "serve", "--host", "0.0.0.0"),  # noqa: S104 - refused
        2,
        ("can be reached from other machines", "SWITCHBOARD_API_KEY"),
    ),
    Row(
        ("switchboard", "serve", "--database-url", "mysql://x"),
        2,
        ("mysql databases are not supported", "postgresql://"),
    ),
    Row(("switchboard", "completion", "tcsh"), 2, ("tcsh", "bash", "zsh", "fish")),
    Row(("aai-gateway", "--sca"), 2, ("There is no '--sca'", "Did you mean --scan?", "aai-gateway --help")),
    Row(("aai-gateway", "extra"), 2, ("There is no 'extra'", "aai-gateway --help")),
    Row(("aai-gateway", "--json"), 2, ("--json goes with --scan",)),
    Row(("aai-gateway", "--tool-names", "x"), 2, ("--tool-names", "'aai', 'portable', 'auto'")),
    Row(("aai-gateway", "--registry"), 2, ("--registry", "expected one argument")),
    Row(("aai-gateway", "--registry", "http://example.com"), 2, ("A registry is written https://host",)),
    Row(("aai-gateway", "--scan", "--registry", "https://x"), 2, ("--scan shows what is on this machine",)),
    # What is understood and does not work: 1.
    Row(
        ("switchboard", "discover", "--server", "http://127.0.0.1:1"),
        1,
        ("No control plane answers", "switchboard serve"),
    ),
    Row(("switchboard", "discover", "--server", "http://ada:pw@127.0.0.1:1"), 1, ("answers at http://127.0.0.1:1.",)),
    Row(("switchboard", "discover", "--server", "{site}"), 1, ("answers, and not as a control plane does", "--server")),
    Row(("switchboard", "discover", "--json", "--server", "{site}"), 1, ("not as a control plane does", "--server")),
    Row(("switchboard", "agents", "--server", "{site}/json"), 1, ("not as a control plane does", "--server")),
    Row(("switchboard", "agents", "--server", "{site}/other"), 1, ("answered 404", "Is a control plane there?")),
    Row(("switchboard", "agents", "--server", "{plane}"), 1, ("wants an API key", "Set AGENTFIELD_API_KEY")),
    Row(
        ("switchboard", "agents", "--server", "{plane}", "--api-key", "no"), 1, ("does not accept this API key", "Set")
    ),
    Row(("switchboard", "discover", "--limit", "501"), 1, ("Invalid limit parameter", "Must be"), KEY),
    Row(("switchboard", "execute", "nonsense"), 1, ("'nonsense' is not a target", "Write agent:reasoner"), KEY),
    Row(("switchboard", "execute", f"writer:{NOT_UTF_8}"), 1, ("has no tool", "Ask what it has"), KEY),
    Row(("switchboard", "execute", "writter:go"), 1, ("There is no app 'writter'", "Did you mean writer?"), KEY),
    Row(("switchboard", "execute", "writer:go"), 1, ("does not answer", "Try again later"), KEY),
    Row(
        ("switchboard", "serve", "--port", "{taken}"),
        1,
        ("Cannot listen on 127.0.0.1:{taken}", "--port or SWITCHBOARD_PORT"),
    ),
    Row(("switchboard", "serve", "--host", "300.1.1.1", "--api-key", "x"), 1, ("Cannot listen on 300.1.1.1", "--host")),
    Row(
        ("switchboard", "serve", "--port", "0", "--database-url", "sqlite:///{folder}/empty"),
        1,
        ("The database does not answer", "unable to open", "look at the disk"),
    ),
    Row(("switchboard", "install", "zed"), 1, ("Zed does not seem to be on this machine", "--config", "--force")),
    Row(
        ("switchboard", "consent", "list"),
        1,
        ("SWITCHBOARD_VAULT is 'drawer'", "keychain or file", "Correct"),
        NO_VAULT,
    ),
    Row(("switchboard", "consent", "list"), 1, ("there is no key for it", "make a key with", "SWITCHBOARD_KEY_FILE")),
    Row(("switchboard", "auth", "list"), 1, ("SWITCHBOARD_VAULT is 'drawer'", "Correct or remove it"), NO_VAULT),
    Row(
        ("switchboard", "consent", "grant", "nope", "--caller", "x"), 1, ("There is no app 'nope'", "give its address")
    ),
    Row(("switchboard", "auth", "login", "nope"), 1, ("There is no app 'nope'", "give its address")),
]
PROVOKED = (errors.VaultUnavailable,)
"""Classes that only a command shows as they are."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row.typed).encode("ascii", "replace").decode()[:80])
def test_one_line_says_what_to_do(ground: Ground, row: Row) -> None:
    """On standard error, after the name of the command; nothing on standard output."""
    done = ground.run(row)

    assert (done.returncode, done.stdout) == (row.code, ""), done.stderr
    assert done.stderr.startswith(f"{row.typed[0]}: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert missing(done.stderr, *(_filled(part, ground.names) for part in row.says)) == [], done.stderr
    assert "pw@" not in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(ground: Ground) -> None:
    """With why."""
    (ground.folder / "secret.json").chmod(0)
    done = ground.run(Row(("switchboard", "check", "secret.json"), 2, ()))

    assert done.returncode == 2
    assert missing(done.stderr, "secret.json cannot be read", "Permission denied", "Name an aai.json") == []


def test_a_descriptor_that_is_wrong_is_no_misuse(ground: Ground) -> None:
    """Its problems are the result: on standard output, with exit code 1."""
    done = ground.run(Row(("switchboard", "check", "half.json", "--json"), 1, ()))

    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["usable"] is False


def test_a_fault_of_ours_is_one_line_too(ground: Ground) -> None:
    """With its place, and how to see more; a traceback only for who asks for it."""
    broken = "from switchboard.manners import finish; finish('switchboard', lambda: 1 / 0)"
    environment = environment_of(ground.folder)

    def run(**more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(  # noqa: S603 - our own
            [sys.executable, "-c", broken],
            env={**environment, **more},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    shown, seen = run(), run(SWITCHBOARD_LOG_LEVEL="debug")

    assert (shown.returncode, shown.stderr.count("\n")) == (1, 1)
    assert missing(shown.stderr, "a fault of ours: ZeroDivisionError at", "SWITCHBOARD_LOG_LEVEL=debug") == []
    assert "Traceback" in seen.stderr
