"""The scan: where each system keeps descriptors, who wins, and that nothing on a disk can stop it."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.caching import CACHES
from tests.support import requirement

from switchboard.catalog.findings import Finding, settle
from switchboard.catalog.model import Platform
from switchboard.sources.desktop import Desktop
from switchboard.sources.places import Surroundings, places

NOTE = {"fetched_at": "2026-02-24T10:00:00Z", "ttl_seconds": 86400, "source_url": "https://notion.so/aai.json"}
WEB = {"platform": "web", "execution": {"type": "http", "baseUrl": "https://api.notion.com"}}


class Machine:
    """A whole machine below one folder: write descriptors anywhere, then scan."""

    def __init__(self, root: Path, system: Platform = "linux", environment: Mapping[str, str] | None = None) -> None:
        self.root = root
        (root / "home/ann/project").mkdir(parents=True, exist_ok=True)
        self.around = Surroundings(
            system=system,
            home=root / "home/ann",
            working=root / "home/ann/project",
            environment=environment or {},
            root=root,
        )

    def write(self, path: str, app_id: str = "com.example.app", **changes: Any) -> Path:
        """Put a descriptor at a path below the machine's root."""
        document: dict[str, Any] = {
            "schemaVersion": "1.0",
            "version": "1.0.0",
            "platform": self.around.system,
            "app": {"id": app_id, "name": {"en": "App"}, "defaultLang": "en", "description": "An app"},
            "execution": {"type": "stdio", "command": "app"},
            "tools": [],
            **changes,
        }
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document))
        return file

    def scan(self, *, dev: bool = False) -> tuple[Finding, ...]:
        """Look everywhere."""
        return settle(Desktop(places(self.around, dev=dev), self.around.system, CACHES).scan())

    def found(self, *, dev: bool = False) -> list[tuple[str, str]]:
        """Name the usable apps and where they came from, in the order of precedence."""
        return [(finding.app.id, finding.source) for finding in self.scan(dev=dev) if finding.usable and finding.app]


