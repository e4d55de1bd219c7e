"""Two descriptors, one id: the first wins, and nobody vanishes silently."""

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


def test_a_broken_descriptor_does_not_take_an_id() -> None:
    """A good copy behind a bad one is used."""
    bad = Finding(source="home", location="/bad", app=app("com.example.a"), problems=BROKEN.problems)
    good = Finding(source="opt", location="/good", app=app("com.example.a"))

    assert [finding.location for finding in settle([bad, good]) if finding.usable] == ["/good"]
