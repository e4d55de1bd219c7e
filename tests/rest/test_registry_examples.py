"""The golden examples of the registry are what the server really says, one after the other.

`registry-requests.json` lists every request in order, with the file that is sent and the one that holds the answer.
"""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from tests.rest.test_contract_examples import CONTRACT, EXAMPLES, steady
from tests.servers import ControlPlane

REQUESTS: list[dict[str, Any]] = json.loads((EXAMPLES / "registry-requests.json").read_text())
KEY = "key-of-the-shop"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Start a server with the keys of two publishers."""
    folder = tmp_path_factory.mktemp("registry")
    (folder / "settings.toml").write_text(f'[keys]\nshop = "{KEY}"\nsomebody = "another-key"\n')
    running = ControlPlane(folder, "--config", str(folder / "settings.toml"))
    yield running
    running.stop()


def test_the_examples_are_what_the_server_answers(plane: ControlPlane) -> None:
    """Status and body, but for ids and times; and each keeps the contract."""
    contract = json.loads((CONTRACT / "openapi.json").read_text())
    for request in REQUESTS:
        body = (EXAMPLES / request["body"]).read_bytes() if "body" in request else None
        headers = {"X-API-Key": request.get("key", KEY), "Host": "agents.example.com"}
        answer = plane.client.request(request["method"], request["path"], headers=headers, content=body)
        text = (EXAMPLES / request["answer"]).read_text()

        assert answer.status_code == request["status"], (request, answer.text)
        assert json.loads(steady(answer.text)) == json.loads(steady(text)), request
        schema = jsonschema_rs.validator_for({**contract, "$ref": f"#/components/schemas/{request['schema']}"})
        assert schema.is_valid(json.loads(text)), request


def test_no_example_of_the_registry_is_forgotten() -> None:
    """Every file of this name is sent or answered."""
    named = {request[key] for request in REQUESTS for key in ("body", "answer") if key in request}

    assert {path.name for path in EXAMPLES.glob("registry-*")} - {"registry-requests.json"} == named


def test_paths_of_the_registry_stand_in_the_contract() -> None:
    """Every request is one that the OpenAPI document has."""
    contract = json.loads((CONTRACT / "openapi.json").read_text())
    wanted = {
        (request["method"].lower(), request["path"].replace("com.example.shop", "{app_id}")) for request in REQUESTS
    }

    assert wanted == {
        (method, path) for path in contract["paths"] if path.endswith("/apps") or "{app_id}" in path
        for method in contract["paths"][path] if not path.endswith("aai.json")
    }  # fmt: skip