@pytest.fixture
def linux(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@requirement(
    "descriptor:load:found", "scan:home:app-folder", "scan:home:default", "scan:home:web-copies", "scan:home:both-kinds"
)
def test_the_home_holds_desktop_apps_and_copies_of_web_apps(linux: Machine) -> None:
    """`~/.aai/<app>/aai.json` and `~/.aai/web/<app>/aai.json`; the folder `web` is not an app itself."""
    linux.write("home/ann/.aai/com.example.mail/aai.json", "com.example.mail")
    linux.write("home/ann/.aai/com.example.calendar/aai.json", "com.example.calendar")
    linux.write("home/ann/.aai/web/com.notion.api/aai.json", "com.notion.api", **WEB)
    linux.write("home/ann/.aai/web/aai.json", "not.an.app")

    assert linux.found() == [
        ("com.example.calendar", "home"),
        ("com.example.mail", "home"),
        ("com.notion.api", "registry copy"),
    ]


def test_another_home_is_chosen_by_the_environment(tmp_path: Path) -> None:
    """`AAI_HOME`, absolute, relative to the working folder, or with a tilde."""
    machine = Machine(tmp_path, environment={"AAI_HOME": str(tmp_path / "elsewhere")})
    machine.write("elsewhere/com.example.mail/aai.json", "com.example.mail")

    assert machine.found() == [("com.example.mail", "home")]
    for spelling in ("../../../elsewhere", "~/../../elsewhere"):
        elsewhere = Machine(tmp_path, environment={"AAI_HOME": spelling})
        assert [app_id for app_id, _ in elsewhere.found()] == ["com.example.mail"]


@requirement(
    "scan:bundles:applications",
    "scan:bundles:user-applications",
    "scan:bundles:depth",
    "scan:bundles:path",
)
def test_macos_bundles_are_found_four_levels_down(tmp_path: Path) -> None:
    """In both application folders; not deeper, not elsewhere in a bundle; a folder that is missing is no matter."""
    mac = Machine(tmp_path, "macos")
    mac.write("Applications/Mail.app/Contents/Resources/aai.json", "com.apple.mail")
    mac.write("home/ann/Applications/Own.app/Contents/Resources/aai.json", "com.example.own")
    mac.write("Applications/Utilities/Tool.app/Contents/Resources/aai.json", "com.example.utility")
    mac.write("Applications/Folder/Deep.app/Contents/Resources/aai.json", "com.example.too-deep")
    mac.write("Applications/Odd.app/Contents/aai.json", "com.example.not-in-resources")

    assert mac.found() == [
        ("com.example.own", "applications"),
        ("com.apple.mail", "applications"),
        ("com.example.utility", "applications"),
    ]


@requirement("scan:dev:build-folders")
def test_development_builds_are_found_only_when_asked_for_and_win(tmp_path: Path) -> None:
    """Xcode's build folders on macOS, three usual files elsewhere."""
    mac = Machine(tmp_path / "mac", "macos")
    products = "home/ann/Library/Developer/Xcode/DerivedData/App-abc/Build/Products"
    mac.write(f"{products}/Debug/App.app/Contents/Resources/aai.json", "com.example.app")
    mac.write("Applications/App.app/Contents/Resources/aai.json", "com.example.app")
    linux = Machine(tmp_path / "linux")
    for i, name in enumerate(("aai.json", "dist/aai.json", "build/aai.json")):
        linux.write(f"home/ann/project/{name}", f"com.example.build{i}")

    assert mac.found() == [("com.example.app", "applications")]
    assert mac.found(dev=True) == [("com.example.app", "development")]
    assert linux.found() == []
    assert [source for _, source in linux.found(dev=True)] == ["development"] * 3


def test_linux_data_folders_follow_the_xdg_specification(tmp_path: Path) -> None:
    """Own before shared, defaults where nothing is set, `.desktop` entries that point to a descriptor, and /opt."""
    machine = Machine(tmp_path)
    machine.write("home/ann/.local/share/applications/aai/own.json", "org.example.own")
    machine.write("usr/share/applications/aai/shared.json", "org.example.shared")
    machine.write("usr/local/share/applications/aai/local.json", "org.example.local")
    machine.write("opt/vendor/aai.json", "com.vendor.app")
    pointed = machine.write("usr/lib/pointed/aai.json", "org.example.pointed")
    entry = tmp_path / "usr/share/applications/pointed.desktop"
    entry.write_text(f"[Desktop Entry]\nName=Pointed\nX-AAI-Config={pointed}\n")
    entry.with_name("plain.desktop").write_text("[Desktop Entry]\nName=Plain\n")
    for i, value in enumerate(("~nobody-at-all/aai.json", "relative/aai.json", "/a\0b", "/nowhere/aai.json")):
        entry.with_name(f"wrong{i}.desktop").write_text(f"[Desktop Entry]\nX-AAI-Config = {value}\n")

    assert machine.found() == [
        ("org.example.own", "xdg"),
        ("org.example.local", "xdg"),
        ("org.example.shared", "xdg"),
        ("org.example.pointed", "desktop entry"),
        ("com.vendor.app", "opt"),
    ]
    wrong = [str(finding.problems[0]) for finding in machine.scan() if not finding.usable]
    assert [text.partition("absolute")[1] for text in wrong] == ["absolute"] * 3 + [""]
    assert "No such file" in wrong[3]


def test_linux_data_folders_can_be_moved(tmp_path: Path) -> None:
    """`XDG_DATA_HOME` and `XDG_DATA_DIRS` replace the defaults; relative entries are not used."""
    machine = Machine(
        tmp_path, environment={"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_DATA_DIRS": "/srv/share:relative"}
    )
    machine.write("data/applications/aai/a.json", "org.example.a")
    machine.write("srv/share/applications/aai/b.json", "org.example.b")
    machine.write("usr/share/applications/aai/c.json", "org.example.c")

    assert [app_id for app_id, _ in machine.found()] == ["org.example.a", "org.example.b"]


def test_windows_keeps_descriptors_in_two_folders_and_two_layouts(tmp_path: Path) -> None:
    r"""`%APPDATA%` before `%PROGRAMDATA%`, as `aai\*.json` and as `<App>\aai.json`."""
    environment = {"PROGRAMDATA": "C:\\ProgramData", "APPDATA": "C:\\Users\\ann\\AppData\\Roaming"}
    machine = Machine(tmp_path, "windows", environment)
    machine.write("ProgramData/aai/one.json", "com.example.one")
    machine.write("ProgramData/Two/aai.json", "com.example.two")
    machine.write("Users/ann/AppData/Roaming/aai/three.json", "com.example.three")
    machine.write("Users/ann/AppData/Roaming/Four/aai.json", "com.example.four")

    assert machine.found() == [
        ("com.example.three", "appdata"),
        ("com.example.four", "appdata"),
        ("com.example.one", "programdata"),
        ("com.example.two", "programdata"),
    ]


def test_two_places_with_one_id_are_a_conflict_that_everybody_sees(linux: Machine) -> None:
    """The person's own wins over the system's, and the loser says to whom."""
    linux.write("home/ann/.aai/mail/aai.json", "com.example.mail")
    linux.write("opt/mail/aai.json", "com.example.mail")

    own, system = linux.scan()

    assert own.usable
    assert not system.usable
    assert system.problems[0].kind == "conflict"
    assert own.location in system.problems[0].message


def test_one_file_at_two_places_is_no_conflict(linux: Machine) -> None:
    """A link from the home to /opt is the same app."""
    target = linux.write("opt/mail/aai.json", "com.example.mail")
    link = linux.root / "home/ann/.aai/mail"
    link.parent.mkdir()
    link.symlink_to(target.parent)

    (finding,) = linux.scan()
    assert finding.usable


def test_an_app_for_another_system_is_shown_with_a_warning(linux: Machine) -> None:
    """It can be described here, not called."""
    linux.write("home/ann/.aai/mac/aai.json", platform="macos")

    (finding,) = linux.scan()
    assert finding.usable
    assert finding.problems[0].path == "$.platform"


def test_a_scan_leaves_no_file_open(linux: Machine) -> None:
    """Also not for a folder that is called aai.json."""
    for i in range(10):
        (linux.root / f"home/ann/.aai/folder{i}/aai.json").mkdir(parents=True)
    kept = os.open(linux.root, os.O_RDONLY)
    try:
        linux.scan()

        assert opened_below(linux.root) == [str(linux.root)]  # one that is left open is seen
    finally:
        os.close(kept)


def opened_below(folder: Path) -> list[str]:
    """Return what this process has open in a folder, whatever other threads open and close meanwhile."""
    found: list[str] = []
    for number in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(number.readlink()))
    return [path for path in found if path.startswith(str(folder))]


