"""Watching: whatever changes in a place is noticed, also what happens to the place itself."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from switchboard.sources.desktop import Desktop
from switchboard.sources.places import Place, Shape
from switchboard.sources.watch import folders, watch

PATIENCE_S = 30


class Watched:
    """What a scan sees each time that a change is noticed."""

    def __init__(self, places: Iterable[Place]) -> None:
        self._places = tuple(places)
        self._news = asyncio.Condition()
        self.looks = 0
        self.apps: set[str] = set()

    async def look(self) -> None:
        """Look again, as the gateway does."""
        findings = await Desktop(self._places, "linux").load()
        async with self._news:
            self.looks += 1
            self.apps = {finding.app.id for finding in findings if finding.app}
            self._news.notify_all()

    async def until(self, *apps: str) -> None:
        """Wait until exactly these are seen."""
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(lambda: self.looks > 0 and self.apps == set(apps))

    async def again(self) -> None:
        """Wait for one more look."""
        async with asyncio.timeout(PATIENCE_S), self._news:
            before = self.looks
            await self._news.wait_for(lambda: self.looks > before)


@asynccontextmanager
async def watching(*places: Place) -> AsyncGenerator[Watched]:
    """Watch until the story ends."""
    watched = Watched(places)
    task = asyncio.create_task(watch(places, watched.look))
    try:
        yield watched
        assert not task.done()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def write(file: Path, app_id: str) -> Path:
    """Put a descriptor there."""
    document: dict[str, Any] = {
        "schemaVersion": "1.0",
        "version": "1.0.0",
        "platform": "linux",
        "app": {"id": app_id, "name": {"en": "App"}, "defaultLang": "en", "description": "An app"},
        "execution": {"type": "stdio", "command": "app"},
        "tools": [],
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document))
    return file


def test_what_is_added_changed_and_removed_is_noticed(tmp_path: Path) -> None:
    """In a folder of apps, each of which has a folder of its own."""

    async def story() -> None:
        write(tmp_path / "one/aai.json", "com.example.one")
        async with watching(Place("home", tmp_path, "apps")) as watched:
            await watched.until("com.example.one")
            write(tmp_path / "two/aai.json", "com.example.two")
            await watched.until("com.example.one", "com.example.two")
            write(tmp_path / "one/aai.json", "com.example.changed")
            await watched.until("com.example.changed", "com.example.two")
            (tmp_path / "two/aai.json").unlink()
            await watched.until("com.example.changed")
            shutil.rmtree(tmp_path / "one")
            await watched.until()

    asyncio.run(story())


def test_an_atomic_replacement_is_noticed(tmp_path: Path) -> None:
    """Written beside it, then renamed onto it, as careful programs do."""

    async def story() -> None:
        file = write(tmp_path / "one/aai.json", "com.example.old")
        async with watching(Place("home", tmp_path, "apps")) as watched:
            await watched.until("com.example.old")
            write(tmp_path / "one/.aai.json.new", "com.example.new").replace(file)
            await watched.until("com.example.new")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("shape", "files"),
    [
        ("apps", ["place/a/aai.json", "place/b/aai.json"]),
        ("files", ["place/a.json", "place/b.json"]),
        ("bundles", ["place/A.app/Contents/Resources/aai.json", "place/B.app/Contents/Resources/aai.json"]),
    ],
)
def test_a_folder_that_is_missing_at_first_is_noticed_when_it_comes(
    tmp_path: Path, shape: Shape, files: list[str]
) -> None:
    """However many levels of it are missing; and a second app in it after that."""

    async def story() -> None:
        async with watching(Place("home", tmp_path / "deep/er" / "place", shape)) as watched:
            await watched.until()
            for i, file in enumerate(files, 1):
                write(tmp_path / "deep/er" / file, f"com.example.a{i}")
                await watched.until(*(f"com.example.a{n}" for n in range(1, i + 1)))

    asyncio.run(story())


def test_a_folder_that_is_deleted_and_made_again_is_still_watched(tmp_path: Path) -> None:
    """Too quickly for anybody to see that it was gone; it has its old name, and maybe its old number."""

    async def story() -> None:
        home = tmp_path / "home"
        write(home / "one/aai.json", "com.example.one")
        async with watching(Place("home", home, "apps")) as watched:
            await watched.until("com.example.one")
            for turn in range(3):
                shutil.rmtree(home)
                write(home / "one/aai.json", f"com.example.again{turn}")
                await watched.until(f"com.example.again{turn}")
                write(home / "one/aai.json", f"com.example.later{turn}")
                await watched.until(f"com.example.later{turn}")

    asyncio.run(story())


def test_a_folder_that_is_exchanged_for_another_is_noticed(tmp_path: Path) -> None:
    """As people do who put a backup in its place."""

    async def story() -> None:
        write(tmp_path / "home/one/aai.json", "com.example.one")
        write(tmp_path / "backup/two/aai.json", "com.example.two")
        async with watching(Place("home", tmp_path / "home", "apps")) as watched:
            await watched.until("com.example.one")
            (tmp_path / "home").rename(tmp_path / "old")
            (tmp_path / "backup").rename(tmp_path / "home")
            await watched.until("com.example.two")
            write(tmp_path / "home/three/aai.json", "com.example.three")
            await watched.until("com.example.two", "com.example.three")

    asyncio.run(story())


def test_many_files_at_once_are_all_noticed(tmp_path: Path) -> None:
    """With far fewer looks than files."""

    async def story() -> None:
        async with watching(Place("home", tmp_path / "home", "apps")) as watched:
            await watched.until()
            ids = [f"com.example.a{i}" for i in range(200)]
            for app_id in ids:
                write(tmp_path / "home" / app_id / "aai.json", app_id)
            await watched.until(*ids)

            assert watched.looks < 50

    asyncio.run(story())


def test_a_bundle_that_is_installed_slowly_is_noticed(tmp_path: Path) -> None:
    """Folder by folder: the descriptor comes last, into a folder that was not there when the app came."""

    async def story() -> None:
        async with watching(Place("applications", tmp_path, "bundles")) as watched:
            await watched.until()
            for way in ("App.app", "App.app/Contents", "App.app/Contents/Resources"):
                (tmp_path / way).mkdir()
                await watched.again()
            write(tmp_path / "App.app/Contents/Resources/aai.json", "com.example.app")
            await watched.until("com.example.app")

    asyncio.run(story())


def test_nothing_is_lost_between_a_look_and_the_watch(tmp_path: Path) -> None:
    """What comes while the first look is on its way is seen by the next."""

    async def story() -> None:
        place = Place("home", tmp_path / "home", "apps")
        (tmp_path / "home").mkdir()
        watched = Watched([place])

        async def slow_look() -> None:
            await watched.look()
            if watched.looks <= 3:  # right after it was looked at
                write(tmp_path / f"home/late{watched.looks}/aai.json", f"com.example.late{watched.looks}")

        task = asyncio.create_task(watch([place], slow_look))
        await watched.until("com.example.late1", "com.example.late2", "com.example.late3")
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())


def test_desktop_entries_and_single_files_are_watched(tmp_path: Path) -> None:
    """A new entry that points to a descriptor, and the descriptor of a build."""

    async def story() -> None:
        target = write(tmp_path / "lib/aai.json", "com.example.pointed")
        entries = tmp_path / "applications"
        entries.mkdir()
        places = (Place("entry", entries, "entries"), Place("build", tmp_path / "dist/aai.json", "file"))
        async with watching(*places) as watched:
            await watched.until()
            (entries / "x.desktop").write_text(f"[Desktop Entry]\nX-AAI-Config={target}\n")
            await watched.until("com.example.pointed")
            write(tmp_path / "dist/aai.json", "com.example.build")
            await watched.until("com.example.pointed", "com.example.build")

    asyncio.run(story())


@pytest.mark.parametrize("shape", ["entries", "apps", "files", "bundles", "file"])
def test_a_descriptor_that_lies_elsewhere_is_watched_there(tmp_path: Path, shape: Shape) -> None:
    """Where a desktop entry points to, and where a link leads."""
    target = tmp_path / "elsewhere/aai.json"
    place = tmp_path / "place"
    links: dict[Shape, str] = {
        "apps": "app/aai.json",
        "files": "app.json",
        "bundles": "A.app/Contents/Resources/aai.json",
        "file": "aai.json",
    }

    async def story() -> None:
        write(target, "com.example.one")
        if shape == "entries":
            place.mkdir()
            (place / "x.desktop").write_text(f"[Desktop Entry]\nX-AAI-Config={target}\n")
        else:
            (place / links[shape]).parent.mkdir(parents=True)
            (place / links[shape]).symlink_to(target)
        async with watching(Place("x", place / links[shape] if shape == "file" else place, shape)) as watched:
            await watched.until("com.example.one")
            write(target, "com.example.two")
            await watched.until("com.example.two")
            target.unlink()
            await watched.until()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("shape", "path", "expected"),
    [
        ("apps", "full", ["full", "full/A.app", "full/app", "full/web"]),
        ("files", "full", ["full"]),
        ("entries", "full", ["full"]),
        ("bundles", "full", ["full", "full/A.app/Contents/Resources", "full/app/Contents", "full/web"]),
        ("file", "full/aai.json", ["full"]),
        ("file", "full/dist/aai.json", ["full"]),
        ("apps", "nowhere/deep", ["."]),
        ("bundles", "full/nowhere", ["full"]),
        ("apps", "full/file.json", ["full"]),
    ],
)
def test_the_folders_of_each_layout_are_watched(tmp_path: Path, shape: Shape, path: str, expected: list[str]) -> None:
    """Those of the layout, never the trees below; for what is missing, the nearest folder that is there."""
    for folder in ("A.app/Contents/Resources/deep", "app/Contents", "web"):
        (tmp_path / "full" / folder).mkdir(parents=True)
    (tmp_path / "full/file.json").write_text("{}")

    found = folders([Place("x", tmp_path / path, shape)])

    assert [os.path.relpath(folder, tmp_path) for folder in found] == expected


def test_what_is_skipped_is_not_watched_and_two_places_share_a_folder(tmp_path: Path) -> None:
    """Nor is a copy that is still being written."""
    for folder in ("web/.com.x.x.1.2", "web/com.x.x", "app"):
        (tmp_path / folder).mkdir(parents=True)
    home = Place("home", tmp_path, "apps", frozenset({"web"}))
    web = Place("registry copy", tmp_path / "web", "apps", holds_copies=True)

    found = folders([home, web, home])

    assert [os.path.relpath(folder, tmp_path) for folder in found] == [".", "app", "web", "web/com.x.x"]
