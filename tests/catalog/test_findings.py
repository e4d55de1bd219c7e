"""Two descriptors, one id: the first wins, and nobody vanishes silently."""

import pytest
from tests.builders import app

from switchboard.catalog.findings import Finding, Problem, apps, settle

BROKEN = Finding(source="home", location="/x", problems=(Problem("error", "syntax", "$", "not JSON"),))


def test_the_first_of_an_id_wins_and_the_second_says_who_won() -> None:
    """Both stay in the list; only the winner is an app."""
    mine = Finding(source="home", location="/home/a", app=app("com.example.a", "run"))
    theirs = Finding(source="opt", location="/opt/a", app=app("com.example.a"))
    other = Finding(source="opt", location="/opt/b", app=app("com.example.0"))

    settled = settle([BROKEN, mine, theirs, other])

    assert [finding.usable for finding in settled] == [False, True, False, True]
    assert "/home/a (home)" in settled[2].problems[0].message
    assert [found.id for found in apps(settled)] == ["com.example.0", "com.example.a"]
    assert apps(settled)[1] is mine.app


@pytest.mark.parametrize(
    "location",
    [
        "/home/ann/.aai/com.example.a/aai.json",
        "/home/ann/.aai/COM.Example.A/aai.json",
        "C:\\Users\\Ann\\.aai\\com.example.a\\aai.json",
        "/usr/share/applications/aai/com.example.a.json",
        "/Applications/com.example.a.app/Contents/Resources/aai.json",
    ],
)
def test_a_broken_descriptor_keeps_the_id_it_stands_for(location: str) -> None:
    """While a file is being written, or is broken, nothing from a later place replaces it; the copy says why."""
    bad = Finding(source="home", location=location, problems=BROKEN.problems)
    copy = Finding(source="registry copy", location="/copy", app=app("com.example.a"))

    settled = settle([bad, copy])

    assert apps(settled) == ()
    assert settled[0] == bad
    assert f"described by {location} (home), which cannot be used" in settled[1].problems[-1].message


def test_a_broken_descriptor_takes_nothing_from_an_earlier_place() -> None:
    """What was found first is used, whatever comes behind it."""
    good = Finding(source="home", location="/good", app=app("com.example.a"))
    bad = Finding(source="opt", location="/opt/com.example.a/aai.json", problems=BROKEN.problems)

    assert settle([good, bad]) == (good, bad)


def test_ids_that_differ_in_letter_case_only_are_one() -> None:
    """The earlier place wins, and the other one says to whom it lost."""
    mine = Finding(source="home", location="/home/a", app=app("com.example.Notes"))
    theirs = Finding(source="registry copy", location="/web/a", app=app("com.example.notes"))

    settled = settle([mine, theirs])

    assert [found.id for found in apps(settled)] == ["com.example.Notes"]
    assert "cannot be told from com.example.Notes, described by /home/a (home)" in settled[1].problems[-1].message
