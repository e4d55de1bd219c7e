"""One certificate for all tests of this room."""

import pytest
from tests.net.web import Web


@pytest.fixture(scope="session")
def web(tmp_path_factory: pytest.TempPathFactory) -> Web:
    return Web(tmp_path_factory.mktemp("web"))
