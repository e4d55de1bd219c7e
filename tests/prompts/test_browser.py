"""Opening a browser: which program, with which arguments and environment, and who can see the address."""

import asyncio
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.processes import command_lines
from tests.prompts.chromium import chromium
from tests.prompts.sample_forms import CONSENT

from switchboard.prompts.browser import PrivateDoor, System, open_page
from switchboard.prompts.forms import Reply
from switchboard.prompts.pages import Pages

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins are shell scripts")

SITE = "https://login.example/authorize?client_id=a&scope=b%20c"
OURS = "http://127.0.0.1:4711/ask/one-time-token"


class Machine:
    """A folder of programs that note how they were started, and nothing else to start."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.programs = root / "bin"
        self.programs.mkdir()
        self.notes = root / "notes"
        self.environment = {
            "PATH": str(self.programs),
            "HOME": str(root),
            "DISPLAY": ":0",
            "SWITCHBOARD_KEY": "hush",
            "OPENAI_API_KEY": "hush",
            "LC_ALL": "C",
        }

    def install(self, name: str, then: str = "exit 0") -> str:
        """Put a program there; it notes its name and arguments, and then does something."""
        file = self.programs / name
        note = f'{{ echo {name}; for a in "$@"; do echo "$a"; done; /usr/bin/env; }} >> {self.notes}'
        file.write_text(f"#!/bin/sh\n{note}\n{then}\n")
        file.chmod(0o755)
        return str(file)

    def noted(self) -> list[str]:
        """Return what was noted."""
        return self.notes.read_text().splitlines() if self.notes.exists() else []

    def open(self, address: str = SITE, system: System = "linux") -> bool:
        """Open an address on this machine."""
        return asyncio.run(open_page(address, system, self.environment))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("system", "programs", "started"),
    [
        ("macos", ["open", "xdg-open"], ["open", SITE]),
        ("windows", ["rundll32", "xdg-open"], ["rundll32", "url.dll,FileProtocolHandler", SITE]),
        ("linux", ["firefox", "gio", "xdg-open"], ["xdg-open", SITE]),
        ("linux", ["firefox", "gio"], ["gio", "open", SITE]),
        ("linux", ["chromium", "sensible-browser"], ["sensible-browser", SITE]),
        ("linux", ["chromium", "firefox"], ["firefox", SITE]),
    ],
)
def test_each_system_has_its_program(machine: Machine, system: System, programs: list[str], started: list[str]) -> None:
    """The address is one argument, whatever is in it."""
    for program in programs:
        machine.install(program)

    assert machine.open(system=system)
    assert machine.noted()[: len(started)] == started


def test_a_program_that_fails_gives_way_to_the_next(machine: Machine) -> None:
    """Also one that cannot be started at all; where none is left, nothing was opened."""
    machine.install("xdg-open", "exit 3")
    Path(machine.install("gio")).write_text("no program\0")
    machine.install("firefox")
    assert machine.open()
    assert [line for line in machine.noted() if line in ("xdg-open", "firefox")] == ["xdg-open", "firefox"]

    machine.install("firefox", "exit 1")
    assert not machine.open()


def test_a_browser_that_stays_is_not_waited_for_and_leaves_nothing(machine: Machine) -> None:
    """It runs on; when it ends, no dead process is left."""
    machine.install(
        "xdg-open", f"echo $$ > {machine.root}/pid; while [ ! -e {machine.root}/end ]; do /bin/sleep 0.05; done"
    )
    assert machine.open()
    process = Path(f"/proc/{(machine.root / 'pid').read_text().strip()}")
    if sys.platform == "linux":
        assert process.exists()
    (machine.root / "end").touch()

    _wait(lambda: not process.exists())


def test_nothing_is_opened_where_nobody_sits(machine: Machine) -> None:
    """Linux without a screen, macOS through SSH; a `BROWSER` of the person's own choice works without one."""
    machine.install("xdg-open")
    machine.install("open")
    del machine.environment["DISPLAY"]
    machine.environment["SSH_CONNECTION"] = "1.2.3.4 5 6.7.8.9 22"
    assert not machine.open()
    assert not machine.open(system="macos")
    machine.environment["BROWSER"] = machine.install("mine")

    assert machine.open()
    assert machine.noted()[:2] == ["mine", SITE]


@pytest.mark.parametrize(
    ("variable", "started"),
    [
        ("mine", ["mine", SITE]),
        ("mine --new '%s' -x", ["mine", "--new", SITE, "-x"]),
        ("'unended:absent:mine -a", ["mine", "-a", SITE]),
        ("mine; touch owned", ["xdg-open", SITE]),
        ("mine $(touch owned) `touch owned`", ["mine", "$(touch", "owned)", "`touch", "owned`", SITE]),
    ],
)
def test_the_variable_is_words_and_never_a_script(machine: Machine, variable: str, started: list[str]) -> None:
    """Several commands are parted by colons; a place for the address may be named."""
    machine.install("mine")
    machine.install("xdg-open")
    machine.environment["BROWSER"] = variable

    assert machine.open()
    assert machine.noted()[: len(started)] == started
    assert not (Path.cwd() / "owned").exists()


def test_inside_wsl_the_browser_of_windows_is_used(machine: Machine) -> None:
    """Without a screen of Linux; it could not read a file of Linux, and gets the address."""
    machine.install("wslview")
    del machine.environment["DISPLAY"]
    machine.environment["WSL_DISTRO_NAME"] = "Debian"

    assert asyncio.run(PrivateDoor("linux", machine.environment).open(OURS))
    assert machine.noted()[:2] == ["wslview", OURS]


