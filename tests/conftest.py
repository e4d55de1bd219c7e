"""Settings of the whole suite."""

import os
from collections.abc import Generator

import pytest
from hypothesis import settings
from tests.databases import Postgres, running
from tests.leaks import WATCH

# A property that fails must fail again for the next person: no deadline on noisy machines, no luck in CI.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(autouse=True, scope="session")
def _watch() -> Generator[None]:
    WATCH.start()
    yield
    WATCH.stop()


@pytest.fixture(autouse=True)
def _nothing_leaks() -> Generator[None]:
    """Fail the test in which a secret turned up where none may be."""
    WATCH.leaks()
    yield
    found = WATCH.leaks()
    assert not found, f"secrets were found: {found}"


@pytest.fixture(scope="session")
def postgres() -> Generator[Postgres]:
    """One PostgreSQL for all tests of this process that only want databases."""
    with running() as server:
        yield server
