"""What may be published: every refusal with its path, and nothing that every gateway would refuse."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.gateways import web_app

from switchboard.catalog.errors import InvalidDescriptor
from switchboard.descriptors import publishing
from switchboard.sources import copies

EXAMPLES = Path(__file__).parents[2] / "contract/examples"
SHOP = "https://shop.example.com"
BROKEN = {"type": "object", "properties": {"x": 1}}


def errors(document: Any, *, loopback: bool = False) -> list[str]:
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    return [p.path for p in publishing.read(raw, loopback=loopback).problems if p.severity == "error"]


def oauth(**changes: str) -> dict[str, Any]:
    endpoints = {"authorizationEndpoint": f"{SHOP}/a", "tokenEndpoint": f"{SHOP}/t", **changes}
    return {"auth": {"type": "oauth2", "oauth2": {**endpoints, "scopes": []}}}


ADDRESSES: list[tuple[str, list[str]]] = [
    (SHOP, []),
    ("http://shop.example.com", ["$.execution.baseUrl"]),
    ("https://10.1.2.3", ["$.execution.baseUrl"]),
    ("https://0x0a010203/", ["$.execution.baseUrl"]),
    ("https://169.254.169.254", ["$.execution.baseUrl"]),
    ("https://127.0.0.1:8443", ["$.execution.baseUrl"]),
    ("http://localhost:3000", ["$.execution.baseUrl"]),
    ("https://app.localhost", ["$.execution.baseUrl"]),
]


@pytest.mark.parametrize(("address", "expected"), ADDRESSES)
def test_an_address_is_one_that_gateways_call(address: str, expected: list[str]) -> None:
    """Public and https."""
    assert errors(web_app("com.example.shop", address)) == expected


def test_a_server_for_this_machine_lists_what_is_on_it() -> None:
    """For trying things out, with a gateway that runs with --dev; the rest stays as strict."""
    assert errors(web_app("com.example.shop", "http://127.0.0.1:3000"), loopback=True) == []
    assert errors(web_app("com.example.shop", "http://shop.example.com"), loopback=True) == ["$.execution.baseUrl"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"version": "1.0"}, ["$.version"]),
        ({"version": "1.0.0-01"}, ["$.version"]),
        ({"version": 1}, ["$.version"]),
        ({"version": None}, ["$.version"]),
        ({"version": "1.0.0-beta.1+build"}, []),
        ({"platform": "linux"}, ["$.platform"]),
        ({"execution": {"type": "stdio", "command": "rm"}, "platform": "linux"}, ["$.execution.type"]),
        ({"execution": {"type": "stdio", "command": "rm"}, "version": "x"}, ["$.execution.type", "$.version"]),
        ({"execution": {"type": "skill", "path": "/opt/skill"}}, ["$.execution.type"]),
        ({"execution": {"type": "mcp", "transport": "sse", "url": "http://a.example.com"}}, ["$.execution.url"]),
        ({"execution": {"type": "http"}}, ["$.execution.baseUrl"]),
        (oauth(), []),
        (oauth(tokenEndpoint="http://shop.example.com/t"), ["$.auth.oauth2.tokenEndpoint"]),
        (
            {"tools": [{"name": "a", "description": "a", "parameters": BROKEN, "execution": {"path": "/a"}}]},
            ["$.tools[0].parameters"],
        ),
    ],
)
def test_every_problem_is_named_with_its_path(changes: dict[str, Any], expected: list[str]) -> None:
    """All of them at once, so that one look is enough."""
    assert errors(web_app("com.example.shop", SHOP, **changes)) == expected


@pytest.mark.parametrize("app_id", ["con", "aux.example", "com1.example", "example."])
def test_an_id_that_no_gateway_could_keep_is_refused(app_id: str) -> None:
    """A copy lies in a folder of that name, on every system."""
    assert errors(web_app(app_id, SHOP)) == ["$.app.id"]


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"\xff", b'{"access": {}}'])
def test_what_is_no_descriptor_is_refused(raw: bytes) -> None:
    """Never an exception, whatever the bytes are."""
    assert errors(raw)


def test_what_may_be_published_is_taken_by_a_gateway() -> None:
    """The examples of the contract, and the ones above: what passes here passes `web_app` of the gateway."""
    documents = [path.read_bytes() for path in sorted(EXAMPLES.glob("aai-*.json"))]
    documents += [json.dumps(web_app("com.example.shop", address)).encode() for address, _ in ADDRESSES]
    passed = 0
    for raw in documents:
        if errors(raw):
            continue
        passed += 1
        app = copies.web_app(raw, system="linux", origin=SHOP, source=SHOP)
        assert copies.safe_folder(Path(), app.id) is not None
    assert passed >= 2

    for path in sorted(EXAMPLES.glob("aai-*.json")):
        try:
            copies.web_app(path.read_bytes(), system="linux", origin=SHOP, source=SHOP)
        except InvalidDescriptor:
            assert errors(path.read_bytes()), path
