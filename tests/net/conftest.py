"""One certificate for all tests of the network, and both loops: the gateway's, and the control plane's."""

import asyncio
from collections.abc import Generator

import pytest
import uvloop
from tests.net.web import Web


@pytest.fixture(scope="session")
def web(tmp_path_factory: pytest.TempPathFactory) -> Web:
    return Web(tmp_path_factory.mktemp("web"))


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"], scope="module", autouse=True)
def loop(request: pytest.FixtureRequest) -> Generator[None]:
    """Let every test run on the one and on the other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "run", request.param)
        yield
