"""The gateway as a process: it ends when its client does, whatever the client does, and no input can harm it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from array import array
from collections.abc import Iterator
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path
from termios import FIONREAD
from threading import Thread
from typing import IO, Any

import pytest
from tests.gateways import ALLOWED, GATEWAY, Gateway, Page, Site, environment_of, install, left_behind, web_app
from tests.journeys.waiting import wait_until
from tests.support import requirement

LIMIT_S = 20
MIB = 1024 * 1024
HANDSHAKE = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}},
}
PATIENT = """
import signal, subprocess, sys
gateway = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
gateway.stdin.write(sys.stdin.buffer.readline())
gateway.stdin.flush()
gateway.stdout.readline()
print(gateway.pid, flush=True)
signal.pause()
"""
"""A client that shakes hands and then does nothing."""


def line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def ping(number: int) -> bytes:
    return line({"jsonrpc": "2.0", "id": number, "method": "ping"})


def resident_mib(pid: int, kind: str = "VmRSS") -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(kind)) / 1024


def run(
    home: Path, given: bytes | None = None, source: int | None = None, target: int = subprocess.PIPE
) -> "subprocess.CompletedProcess[bytes]":
    """Run a gateway on some input until it ends by itself."""
    return subprocess.run(  # noqa: S603 - our own command
        GATEWAY,
        env=environment_of(home),
        cwd=home,
        input=given,
        stdin=source,
        stdout=target,
        stderr=subprocess.PIPE,
        timeout=LIMIT_S,
        check=False,
    )


def answers(output: bytes) -> list[Any]:
    return [json.loads(line) for line in output.splitlines()]


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """Start a gateway that has shaken hands."""
    with Gateway(tmp_path) as running:
        running.initialize()
        yield running


# How it ends


@requirement("mcp:process:no-daemon", "mcp:process:life")
def test_a_client_that_goes_leaves_nothing_behind(tmp_path: Path) -> None:
    """Its requests are answered, the exit code is 0, and no process of this home is left."""
    install(tmp_path, "com.example.mail")
    with Gateway(tmp_path) as gateway:
        gateway.initialize()
        listing = gateway.begin("tools/list")
        gateway.end_input()

        assert gateway.answer(listing)["result"]["tools"]
        assert gateway.wait() == 0
        assert left_behind(tmp_path) == []


def test_a_call_that_does_not_end_does_not_keep_a_gateway_whose_client_has_gone(tmp_path: Path) -> None:
    """The app never answers; nobody waits for it any more."""
    with Site({"/search": Page(silent=True)}) as site, Gateway(tmp_path, command=ALLOWED) as gateway:
        install(tmp_path, "com.example.slow", **web_app("com.example.slow", site.url))
        gateway.initialize()
        call = {"app": "com.example.slow", "tool": "search", "args": {"query": "x"}}
        gateway.begin("tools/call", {"name": "aai:exec", "arguments": call})
        wait_until(lambda: site.paths() != [], LIMIT_S)
        gateway.end_input()

        assert gateway.wait() == 0
        assert left_behind(tmp_path) == []


@requirement("mcp:process:life")
def test_a_client_that_is_killed_takes_the_gateway_with_it(tmp_path: Path) -> None:
    """Nobody tells the gateway; it notices."""
    with subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", PATIENT, *GATEWAY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment_of(tmp_path),
        cwd=tmp_path,
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(line(HANDSHAKE))
        client.stdin.flush()
        child = int(client.stdout.readline())
        assert Path(f"/proc/{child}").exists()
        client.kill()

        wait_until(lambda: left_behind(tmp_path) == [], LIMIT_S)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_quietly(gateway: Gateway, number: signal.Signals) -> None:
    """With exit code 0, and nothing on standard error that was not there anyway."""
    gateway.ask("ping")
    gateway.process.send_signal(number)

    assert gateway.wait() == 0
    assert "Traceback" not in gateway.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_first_message_ends_it_quietly(tmp_path: Path, number: signal.Signals) -> None:
    """A person who has started it by hand, and ends it with Ctrl-C, sees no traceback."""
    with Gateway(tmp_path) as gateway:
        descriptors = Path(f"/proc/{gateway.process.pid}/fd")
        wait_until(lambda: descriptors.joinpath("0").readlink() == Path(os.devnull))  # it has taken its streams
        gateway.process.send_signal(number)

        assert gateway.wait() in (0, -number)
    assert gateway.stderr == ""


def test_a_client_that_has_closed_its_reading_end_ends_the_gateway(tmp_path: Path) -> None:
    """At the next answer, with exit code 0, though its input stays open."""
    process = subprocess.Popen(  # noqa: S603 - our own command
        GATEWAY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment_of(tmp_path), cwd=tmp_path
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin:
        process.stdin.write(line(HANDSHAKE))
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(ping(1))
        process.stdin.flush()

        assert process.wait(LIMIT_S) == 0


def test_a_client_that_is_gone_before_the_first_answer_ends_the_gateway(tmp_path: Path) -> None:
    """Quietly too."""
    source, target = os.pipe()
    os.close(source)
    ended = run(tmp_path, line(HANDSHAKE), target=target)
    os.close(target)

    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_standard_stream_that_is_not_open_is_no_reason_to_fail(tmp_path: Path, closed: str) -> None:
    """It leads nowhere, that is all."""
    ended = subprocess.run(  # noqa: S603 - our own command
        ["/bin/sh", "-c", f"exec {GATEWAY[0]} {closed}"],
        input=line(HANDSHAKE) + ping(1),
        env=environment_of(tmp_path),
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, b"")
    assert len(answers(ended.stdout)) == (2 if closed == "2>&-" else 0)


def test_a_full_disk_for_the_answers_ends_it_quietly(tmp_path: Path) -> None:
    """Nobody can read them anyway."""
    with Path("/dev/full").open("wb") as full:
        ended = run(tmp_path, line(HANDSHAKE) + ping(1), target=full.fileno())

    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_file_as_input_is_answered_to_its_end(tmp_path: Path) -> None:
    """The last line may lack its end."""
    (tmp_path / "requests").write_bytes(line(HANDSHAKE) + b"".join(map(ping, range(3000))) + ping(3000).strip())
    with (tmp_path / "requests").open("rb") as requests:
        ended = run(tmp_path, source=requests.fileno())

    assert [answer["id"] for answer in answers(ended.stdout)] == ["hello", *range(3001)]
    assert ended.returncode == 0


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        (line(HANDSHAKE).strip(), ["hello"]),
        (line(HANDSHAKE) + ping(1).strip(), ["hello", 1]),
        (line(HANDSHAKE)[:20], [None]),
        (line(HANDSHAKE) + ping(1)[:20], ["hello", None]),
    ],
)
def test_a_line_without_an_end_is_answered_where_the_input_ends(tmp_path: Path, given: bytes, ids: list[Any]) -> None:
    """A whole request with its result, half a one with an error that has no id."""
    ended = run(tmp_path, given)

    assert [answer["id"] for answer in answers(ended.stdout)] == ids
    assert ended.returncode == 0


def test_no_input_at_all_is_an_end(tmp_path: Path) -> None:
    """A service manager gives its children the null device."""
    ended = run(tmp_path, source=subprocess.DEVNULL)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def test_input_that_does_not_wait_is_waited_for(tmp_path: Path) -> None:
    """A client may hand over a pipe as it uses it itself."""
    source, target = os.pipe()
    os.set_blocking(source, False)
    with subprocess.Popen(  # noqa: S603 - our own command
        GATEWAY, stdin=source, stdout=subprocess.PIPE, env=environment_of(tmp_path), cwd=tmp_path
    ) as process:
        os.close(source)
        descriptors = Path(f"/proc/{process.pid}/fd")
        wait_until(lambda: descriptors.joinpath("0").readlink() == Path(os.devnull))
        os.write(target, line(HANDSHAKE) + ping(1))
        os.close(target)
        output, _ = process.communicate(timeout=LIMIT_S)

    assert [answer["id"] for answer in answers(output)] == ["hello", 1]


# Clients that do not read


class Silent:
    """A gateway whose client sends requests and does not read, until it does."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - our own command
            GATEWAY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment_of(home), cwd=home
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self._writer = Thread(target=self._write, daemon=True)

    def shake_hands(self) -> None:
        """Begin as others do, and wait until the apps are known."""
        self.stdin.write(line(HANDSHAKE) + listing("first"))
        self.stdin.flush()
        self.stdout.readline()
        assert b"com.example.app0" in self.stdout.readline()

    def ask(self, count: int) -> None:
        """Ask for the list so often, and wait until the gateway takes no more."""
        self._requests = b"".join(map(listing, range(count)))
        self._writer.start()
        wait_until(lambda: all(self._is_full(self.stdin) for _ in range(20)), LIMIT_S)

    def wait_for_answers(self) -> None:
        """Wait until as much has come as the client does not read."""
        wait_until(lambda: all(self._is_full(self.stdout) for _ in range(20)), LIMIT_S)

    def close(self) -> None:
        """End it, by force."""
        self.process.kill()
        if self._writer.is_alive():
            self._writer.join(LIMIT_S)
        with suppress(OSError):  # what could not be sent any more
            self.stdin.close()
        self.stdout.close()
        self.process.wait(LIMIT_S)

    def _write(self) -> None:
        with suppress(OSError):  # it was ended before it had read everything
            self.stdin.write(self._requests)
            self.stdin.flush()

    def _is_full(self, pipe: IO[bytes]) -> bool:
        """Tell whether a pipe is full, and take a moment, so that asking twice is not asking the same."""
        waiting = array("i", [0])
        ioctl(pipe.fileno(), FIONREAD, waiting)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(0.01)
        return waiting[0] > 40_000


