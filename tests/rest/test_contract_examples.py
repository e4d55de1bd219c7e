"""The golden examples of discovery and of errors are what the server really says.

`discovery-requests.json` lists every request with the file that holds its answer; `discovery-registrations.json` is
what was registered before. The SDKs' tests read the same files, so that all three mean the same wire.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs
import pytest
from tests.servers import ControlPlane

CONTRACT = Path(__file__).parents[2] / "contract"
EXAMPLES = CONTRACT / "examples"
REGISTRATIONS: list[dict[str, Any]] = json.loads((EXAMPLES / "discovery-registrations.json").read_text())
REQUESTS: list[dict[str, Any]] = json.loads((EXAMPLES / "discovery-requests.json").read_text())
KEY = "open-sesame"
UNSTEADY = re.compile(r'(req_[0-9a-f]+|\d{4}-\d\d-\d\dT[0-9:.]+Z|exec_\w+|run_\w+)(?=")')
"""What differs from run to run: ids of requests and executions, and times."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Start a server with a key, and register what the examples are about."""
    running = ControlPlane(tmp_path_factory.mktemp("contract"), SWITCHBOARD_API_KEY=KEY)
    running.client.headers["X-API-Key"] = KEY
    running.register(*REGISTRATIONS)
    running.client.post(f"/api/v1/nodes/{REGISTRATIONS[-1]['id']}/shutdown")
    yield running
    running.stop()


def ask(plane: ControlPlane, request: dict[str, Any]) -> httpx2.Response:
    """Send a request as an example has it."""
    headers = {"X-API-Key": request.get("key", KEY)}
    body = json.dumps(request["body"]) if "body" in request else None
    return plane.client.request(
        request["method"], request["path"], params=request.get("query"), headers=headers, content=body
    )


def steady(text: str) -> str:
    return UNSTEADY.sub("*", text)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request["answer"])
def test_an_example_is_what_the_server_answers(plane: ControlPlane, request_: dict[str, Any]) -> None:
    """Status, type and body, but for ids and times."""
    answer = ask(plane, request_)

    text = (EXAMPLES / request_["answer"]).read_text()
    assert answer.status_code == request_["status"], answer.text
    if request_["answer"].endswith(".xml"):
        assert answer.headers["content-type"].startswith("application/xml")
        assert steady(answer.text.rstrip()) == steady(text.rstrip())
    else:
        assert answer.headers["content-type"].startswith("application/json")
        assert json.loads(steady(answer.text)) == json.loads(steady(text))


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("error-*.json")))
def test_an_example_of_an_error_keeps_the_contract(name: str) -> None:
    """As `Error` in the OpenAPI document."""
    contract = json.loads((CONTRACT / "openapi.json").read_text())
    schema = jsonschema_rs.validator_for({**contract, "$ref": "#/components/schemas/Error"})

    assert schema.is_valid(json.loads((EXAMPLES / name).read_text()))


def test_no_example_is_forgotten() -> None:
    """Every file of these names is the answer to one of the requests."""
    own = {"discovery-requests.json", "discovery-registrations.json"}
    files = {path.name for pattern in ("discovery-*", "error-*") for path in EXAMPLES.glob(pattern)} - own

    assert files == {request["answer"] for request in REQUESTS}
