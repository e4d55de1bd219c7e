"""The sample apps work as they are shipped: checked, found by the gateway, called through it, and ended with it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.executors.grounds import ROOT, message_bus
from tests.gateways import ALLOWED, Gateway
from tests.journeys.waiting import wait_until
from tests.support import requirement

EXAMPLES = ROOT / "examples"


def install(home: Path, example: str, app: str) -> None:
    shutil.copytree(EXAMPLES / example, home / ".aai" / app)


def call(gateway: Gateway, app: str, tool: str, **arguments: Any) -> dict[str, Any]:
    return gateway.call("aai:exec", {"app": app, "tool": tool, "args": arguments})


def descendants(pid: int) -> set[int]:
    """Return every process below one."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    return {below for child in map(int, children) for below in (child, *descendants(child))}


@pytest.mark.parametrize("example", ["stdio_app", "dbus_app"])
def test_the_descriptors_of_the_samples_have_no_problems(example: str) -> None:
    """`switchboard check --strict` accepts them."""
    command = [str(Path(sys.executable).with_name("switchboard")), "check", "--strict", str(EXAMPLES / example)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "0 errors, 0 warnings" in checked.stdout


@requirement("exec:binding:stdio", "exec:order:desktop", "exec:order:result")
def test_a_program_is_called_through_the_gateway_and_ends_with_it(tmp_path: Path) -> None:
    """It remembers between calls, because it is kept; its errors are its own; nothing is left of it afterwards."""
    install(tmp_path, "stdio_app", "com.example.stdio-notes")
    with Gateway(tmp_path, command=ALLOWED) as gateway:
        gateway.initialize()
        added = call(gateway, "com.example.stdio-notes", "add_note", text="Milch \U0001f95b")
        listed = call(gateway, "com.example.stdio-notes", "list_notes")
        refused = call(gateway, "com.example.stdio-notes", "delete_note", id=9)
        running = descendants(gateway.process.pid)

    assert added["structuredContent"] == {"id": 1, "text": "Milch \U0001f95b", "tag": "home"}
    assert listed["structuredContent"] == {"notes": [added["structuredContent"]]}
    assert refused["isError"]
    assert refused["structuredContent"] == {"code": "NOTE_NOT_FOUND", "message": "There is no note 9."}
    assert len(running) == 1
    assert not any(Path(f"/proc/{pid}").exists() for pid in running)


def test_the_notes_of_the_sample_home_are_kept_beside_them(tmp_path: Path) -> None:
    """Its command is found from the folder of the descriptor, wherever the home is; another start has the notes."""
    install(tmp_path, "home/com.example.notes", "com.example.notes")
    for number in (1, 2):
        with Gateway(tmp_path, command=ALLOWED) as gateway:
            gateway.initialize()
            added = call(gateway, "com.example.notes", "add_note", text="Tee \U0001fad6")
            listed = call(gateway, "com.example.notes", "list_notes", most=1)

        assert added["structuredContent"] == {"id": number, "text": "Tee \U0001fad6", "tag": "home"}
        assert listed["structuredContent"] == {"notes": [added["structuredContent"]]}


@requirement("exec:order:desktop", "errors:gateway:app-not-running")
def test_an_app_on_the_bus_is_called_through_the_gateway(tmp_path: Path) -> None:
    """SERVICE_UNAVAILABLE while it does not run, its answer when it does."""
    install(tmp_path, "dbus_app", "com.example.lights")
    with message_bus() as (_, environment):
        address = {"DBUS_SESSION_BUS_ADDRESS": environment["DBUS_SESSION_BUS_ADDRESS"]}
        with Gateway(tmp_path, command=ALLOWED, environment=address) as gateway:
            gateway.initialize()
            before = call(gateway, "com.example.lights", "list_lights")
            command = [sys.executable, str(EXAMPLES / "dbus_app/lights.py")]
            with subprocess.Popen(command, env={**os.environ, **address}) as lights:  # noqa: S603 - our own
                try:
                    wait_until(lambda: "isError" not in call(gateway, "com.example.lights", "list_lights"))
                    switched = call(gateway, "com.example.lights", "switch_light", name="客厅", on=False)
                    unknown = call(gateway, "com.example.lights", "switch_light", name="attic", on=True)
                finally:
                    lights.kill()

    assert (before["isError"], before["structuredContent"]["code"]) == (True, "SERVICE_UNAVAILABLE")
    assert switched["content"] == [{"type": "text", "text": "客厅 is off."}]
    assert unknown["structuredContent"]["code"] == "LIGHT_NOT_FOUND"


def test_nothing_of_the_ways_to_call_is_loaded_before_the_first_call() -> None:
    """The gateway starts with every chat, and most chats call nothing."""
    program = (
        "import sys\n"
        "from switchboard.executors.http import HttpExecutor\n"
        "from switchboard.executors.native import native\n"
        "native({})\n"
        "import json\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60)  # noqa: S603
    loaded = set(json.loads(printed.stdout))

    heavy = {"dbus_fast", "asyncio", "subprocess", "httpx2", "xml.etree.ElementTree"}
    own = {"apple_events", "com", "dbus", "dbus_calls", "processes", "stdio", "templates"}
    assert loaded & (heavy | {f"switchboard.executors.{name}" for name in own}) == set()