def listing(request_id: int | str) -> bytes:
    return line({"jsonrpc": "2.0", "id": request_id, "method": "tools/list"})


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[Silent]:
    """Start a gateway with a hundred apps and a client that does not read."""
    for number in range(100):
        install(tmp_path, f"com.example.app{number}")
    running = Silent(tmp_path)
    yield running
    running.close()


def test_requests_of_a_client_that_does_not_read_wait_and_are_all_answered_when_it_does(silent: Silent) -> None:
    """Meanwhile the memory of the gateway stays what it is, give or take what it keeps for the client."""
    silent.shake_hands()
    before = resident_mib(silent.process.pid)
    silent.ask(4000)
    peak = resident_mib(silent.process.pid, "VmHWM")
    ids = [json.loads(silent.stdout.readline())["id"] for _ in range(4000)]

    assert peak < before + 20
    assert sorted(ids) == list(range(4000))


def test_requests_that_come_before_the_first_scan_do_not_all_wait_as_answers(silent: Silent) -> None:
    """A hundred wait for the scan; beyond that, a list is what is known, and small."""
    silent.stdin.write(line(HANDSHAKE) + b"".join(map(listing, range(2000))))
    silent.stdin.flush()
    silent.wait_for_answers()
    hello, *ids = (json.loads(silent.stdout.readline())["id"] for _ in range(2001))

    assert hello == "hello"
    assert sorted(ids) == list(range(2000))
    assert resident_mib(silent.process.pid, "VmHWM") < 60


