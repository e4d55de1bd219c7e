"""Where the screen of this user is, for a process that was told little."""

import os
import socket
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from switchboard.prompts.session import session


@pytest.fixture
def folder() -> Generator[Path]:
    """A short name: sockets have no long ones."""
    with tempfile.TemporaryDirectory(prefix="s") as name:
        yield Path(name)


def listening(path: Path) -> socket.socket:
    path.parent.mkdir(exist_ok=True)
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    return made


def test_the_screens_of_this_user_are_found(folder: Path) -> None:
    """Wayland's in the runtime folder, X's among the sockets of X."""
    with listening(folder / "run/wayland-0"), listening(folder / "x/X7"):
        found = session({"XDG_RUNTIME_DIR": str(folder / "run"), "PATH": "/bin"}, folder / "x")

    assert found == {
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "PATH": "/bin",
        "WAYLAND_DISPLAY": "wayland-0",
        "DISPLAY": ":7",
    }


@pytest.mark.parametrize("told", [{"DISPLAY": ":1"}, {"WAYLAND_DISPLAY": "wayland-1"}])
def test_what_the_environment_says_counts(folder: Path, told: dict[str, str]) -> None:
    """Nothing is looked for."""
    with listening(folder / "run/wayland-0"), listening(folder / "x/X7"):
        given = {"XDG_RUNTIME_DIR": str(folder / "run"), **told}

        assert session(given, folder / "x") == given


def test_two_screens_are_nobodys_guess(folder: Path) -> None:
    """Which of them the user looks at is not known."""
    with listening(folder / "run/wayland-0"), listening(folder / "run/wayland-1"), listening(folder / "x/X7"):
        found = session({"XDG_RUNTIME_DIR": str(folder / "run")}, folder / "x")

    assert "WAYLAND_DISPLAY" not in found
    assert found["DISPLAY"] == ":7"


def test_without_a_session_there_is_no_screen(folder: Path) -> None:
    """A socket of X alone may be a screen for tests, or of a service."""
    with listening(folder / "x/X7"):
        given = {"XDG_RUNTIME_DIR": str(folder / "none")}

        assert session(given, folder / "x") == given


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_socket_of_somebody_else_is_not_ours(folder: Path) -> None:
    """They would see what we show."""
    with listening(folder / "run/wayland-0"):
        os.chown(folder / "run/wayland-0", 65534, 65534)
        given = {"XDG_RUNTIME_DIR": str(folder / "run")}

        assert session(given, folder / "x") == given
