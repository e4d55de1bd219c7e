"""The golden example of a watch is what the server really says, and every event in it keeps the contract.

`watch-events.txt` is a stream as it comes, `watch-resumed.txt` how one goes on after its third event. The SDKs' tests
read the same files.
"""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from tests.servers import ControlPlane, registration
from tests.watchers import Stream

CONTRACT = Path(__file__).parents[2] / "contract"
EVENTS, RESUMED = (CONTRACT / "examples" / f"watch-{name}.txt" for name in ("events", "resumed"))
UNSTEADY = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z|\b[0-9a-f]{32}\b|\b[0-9a-f]{8}(?=-\d|\")")
"""What differs from run to run: times, the id of the store, the id of the process."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Do what the examples are about, and return both streams."""
    plane = ControlPlane(tmp_path_factory.mktemp("watched"))
    stream = Stream(plane.url, agent="w*", include_input_schema="true")
    first = stream.next()
    skill = {"id": "forecast", "tags": ["weather"], "input_schema": {"type": "object", "required": ["city"]}}
    plane.register(registration("weather", {"explain": []}) | {"skills": [skill]})
    plane.register(registration("weather", {"explain": []}, version="1.1.0") | {"skills": [skill]})
    plane.client.post("/api/v1/nodes/weather/heartbeat", json={"status": "degraded"})
    plane.register(registration("other", {"explain": []}))
    plane.client.delete("/api/v1/nodes/weather")
    events = [first, *(stream.next() for _ in range(4))]
    again = Stream(plane.url, events[2].id, agent="w*", include_input_schema="true")
    for _ in range(3):
        again.next()
    for one in (stream, again):
        one.close()
    plane.stop()
    return "\n".join(stream.lines) + "\n", "\n".join(again.lines) + "\n"


def test_the_example_is_what_the_server_tells(told: tuple[str, str]) -> None:
    """Byte for byte, but for ids and times."""
    shown = (EVENTS.read_text(), RESUMED.read_text())

    assert [UNSTEADY.sub("*", text) for text in told] == [UNSTEADY.sub("*", text) for text in shown]


@pytest.mark.parametrize("file", [EVENTS, RESUMED], ids=lambda file: file.stem)
def test_every_event_of_the_example_keeps_the_contract(file: Path) -> None:
    """The schema of its kind, and the version in its id."""
    contract: dict[str, Any] = json.loads((CONTRACT / "openapi.json").read_text())
    found = re.findall(r"^event: (\w+)\nid: \w+-(\d+)\ndata: (.*)\n$", file.read_text(), re.MULTILINE)

    assert len(found) == file.read_text().count("event: ")
    for kind, version, text in found:
        reference = {"$ref": f"#/components/schemas/Watch{kind.capitalize()}"}
        jsonschema_rs.validator_for({**contract, **reference}).validate(json.loads(text))
        assert json.loads(text)["version"] == int(version)