def test_a_client_that_neither_reads_nor_stays_does_not_keep_the_gateway(silent: Silent) -> None:
    """Its requests are dropped, for nobody would read the answers."""
    silent.shake_hands()
    silent.stdin.write(b"".join(map(listing, range(2000))))  # more than is answered unread, less than a pipe holds
    silent.stdin.close()

    assert silent.process.wait(LIMIT_S) == 0


def test_a_client_that_never_reads_the_log_is_served(tmp_path: Path) -> None:
    """Hundreds of broken descriptors are more to tell than a pipe holds."""
    for number in range(500):
        folder = tmp_path / ".aai" / f"com.example.broken{number}{'x' * 150}"
        folder.mkdir(parents=True)
        (folder / "aai.json").write_text("{")
    logged = tmp_path / ".local/state/switchboard/log/gateway.log"
    with subprocess.Popen(  # noqa: S603 - our own command
        GATEWAY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment_of(tmp_path)
    ) as process:
        assert process.stdin is not None
        process.stdin.write(line(HANDSHAKE))
        process.stdin.flush()
        wait_until(lambda: logged.exists() and logged.read_bytes().count(b"descriptor.refused") == 500)
        process.stdin.write(ping(1))
        process.stdin.close()

        assert process.wait(LIMIT_S) == 0
        assert process.stdout is not None
        assert [answer["id"] for answer in answers(process.stdout.read())] == ["hello", 1]


# Whatever comes in


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


