"""Caches change nothing but the cost: the most telling tests, once without any and once with room for one entry each.

The whole suite passes so as well, by `SWITCHBOARD_CACHES=off make test`; here is as much of it as fits into every run.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from switchboard.settings import CACHES_VARIABLE, caching

ROOT = Path(__file__).parents[1]
TELLING = (
    "tests/rest/test_discovery.py",
    "tests/rest/test_at_once.py",
    "tests/mcp/test_server.py",
    "tests/security/test_consent.py",
    "tests/actions/test_lookup.py",
    "tests/catalog/test_schema.py",
)


@pytest.mark.skipif(CACHES_VARIABLE in os.environ, reason="this whole run says how much is cached")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("setting", ["off", "one"])
def test_answers_are_the_same_without_caches(setting: str) -> None:
    """Discovery, guides, lists, consent and schemas."""
    environment = {**os.environ, CACHES_VARIABLE: setting}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *TELLING]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603

    assert ran.returncode == 0, ran.stdout[-4000:]
    assert " passed" in ran.stdout


@pytest.mark.parametrize(("given", "meant"), [("", "on"), ("off", "off"), (" One ", "one"), ("none", None)])
def test_the_setting_of_a_gateway_is_one_of_three_words(given: str, meant: str | None) -> None:
    """Anything else is unknown, which its log says."""
    assert caching({CACHES_VARIABLE: given}) == meant
