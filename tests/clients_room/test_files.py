"""A file is replaced whole or not at all, and nothing about it is lost."""

import os
import stat
from pathlib import Path

import pytest

from switchboard.clients import files
from switchboard.clients.refusals import Raced, Unusable

NOW = 1_800_000_000.0
STAMP = "20270115T080000Z"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_copy_for_this_user_alone_is_put_beside_the_file(tmp_path: Path) -> None:
    """The file keeps its mode; the copy may hold secrets, so nobody else reads it."""
    file = tmp_path / "mcp.json"
    file.write_bytes(b"old")
    file.chmod(0o640)

    backup = files.replace(files.read(file), b"new", NOW)

    assert backup is not None
    assert backup == tmp_path / f"mcp.json.{STAMP}.bak"
    assert (file.read_bytes(), mode(file)) == (b"new", 0o640)
    assert (backup.read_bytes(), mode(backup)) == (b"old", 0o600)
    assert names(tmp_path) == ["mcp.json", backup.name]


def test_a_copy_is_never_written_over(tmp_path: Path) -> None:
    """Two changes within a second leave two."""
    file = tmp_path / "mcp.json"
    file.write_bytes(b"1")

    for content in (b"2", b"3"):
        files.replace(files.read(file), content, NOW)

    assert (tmp_path / f"mcp.json.{STAMP}.bak").read_bytes() == b"1"
    assert (tmp_path / f"mcp.json.{STAMP}-1.bak").read_bytes() == b"2"


def test_links_stay_links(tmp_path: Path) -> None:
    """Programs that manage dotfiles have the file itself somewhere else; that one is changed."""
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "home").mkdir()
    file, middle, link = tmp_path / "dotfiles/mcp.json", tmp_path / "middle", tmp_path / "home/mcp.json"
    file.write_bytes(b"old")
    middle.symlink_to("dotfiles")
    link.symlink_to("../middle/mcp.json")

    backup = files.replace(files.read(link), b"new", NOW)

    assert (link.is_symlink(), str(link.readlink()), file.read_bytes()) == (True, "../middle/mcp.json", b"new")
    assert backup is not None
    assert backup.parent == file.parent
    assert names(link.parent) == ["mcp.json"]


def test_a_link_to_what_is_not_there_yet_is_followed(tmp_path: Path) -> None:
    """The file is made where the link leads."""
    link = tmp_path / "mcp.json"
    link.symlink_to("dotfiles/mcp.json")

    files.replace(files.read(link), b"new", NOW)

    assert link.is_symlink()
    assert (tmp_path / "dotfiles/mcp.json").read_bytes() == b"new"


def test_new_files_and_folders_are_for_this_user_alone(tmp_path: Path) -> None:
    """They may hold keys one day."""
    file = tmp_path / "client/mcp.json"

    assert files.replace(files.read(file), b"new", NOW) is None
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)


@pytest.mark.parametrize("change", ["write", "remove", "create"])
def test_what_somebody_else_wrote_meanwhile_stays(change: str, tmp_path: Path) -> None:
    """Compared right before the file is replaced; no copy and no half of anything is left."""
    file = tmp_path / "mcp.json"
    if change != "create":
        file.write_bytes(b"old")
    was = files.read(file)
    if change == "remove":
        file.unlink()
    else:
        file.write_bytes(b"theirs")

    with pytest.raises(Raced, match="changed by another program meanwhile"):
        files.replace(was, b"ours", NOW)

    assert names(tmp_path) == ([] if change == "remove" else ["mcp.json"])
    assert change == "remove" or file.read_bytes() == b"theirs"


def test_attributes_stay(tmp_path: Path) -> None:
    """Access lists are among them."""
    file = tmp_path / "mcp.json"
    file.write_bytes(b"old")
    try:
        os.setxattr(file, "user.note", b"mine")
    except OSError:
        pytest.skip("this file system has none")

    files.replace(files.read(file), b"new", NOW)

    assert os.getxattr(file, "user.note") == b"mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_owner_stays(tmp_path: Path) -> None:
    """Whoever runs this as root does not take the file from its user."""
    file = tmp_path / "mcp.json"
    file.write_bytes(b"old")
    os.chown(file, 1234, 2345)

    files.replace(files.read(file), b"new", NOW)

    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 2345)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """Folders, pipes, links that lead to themselves, and folders in the place of files."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()

    for name, reason in (("pipe", "no file"), ("loop", "itself"), (".", "directory|no file"), ("file/x", "cannot be")):
        with pytest.raises(Unusable, match=reason):
            files.read(tmp_path / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """And nothing is changed."""
    file = tmp_path / "mcp.json"
    file.write_bytes(b"old")
    tmp_path.chmod(0o500)

    with pytest.raises(Unusable, match="Nothing was changed"):
        files.replace(files.read(file), b"new", NOW)

    tmp_path.chmod(0o700)
    assert (file.read_bytes(), names(tmp_path)) == (b"old", ["mcp.json"])