def call(arguments: bytes) -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"aai:exec","arguments":'
        b'{"app":"com.example.mail","tool":"send_email","args":' + arguments + b"}}}"
    )


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"garbage", -32700),
        (b"\0" * 5000, -32700),
        (b"\xff\xfe\x80", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"p\xffng"}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"meth', -32700),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', -32700),
        (b"[" * 100_000, -32700),
        (b'{"a":' * 100_000, -32700),
        (nested(100_000), -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + nested(100_000) + b"}", -32700),
        (b"x" * (10 * MIB), -32700),
        (b" " * (17 * MIB), -32600),
        (b'"' + b"x" * (17 * MIB) + b'"', -32600),
        (b"null", -32600),
        (b"{}", -32600),
        (b"[]", -32600),
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, bytes) else str(value),
)
def test_a_line_that_is_no_message_is_answered_with_an_error_and_harms_nothing(
    served: Gateway, sent: bytes, code: int
) -> None:
    """The next request is served."""
    served.write(sent + b"\n")
    error = served.receive(lambda message: "error" in message)["error"]

    assert error["code"] == code
    assert len(error["message"]) < 300
    assert served.ask("ping") == {}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Start one gateway for all the lines: what one of them breaks, the next one notices."""
    home = tmp_path_factory.mktemp("served")
    install(home, "com.example.mail")
    with Gateway(home) as running:
        running.initialize()
        yield running


def test_lines_without_content_are_passed_over(served: Gateway) -> None:
    """They get no answer, and the request behind them gets its own."""
    served.write(b"\n\r\n  \n\t\n" + ping(7001).replace(b"\n", b"\r\n"))

    assert served.receive()["id"] == 7001


def test_a_request_may_come_byte_by_byte(served: Gateway) -> None:
    """Even if each byte is read by itself."""
    for number in ping(7002):
        served.write(bytes([number]))

    assert served.receive()["id"] == 7002


@pytest.mark.parametrize("arguments", [b'{"to":"%b"}' % (b"x" * (10 * MIB)), b'{"to":%b}' % nested(900)])
def test_a_request_with_huge_arguments_is_answered(served: Gateway, arguments: bytes) -> None:
    """Ten megabytes, or nine hundred levels."""
    served.write(call(arguments) + b"\n")

    assert served.receive(lambda message: message.get("id") == "call")["result"]["isError"]


def test_memory_is_free_again_after_long_lines(gateway: Gateway) -> None:
    """Whether they were taken or refused."""
    gateway.ask("tools/list")
    before = resident_mib(gateway.process.pid)
    for length in (15 * MIB, 40 * MIB, 15 * MIB, 40 * MIB):
        gateway.write(b"x" * length + b"\n")
        gateway.receive(lambda message: "error" in message)

    assert gateway.ask("ping") == {}
    assert resident_mib(gateway.process.pid) < before + 40


def test_a_thousand_requests_at_once_are_answered_once_each(tmp_path: Path) -> None:
    """Those that are answered at once and those that take a while, sent before anything is read."""
    install(tmp_path, "com.example.mail")
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("ping", {}),
        ("tools/list", {}),
        ("tools/call", {"name": "app:com.example.mail"}),
        ("tools/call", {"name": "aai:exec", "arguments": {"app": "com.example.mail", "tool": "none"}}),
        ("nonsense", {}),
    ]
    with Gateway(tmp_path) as gateway:
        gateway.initialize()
        ids = [gateway.begin(*kinds[number % 5]) for number in range(1000)]
        answered = [gateway.receive(lambda message: "id" in message)["id"] for _ in ids]
        gateway.end_input()

        assert sorted(answered) == ids
        assert gateway.wait() == 0


# Whatever its home looks like


@requirement("mcp:startup:ready")
def test_the_conversation_does_not_wait_for_a_large_home(tmp_path: Path) -> None:
    """Five hundred apps, pipes nobody writes to, folders without a descriptor: a ping is answered before the list."""
    for number in range(500):
        install(tmp_path, f"com.example.app{number}")
        (tmp_path / ".aai" / f"empty{number}").mkdir()
    for number in range(20):
        (tmp_path / ".aai" / f"pipe{number}").mkdir()
        os.mkfifo(tmp_path / ".aai" / f"pipe{number}" / "aai.json")
    with Gateway(tmp_path) as gateway:
        gateway.write(line(HANDSHAKE) + listing("list") + ping(1))
        gateway.notify("notifications/initialized")
        first, second, third = (gateway.receive(lambda message: "id" in message) for _ in range(3))
        if len(third["result"]["tools"]) < 502:  # a slow machine: the rest is told of
            gateway.notification("notifications/tools/list_changed")
        listed = gateway.ask("tools/list")["tools"]

    assert [first["id"], second["id"], third["id"]] == ["hello", 1, "list"]
    assert len(listed) == 502


def test_an_app_whose_folder_is_deleted_leaves_the_list(tmp_path: Path) -> None:
    """And so do all of them when the home goes."""
    for app_id in ("com.example.mail", "com.example.notes"):
        install(tmp_path, app_id)
    with Gateway(tmp_path) as gateway:
        gateway.initialize()
        counts = [len(gateway.ask("tools/list")["tools"])]
        for gone in (".aai/com.example.mail", ".aai"):
            shutil.rmtree(tmp_path / gone)
            gateway.notification("notifications/tools/list_changed")
            counts.append(len(gateway.ask("tools/list")["tools"]))

    assert counts == [4, 3, 2]


def test_a_home_that_cannot_be_written_to_is_served(tmp_path: Path) -> None:
    """The log is then on standard error alone."""
    install(tmp_path, "com.example.mail")
    (tmp_path / ".local").write_text("no folder")
    with Gateway(tmp_path) as gateway:
        gateway.initialize()
        tools = gateway.ask("tools/list")["tools"]
        wait_until(lambda: "scan.done" in gateway.stderr)

    assert len(tools) == 3


def test_two_gateways_share_a_home(tmp_path: Path) -> None:
    """Both serve, and both write to the log."""
    install(tmp_path, "com.example.mail")
    with Gateway(tmp_path) as first, Gateway(tmp_path) as second:
        counts = [len((gateway.initialize(), gateway.ask("tools/list"))[1]["tools"]) for gateway in (first, second)]

    logged = (tmp_path / ".local/state/switchboard/log/gateway.log").read_text()
    assert counts == [3, 3]
    assert logged.count("scan.done") == 2