def test_a_link_loop_in_the_working_folder_is_reported(linux: Machine) -> None:
    """`--dev` looks at files that may lead to themselves."""
    (linux.root / "home/ann/project/aai.json").symlink_to("aai.json")

    (finding,) = linux.scan(dev=True)
    assert "symbolic links" in finding.problems[0].message


def test_the_scan_runs_beside_an_event_loop(linux: Machine) -> None:
    """`load` gives what `scan` gives."""
    linux.write("home/ann/.aai/mail/aai.json", "com.example.mail")
    source = Desktop(places(linux.around), "linux", CACHES)

    assert asyncio.run(source.load()) == source.scan()


def test_the_origin_of_a_local_app_is_its_file(linux: Machine) -> None:
    """So that consent given to one file is not inherited by another."""
    file = linux.write("home/ann/.aai/mail/aai.json", "com.example.mail")

    (finding,) = linux.scan()
    assert finding.app is not None
    assert finding.app.origin == file.as_uri()


def test_the_origin_of_a_copy_is_the_site_it_came_from(linux: Machine) -> None:
    """A copy whose note cannot be read, or names no site, is refused; the same note elsewhere says nothing."""
    for folder, note in {
        ".aai/web/com.a.noted": json.dumps(NOTE),
        ".aai/web/com.b.broken": "{",
        ".aai/web/com.c.nonsense": json.dumps(NOTE | {"source_url": "https://["}),
        ".aai/web/com.d.file": json.dumps(NOTE | {"source_url": "file:///etc/passwd"}),
        ".aai/web/com.f.long": json.dumps(NOTE | {"source_url": "https://notion.so/" + "x" * 20_000}),
        ".aai/com.e.own": json.dumps(NOTE),
    }.items():
        linux.write(f"home/ann/{folder}/aai.json", folder.rpartition("/")[2], **WEB)
        (linux.root / f"home/ann/{folder}/aai.json.meta").write_text(note)

    found = linux.scan()

    own = (linux.root / "home/ann/.aai").as_uri()
    assert {finding.app.id: finding.app.origin for finding in found if finding.app} == {
        "com.a.noted": "https://notion.so",
        "com.e.own": f"{own}/com.e.own/aai.json",
    }
    refused = {Path(finding.location).parent.name: str(finding.problems[0]) for finding in found if not finding.app}
    assert refused.keys() == {"com.b.broken", "com.c.nonsense", "com.d.file", "com.f.long"}
    assert all("a copy without its note" in reason for reason in refused.values())


