"""Copies of descriptors and the notes beside them: their format, their folders, and that a note is never trusted."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support import requirement

from switchboard.catalog.errors import InvalidDescriptor, RefusedAddress
from switchboard.sources import copies
from switchboard.sources.copies import Copy, Meta

NOON = 1_771_927_200.0
SOURCE = "https://notion.so/.well-known/aai.json"


def published(app_id: str = "com.notion.api", **changes: Any) -> bytes:
    """Write a descriptor as a web site publishes it."""
    document: dict[str, Any] = {
        "schemaVersion": "1.0",
        "version": "1.0.0",
        "platform": "web",
        "app": {"id": app_id, "name": {"en": "Notion"}, "defaultLang": "en", "description": "Notes"},
        "execution": {"type": "http", "baseUrl": "https://api.notion.com"},
        "tools": [],
        **changes,
    }
    return json.dumps(document).encode()


@requirement("storage:cache:meta-file", "storage:cache:meta-fetched-at", "storage:cache:meta-ttl")
@requirement("storage:cache:meta-source")
def test_a_note_has_the_format_of_the_seed(tmp_path: Path) -> None:
    """Three keys, and nothing else while there is no ETag (seed 002, "Cache Metadata Format")."""
    folder = tmp_path / "cache" / "notion.so"
    copies.write(folder, Copy(b"{}", copies.note(NOON, SOURCE)))

    assert (folder / "aai.json").read_bytes() == b"{}"
    assert json.loads((folder / "aai.json.meta").read_bytes()) == {
        "fetched_at": "2026-02-24T10:00:00Z",
        "ttl_seconds": 86400,
        "source_url": SOURCE,
    }
    assert sorted(path.name for path in folder.iterdir()) == ["aai.json", "aai.json.meta"]


def test_a_copy_comes_back_with_what_was_noted(tmp_path: Path) -> None:
    """With the ETag and the registry, where there were any."""
    copy = Copy(published(), copies.note(NOON, SOURCE, 'W/"1"', registry="https://r.test"))
    copies.write(tmp_path / "a", copy)

    assert copies.read(tmp_path / "a") == copy
    assert copies.read_meta(tmp_path / "a") == copy.meta


@pytest.mark.parametrize(
    ("etag", "sent"),
    [
        ('"abc"', '"abc"'),
        ('W/"a b"', 'W/"a b"'),
        ("", None),
        (None, None),
        ('"caf\u00e9"', None),
        ('"a\r\nX-Evil: 1"', None),
        ("x" * 20_000, None),
    ],
)
def test_an_etag_that_cannot_be_sent_is_not_noted(etag: str | None, sent: str | None) -> None:
    """Else every later question would fail, or the note be too long to be read."""
    noted = copies.note(NOON, SOURCE, etag)
    by_hand = Meta(fetched_at="2026-02-24T10:00:00Z", ttl_seconds=1, source_url=SOURCE, etag=etag)

    assert noted.etag == sent
    assert by_hand.validator == sent


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"fetched_at": 5, "ttl_seconds": 86400, "source_url": "https://a.test"}',
        b'{"ttl_seconds": 86400, "source_url": "https://a.test"}',
        b'{"fetched_at": "2026-02-24T10:00:00Z", "ttl_seconds": 1e400, "source_url": "https://a.test"}',
        b'{"x": ' + b"[" * 8000 + b"]" * 8000 + b"}",
        b'{"fetched_at": "2026-02-24T10:00:00Z", "ttl_seconds": 1, "source_url": "' + b"x" * 20_000 + b'"}',
    ],
)
def test_a_copy_with_a_broken_note_is_no_copy(tmp_path: Path, note: bytes) -> None:
    """Whatever lies there, reading it does not fail."""
    (tmp_path / "aai.json").write_bytes(published())
    (tmp_path / "aai.json.meta").write_bytes(note)

    assert copies.read(tmp_path) is None


def test_half_a_copy_is_no_copy(tmp_path: Path) -> None:
    """A note without its descriptor, a descriptor without its note, and a folder in the place of either."""
    copies.write(tmp_path / "note", Copy(b"{}", copies.note(NOON, SOURCE)))
    (tmp_path / "note/aai.json").unlink()
    copies.write(tmp_path / "text", Copy(b"{}", copies.note(NOON, SOURCE)))
    (tmp_path / "text/aai.json.meta").unlink()
    (tmp_path / "folders/aai.json").mkdir(parents=True)
    (tmp_path / "folders/aai.json.meta").mkdir()

    assert [copies.read(tmp_path / name) for name in ("note", "text", "folders", "nowhere")] == [None] * 4


@pytest.mark.parametrize(
    ("fetched_at", "ttl", "fresh"),
    [
        ("2026-02-24T09:59:59Z", 86400, True),
        ("2026-02-23T10:00:01Z", 86400, True),
        ("2026-02-23T10:00:00Z", 86400, False),
        ("2026-02-24T10:00:01Z", 86400, False),  # from the future
        ("2026-02-24T10:59:00+01:00", 86400, True),
        ("2026-02-24T09:59:00", 86400, True),
        ("2026-02-20T10:00:00Z", 10**12, False),  # nobody may say: for ever
        ("2026-02-24T09:59:59Z", -5, False),
        ("yesterday", 86400, False),
        ("", 86400, False),
        ("0001-01-01T00:00:00+23:59", 86400, False),
        ("9999-12-31T23:59:59-23:59", 86400, False),
    ],
)
def test_a_copy_is_fresh_for_a_day_at_most(fetched_at: str, ttl: int, fresh: bool) -> None:
    """Counted from a time that can be read and has been."""
    assert Meta(fetched_at=fetched_at, ttl_seconds=ttl, source_url=SOURCE).is_fresh(NOON) is fresh


@pytest.mark.parametrize("name", ["com.example.app", "a", "A_b-c.9", "x" * 200])
def test_an_id_becomes_a_folder(name: str) -> None:
    """Of that very name."""
    assert copies.safe_folder(Path("/p"), name) == Path("/p") / name


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "../../x", "a/b", "a\\b", "/etc", "C:", "a:b", ".hidden", "-x", "a\0b", "a\n", "a ", "a."),
        *("CON", "con.txt", "nul", "Com1", "lpt9.json", "\u00fc", "\uff0e\uff0e", "a%2f", "~", "x" * 201),
    ],
)
def test_a_name_that_leads_elsewhere_is_no_folder(name: str) -> None:
    """On no system: no way up, no device, no name that two systems spell differently."""
    assert copies.safe_folder(Path("/p"), name) is None


@requirement("storage:cache:path")
@pytest.mark.parametrize(
    ("origin", "folder"),
    [
        ("https://notion.so", "notion.so"),
        ("https://notion.so:443", "notion.so"),
        ("https://notion.so:8443", "notion.so_8443"),
        ("http://localhost", "localhost_80"),
        ("http://localhost:3000", "localhost_3000"),
        ("https://127.0.0.1:3000", "127.0.0.1_3000"),
        ("https://[::1]:3000", "0000-0000-0000-0000-0000-0000-0000-0001_3000"),
        ("https://xn--bcher-kva.test", "xn--bcher-kva.test"),
        ("https://con.app", None),
        ("https://..", None),
        ("https://../../etc", None),
        ("https://b\u00fccher.test", None),
        ("https://h:99999", None),
        ("https://[::1", None),
        ("nonsense", None),
        ("", None),
    ],
)
def test_a_site_has_a_folder_of_its_own(origin: str, folder: str | None) -> None:
    """Its host; with the port where that is not the usual one."""
    assert copies.host_folder(Path("/cache"), origin) == (None if folder is None else Path("/cache") / folder)


@pytest.mark.parametrize(
    ("text", "spelling"),
    [
        ("https://Shop.TEST", "https://shop.test/"),
        ("https://shop.test:443/a", "https://shop.test/a"),
        ("https://shop.test./a#part", "https://shop.test/a"),
        ("https://b\u00fccher.test/", "https://xn--bcher-kva.test/"),
        ("https://stra\u00dfe.test/", "https://xn--strae-oqa.test/"),
        ("https://2130706433/", "https://127.0.0.1/"),
        ("http://localhost:3000/", "http://localhost:3000/"),
    ],
)
def test_one_site_has_one_spelling(text: str, spelling: str) -> None:
    """The one that is looked up."""
    assert copies.spelled(text) == spelling


@pytest.mark.parametrize(
    "text",
    [
        *("https://user:secret@shop.test/", "https://[::1", "https://h:99999/", "https://", "ftp://h/"),
        *("https://a\\@b/", "http://10.0.0.1/", "", "https://a b/"),
    ],
)
def test_what_could_never_be_called_has_no_spelling(text: str) -> None:
    """And the refusal does not repeat a password."""
    with pytest.raises(RefusedAddress) as refusal:
        copies.spelled(text)

    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://notion.so/a?b", "https://notion.so"),
        ("http://127.0.0.1:80/", "http://127.0.0.1:80"),
        ("file:///etc/passwd", None),
        ("https://[", None),
        ("https:///x", None),
        ("", None),
    ],
)
def test_only_an_address_has_an_origin(url: str, origin: str | None) -> None:
    """A note can hold any text."""
    assert copies.origin_of(url) == origin


def test_a_first_copy_appears_whole_and_never_on_top_of_another(tmp_path: Path) -> None:
    """Whoever is second is told, and changes nothing."""
    first, second = (Copy(published(id_), copies.note(NOON, SOURCE)) for id_ in ("com.a.a", "com.b.b"))

    placed = [copies.place(tmp_path / "x", first), copies.place(tmp_path / "x", second)]

    assert placed == [True, False]
    assert copies.read(tmp_path / "x") == first
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    """A file stands where a folder has to be, a folder where a file has to be."""
    (tmp_path / "file").write_text("")
    (tmp_path / "full/aai.json/inner").mkdir(parents=True)
    copy = Copy(published(), copies.note(NOON, SOURCE))

    for write in (copies.write, copies.place):
        with pytest.raises(OSError, match="Not a directory"):
            write(tmp_path / "file" / "x", copy)
    with pytest.raises(OSError, match="Is a directory"):
        copies.write(tmp_path / "full", copy)

    assert sorted(path.name for path in tmp_path.rglob("*")) == ["aai.json", "file", "full", "inner"]


def test_removing_a_copy_leaves_what_else_is_there(tmp_path: Path) -> None:
    """The folder goes when it is empty; removing twice is no error."""
    for name in ("alone", "shared"):
        copies.write(tmp_path / name, Copy(b"{}", copies.note(NOON, SOURCE)))
    (tmp_path / "shared/own.txt").write_text("mine")

    for name in ("alone", "shared", "alone"):
        copies.remove(tmp_path / name)

    assert sorted(path.name for path in tmp_path.rglob("*")) == ["own.txt", "shared"]


def test_the_note_of_a_copy_goes_last(tmp_path: Path) -> None:
    """What cannot be removed whole is not left as a file that somebody might have put there."""
    copies.write(tmp_path / "a", Copy(b"{}", copies.note(NOON, SOURCE)))
    (tmp_path / "a/aai.json").unlink()
    (tmp_path / "a/aai.json/inner").mkdir(parents=True)

    with pytest.raises(OSError, match="directory"):
        copies.remove(tmp_path / "a")

    assert copies.read_meta(tmp_path / "a") is not None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://shop.test/a?token=secret#x", "https://shop.test/a"),
        ("https://ann:secret@shop.test/a", "(address not shown)"),
        ("http://10.0.0.1/a?secret", "http://10.0.0.1/a"),
        ("https://[", "(address not shown)"),
    ],
)
def test_what_is_shown_of_an_address_has_no_secrets(url: str, shown: str) -> None:
    """They travel in queries and before the host."""
    assert copies.shown_address(url) == shown


PROGRAMS: list[dict[str, Any]] = [
    {"execution": {"type": "stdio", "command": "rm"}},
    {"execution": {"type": "acp", "start": {"command": "rm"}}},
    {"execution": {"type": "dbus", "service": "org.x", "objectPath": "/x"}},
    {"execution": {"type": "apple-events", "bundleId": "com.apple.finder"}},
    {"execution": {"type": "com", "progId": "WScript.Shell"}},
    {"execution": {"type": "cli", "command": "rm"}},
    {"execution": {"type": "skill", "path": "/etc"}},
    {"execution": {"type": "mcp", "transport": "stdio", "command": "rm"}},
    {"platforms": {"linux": {"automation": "dbus", "service": "x", "tools": []}}},
    {"platforms": {"linux": {"automation": "applescript", "tools": []}}},
]


@pytest.mark.parametrize("changes", PROGRAMS, ids=str)
def test_a_site_cannot_describe_a_program_of_this_machine(changes: dict[str, Any]) -> None:
    """Whatever it is run with."""
    document = json.loads(published(**changes))
    if "platforms" in changes:
        del document["platform"], document["execution"]

    with pytest.raises(InvalidDescriptor, match="runs on this machine") as refusal:
        copies.web_app(json.dumps(document).encode(), system="linux", origin="https://a.test", source=SOURCE)

    assert SOURCE in refusal.value.message


def test_of_a_draft_for_many_systems_a_site_means_the_part_for_the_web() -> None:
    """Also on a system that has a part of its own there, which would run a program."""
    parts: dict[str, Any] = {
        "macos": {"automation": "applescript", "tools": []},
        "web": {"automation": "restapi", "base_url": "https://api.notion.com", "tools": []},
    }
    document = json.loads(published(platforms=parts))
    del document["platform"], document["execution"]

    app = copies.web_app(json.dumps(document).encode(), system="macos", origin="https://a.test", source=SOURCE)

    assert (app.platform, app.execution.kind, app.origin) == ("web", "http", "https://a.test")
