"""What the measuring of watches is held to."""

from bench import everywhere, watch


def test_the_benchmark_holds_every_face_to_a_second() -> None:
    """A change is known to watchers of both instances, to discovery of the other one, and to a gateway."""
    assert everywhere.TARGET_MS == 1000.0
    assert len(everywhere.FACES) == 4


def test_the_benchmark_holds_watchers_to_their_price() -> None:
    """Five thousand on one process: 250 ms for each delivery, 15 kB for each of them."""
    assert watch.WATCHERS == 5000
    assert watch.TARGETS == {"p99": 250.0, "memory": 15.0}