def test_a_copy_from_the_network_never_runs_a_program(linux: Machine) -> None:
    """Also if its note is gone, or can no longer be read; a person's own file among the copies is for the web, too."""
    for name in ("com.a.fetched", "com.b.no-note", "com.c.broken-note"):
        linux.write(f"home/ann/.aai/web/{name}/aai.json", name)
    (linux.root / "home/ann/.aai/web/com.a.fetched/aai.json.meta").write_text(json.dumps(NOTE))
    (linux.root / "home/ann/.aai/web/com.c.broken-note/aai.json.meta").write_text("x" * 20_000)
    own = linux.write("home/ann/.aai/web/com.d.own/aai.json", "com.d.own", **WEB)

    *refused, usable = linux.scan()

    assert [finding.app for finding in refused] == [None] * 3
    assert ["runs on this machine" in str(finding.problems[-1]) for finding in refused] == [True, True, False]
    assert usable.app is not None
    assert usable.app.origin == own.as_uri()


def test_a_copy_that_is_being_written_is_not_seen(linux: Machine) -> None:
    """It has a name that no app can have, until it is whole."""
    linux.write("home/ann/.aai/web/.com.example.app.12.34/aai.json")

    assert linux.scan() == ()


def test_looking_again_sees_what_changed_and_only_reads_that(linux: Machine) -> None:
    """What did not change is the same finding; a note that changed changes the origin."""
    linux.write("home/ann/.aai/com.a.a/aai.json", "com.a.a")
    linux.write("home/ann/.aai/com.b.b/aai.json", "com.b.b")
    linux.write("home/ann/.aai/web/com.c.c/aai.json", "com.c.c", **WEB)
    source = Desktop(places(linux.around), "linux")
    before = source.scan()
    linux.write("home/ann/.aai/com.b.b/aai.json", "com.b.b", version="2.0.0")
    (linux.root / "home/ann/.aai/web/com.c.c/aai.json.meta").write_text(json.dumps(NOTE))

    after = source.scan()

    assert after[0] is before[0]
    assert [finding.app.version for finding in after if finding.app] == ["1.0.0", "2.0.0", "1.0.0"]
    assert after[2].app is not None
    assert after[2].app.origin == "https://notion.so"