def test_a_program_gets_no_keys(machine: Machine) -> None:
    """What finds a screen and a home, and nothing of ours or of other programs."""
    machine.install("xdg-open")
    machine.open()

    noted = machine.noted()
    assert {"DISPLAY=:0", "LC_ALL=C", f"HOME={machine.root}"} <= set(noted)
    assert not any("hush" in line or line.startswith("SWITCHBOARD") for line in noted)


@pytest.mark.parametrize(
    "address",
    ["", "file:///etc/passwd", "javascript:alert(1)", "http://evil.example/", "http://localhost:1/", "http://127.0.0.1/x",
     "http://127.0.0.1:80@evil.example/", "https://", "-https://a.example", "https://a.example/ --flag", "https://a\n.example",
     "https://user:word@a.example/", "http://127.0.0.1:x/", "ftp://a.example", "HTTPS://\u202ea.example", "/bin/sh"],
)  # fmt: skip
def test_only_addresses_of_the_secure_web_and_our_own_are_opened(machine: Machine, address: str) -> None:
    """Anything else could be a file, a script or an option."""
    machine.install("xdg-open")

    with pytest.raises(ValueError, match=r"address|[Pp]ort|URL"):
        machine.open(address)
    with pytest.raises(ValueError, match=r"address|[Pp]ort|URL"):
        asyncio.run(PrivateDoor("linux", machine.environment).open(address))
    assert machine.noted() == []


def _wait(condition: Callable[[], bool]) -> None:
    async def poll() -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110 - another process has no event
                await asyncio.sleep(0.02)

    asyncio.run(poll())


@pytest.mark.skipif(sys.platform != "linux", reason="Linux shows every process")
def test_no_process_has_the_token_in_its_arguments(machine: Machine) -> None:
    """While the browser is being opened and while it runs; the file it gets is for this user only, and then gone."""
    end = machine.root / "end"
    machine.install("xdg-open", f"while [ ! -e {end} ]; do /bin/sleep 0.02; done")
    runtime = machine.root / "runtime"
    runtime.mkdir(mode=0o700)
    machine.environment["XDG_RUNTIME_DIR"] = str(runtime)
    door = PrivateDoor("linux", machine.environment)

    async def story() -> list[bytes]:
        lines: list[bytes] = []
        opening = asyncio.create_task(door.open(OURS))
        while not opening.done():
            lines += command_lines()
            await asyncio.sleep(0)
        assert await opening
        return lines + command_lines()

    lines = asyncio.run(story())

    (file,) = runtime.rglob("*.html")
    assert any(bytes(file) in line for line in lines), "the stand-in was seen"
    assert not any(b"one-time-token" in line for line in lines)
    assert OURS in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    door.forget(OURS)
    assert not file.exists()
    end.touch()


def test_a_folder_that_others_can_look_into_is_not_used(machine: Machine) -> None:
    """Nor a link to one: then nothing is opened, and the address has to reach the person in another way."""
    machine.install("xdg-open")
    folder = machine.root / ".cache" / "switchboard-pages"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    door = PrivateDoor("linux", machine.environment)
    assert not asyncio.run(door.open(OURS))
    folder.rmdir()
    private = machine.root / "private"
    private.mkdir(mode=0o700)
    folder.symlink_to(private)

    assert not asyncio.run(door.open(OURS))
    assert list(private.iterdir()) == []
    assert machine.noted() == []


def test_closing_removes_every_file_and_opening_those_of_the_dead(machine: Machine) -> None:
    """A process that was killed leaves one behind, for a day."""
    machine.install("xdg-open")
    folder = machine.root / ".cache" / "switchboard-pages"
    folder.mkdir(parents=True, mode=0o700)
    old, recent = folder / "old.html", folder / "recent.html"
    for file in (old, recent):
        file.touch()
    os.utime(old, (0, 0))
    door = PrivateDoor("linux", machine.environment)
    assert asyncio.run(door.open(OURS))
    assert asyncio.run(door.open(OURS + "2"))
    assert len(list(folder.iterdir())) == 3
    door.close()

    assert list(folder.iterdir()) == [recent]


def test_a_browser_in_a_snap_gets_a_file_it_can_read(machine: Machine) -> None:
    """Ubuntu's Firefox sees no hidden folder but its own."""
    machine.install("xdg-open")
    machine.install("xdg-mime", "echo firefox_firefox.desktop")
    own = machine.root / "snap" / "firefox" / "common"
    own.mkdir(parents=True)
    machine.environment["XDG_RUNTIME_DIR"] = str(machine.root)

    assert asyncio.run(PrivateDoor("linux", machine.environment).open(OURS))
    assert len(list(own.rglob("*.html"))) == 1


def test_the_file_leads_a_real_browser_to_the_page(machine: Machine) -> None:
    """Without JavaScript; once the page is there the file is gone, and the page can be answered."""
    machine.install("xdg-open")
    door = PrivateDoor("linux", machine.environment)

    async def story() -> None:
        pages = Pages(door.open, fetched=door.forget)
        shown = await pages.show(CONSENT)
        assert shown is not None
        (file,) = (machine.root / ".cache" / "switchboard-pages").iterdir()
        async with chromium() as browser:
            page = await (await browser.new_context(java_script_enabled=False)).new_page()
            await page.goto(file.as_uri(), wait_until="commit")
            await page.get_by_role("button", name="Allow once").click()

            assert await asyncio.wait_for(shown.reply, 20) == Reply("once", {})
        assert not file.exists()
        await pages.close()

    asyncio.run(story())
