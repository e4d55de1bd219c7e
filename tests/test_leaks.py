"""The watch over secrets sees what it is there for: a watch that finds nothing must be one that could."""

import subprocess
import sys
from pathlib import Path

from tests.gateways import environment_of
from tests.leaks import MARK, WATCH, notes_of, secret


def test_a_secret_in_a_message_a_file_and_a_list_of_arguments_is_found(tmp_path: Path) -> None:
    """Each of them, with where it was, and without the secret itself."""
    told = secret("key")
    WATCH.said.append(("message", f'{{"text": "{told}"}}'.encode()))
    WATCH.homes.add(tmp_path)
    (tmp_path / "log").write_text(f"signed in with {told}\n", encoding="utf-8")
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '', {told!r}])"
    subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", starts.replace(told, told[: len(MARK)] + "' '" + told[len(MARK) :])],
        env=environment_of(tmp_path),
        check=True,
    )

    found = WATCH.leaks()

    assert any(place.startswith("message: ") for place in found)
    assert any(str(tmp_path / "log") in place for place in found)
    assert any(str(notes_of(tmp_path)) in place for place in found)
    assert not any(told in place for place in found)