def broken_twenty(home: Path) -> dict[str, str]:
    """Break twenty descriptors in different ways; return the reason expected for each folder."""
    good: dict[str, Any] = {
        "schemaVersion": "1.0",
        "version": "1.0.0",
        "platform": "linux",
        "app": {"id": "com.example.x", "name": {"en": "X"}, "defaultLang": "en", "description": "X"},
        "execution": {"type": "stdio", "command": "x"},
        "tools": [{"name": "a", "description": "A"}],
    }
    texts: dict[str, tuple[bytes, str]] = {
        "b01-empty": (b"", "empty"),
        "b02-half-written": (json.dumps(good).encode()[:50], "ends too early"),
        "b03-binary": (b"\x7fELF\x02\x01\x01\x00\xff\xfe", "not UTF-8"),
        "b04-utf16": (json.dumps(good).encode("utf-16"), "not UTF-8"),
        "b05-not-json": (b"{not json}", "not JSON"),
        "b06-list": (b"[]", "found a list"),
        "b07-huge": (b'{"a":"' + b"x" * 2_000_000 + b'"}', "larger than 1024 KiB"),
        "b08-deep": (b'{"a":' * 200 + b"1" + b"}" * 200, "deeper than 64"),
        "b09-id-escapes": (json.dumps({**good, "app": {**good["app"], "id": "../../x"}}).encode(), "$.app.id"),
        "b10-no-tools-list": (json.dumps({**good, "tools": 5}).encode(), "$.tools"),
        "b11-execution": (json.dumps({**good, "execution": {"type": "smoke"}}).encode(), "$.execution.type"),
        "b12-web-nowhere": (
            json.dumps({**{k: v for k, v in good.items() if k != "execution"}, "platform": "web"}).encode(),
            "$.execution",
        ),
        "b13-version-3": (json.dumps({**good, "schemaVersion": "3.0"}).encode(), "$.schemaVersion"),
        "b14-tool-nameless": (json.dumps({**good, "tools": [{"description": "?"}]}).encode(), "$.tools[0].name"),
        "b15-two-tools": (json.dumps({**good, "tools": [*good["tools"], *good["tools"]]}).encode(), "another tool"),
        "b16-platform": (json.dumps({**good, "platform": "beos"}).encode(), "$.platform"),
    }
    for name, (raw, _) in texts.items():
        (home / name).mkdir(parents=True)
        (home / name / "aai.json").write_bytes(raw)
    (home / "b17-link-to-nowhere").mkdir()
    (home / "b17-link-to-nowhere" / "aai.json").symlink_to("gone.json")
    (home / "b18-link-loop").mkdir()
    (home / "b18-link-loop" / "aai.json").symlink_to("aai.json")
    (home / "b19-folder" / "aai.json").mkdir(parents=True)
    (home / "b20-pipe").mkdir()
    os.mkfifo(home / "b20-pipe" / "aai.json")
    special = {
        "b17-link-to-nowhere": "No such file",
        "b18-link-loop": "symbolic links",
        "b19-folder": "not a regular file",
    }
    return {**{name: reason for name, (_, reason) in texts.items()}, **special, "b20-pipe": "not a regular file"}


@requirement("descriptor:validate:found")
def test_of_five_hundred_apps_twenty_broken_ones_are_named_and_the_rest_found(linux: Machine) -> None:
    """Each broken one in its own way, with its own reason; nothing waits on the pipe."""
    for i in range(480):
        linux.write(f"home/ann/.aai/com.example.app{i}/aai.json", f"com.example.app{i}")
    reasons = broken_twenty(linux.root / "home/ann/.aai")

    findings = linux.scan()

    assert sum(finding.usable for finding in findings) == 480
    broken = {
        Path(finding.location).parent.name: "; ".join(str(problem) for problem in finding.problems)
        for finding in findings
        if not finding.usable
    }
    assert broken.keys() == reasons.keys()
    assert {name: reasons[name] in text for name, text in broken.items()} == dict.fromkeys(reasons, True)


@pytest.fixture
def folder() -> Iterator[str]:
    """Make a folder that other users can reach, which those of pytest are not."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield name


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become a user who may not read")
@requirement("scan:bundles:unreadable")
def test_what_may_not_be_read_is_reported_and_skipped(folder: str) -> None:
    """An unreadable file and an unreadable folder, seen by a user who is not root."""
    root = Path(folder)
    root.chmod(0o755)
    machine = Machine(root)
    machine.write("home/ann/.aai/secret/aai.json", "com.example.secret").chmod(0)
    machine.write("home/ann/.aai/open/aai.json", "com.example.open")
    (root / "opt").mkdir(mode=0)
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom tests.sources.test_desktop import Machine\n"
        "machine = Machine(Path(sys.argv[1]))\n"
        "machine.scan()  # as root, so that every module is loaded\n"
        "os.setresuid(65534, 65534, 65534)\n"
        "for finding in machine.scan():\n"
        "    print(finding.usable, finding.location, [str(problem) for problem in finding.problems])\n"
    )

    run = subprocess.run(  # noqa: S603 - our own interpreter and script
        [sys.executable, "-c", script, folder],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": "src:."},
    )

    lines = sorted(run.stdout.splitlines())
    assert [line.split()[0] for line in lines] == ["False", "False", "True"]
    assert all("cannot be read: Permission denied" in line for line in lines[:2])
