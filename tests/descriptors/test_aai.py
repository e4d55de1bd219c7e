"""The reader: what is wrong is told with its path, nothing makes it fail, and it agrees with the contract."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.descriptors.strategies import documents, json_values, mutated_documents

from switchboard.catalog.model import App
from switchboard.descriptors import aai
from switchboard.descriptors.aai import Reading
from switchboard.descriptors.check import schema_problems

CONTRACT = Path(__file__).parents[2] / "contract"
VALIDATOR = jsonschema_rs.validator_for(json.loads((CONTRACT / "aai.schema.json").read_text()))
EXAMPLES = sorted((CONTRACT / "examples").glob("aai-*.json"))


def read(document: object) -> Reading:
    return aai.read(json.dumps(document).encode(), system="linux", folder="com.example.folder")


def mail(**changes: Any) -> dict[str, Any]:
    """Build a small correct descriptor, with some root keys changed; None removes one."""
    document: dict[str, Any] = {
        "schemaVersion": "1.0",
        "version": "1.2.3",
        "platform": "web",
        "app": {
            "id": "com.example.mail",
            "name": {"en": "Mail", "zh-CN": "邮件"},
            "defaultLang": "en",
            "description": "Email client",
        },
        "execution": {"type": "http", "baseUrl": "https://mail.example.com/api"},
        "tools": [
            {
                "name": "send_email",
                "description": "Send an email",
                "parameters": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
                "execution": {"path": "/messages", "method": "POST"},
            }
        ],
    }
    return {key: value for key, value in {**document, **changes}.items() if value is not None}


def errors(reading: Reading) -> list[str]:
    return [problem.path for problem in reading.problems if problem.severity == "error"]


def app_with(**changes: Any) -> dict[str, Any]:
    return {**mail()["app"], **changes}


def tool_with(**changes: Any) -> list[dict[str, Any]]:
    return [{key: value for key, value in {**mail()["tools"][0], **changes}.items() if value is not None}]


WRONG = [
    pytest.param(mail(version=7, platform="amiga"), ["$.platform"], id="platform-unknown"),
    pytest.param(mail(schemaVersion="3.0"), ["$.schemaVersion"], id="schema-version-of-the-future"),
    pytest.param(mail(schemaVersion="2.0"), ["$.access"], id="2.0-without-access"),
    pytest.param(mail(app="Mail"), ["$.app"], id="app-is-text"),
    pytest.param(mail(app=app_with(id="../../etc")), ["$.app.id"], id="id-escapes-its-folder"),
    pytest.param(mail(app=app_with(id="a:b")), ["$.app.id"], id="id-with-colon"),
    pytest.param(mail(app=app_with(name=5)), ["$.app.name"], id="name-is-number"),
    pytest.param(mail(app=app_with(name={})), ["$.app.name"], id="no-name"),
    pytest.param(mail(app=app_with(name={"e n": "Mail"})), ['$.app.name["e n"]'], id="not-a-language"),
    pytest.param(mail(app=app_with(description="")), ["$.app.description"], id="empty-description"),
    pytest.param(mail(execution=None), ["$.execution"], id="web-without-execution"),
    pytest.param(mail(execution={"type": "carrier-pigeon"}), ["$.execution.type"], id="execution-unknown"),
    pytest.param(mail(execution={"type": "http"}), ["$.execution.baseUrl"], id="no-base-url"),
    pytest.param(
        mail(execution={"type": "http", "base_url": "ftp://x"}), ["$.execution.base_url"], id="path-as-published"
    ),
    pytest.param(
        mail(execution={"type": "http", "baseUrl": "https://user:secret@example.com"}),
        ["$.execution.baseUrl"],
        id="secret-in-address",
    ),
    pytest.param(mail(execution={"type": "stdio", "command": ""}), ["$.execution.command"], id="empty-command"),
    pytest.param(
        mail(execution={"type": "stdio", "command": "x", "args": "-v"}), ["$.execution.args"], id="args-is-text"
    ),
    pytest.param(
        mail(execution={"type": "stdio", "command": "x", "env": {"A": 1}}), ["$.execution.env.A"], id="env-number"
    ),
    pytest.param(
        mail(execution={"type": "stdio", "command": "x", "timeout": 0}), ["$.execution.timeout"], id="no-time"
    ),
    pytest.param(
        mail(execution={"type": "dbus", "objectPath": "x", "bus": "school"}),
        ["$.execution.bus", "$.execution.objectPath"],
        id="dbus",
    ),
    pytest.param(
        mail(execution={"type": "apple-events", "eventClass": "AAI"}), ["$.execution.eventClass"], id="event-code"
    ),
    pytest.param(mail(execution={"type": "skill"}), ["$.execution"], id="skill-nowhere"),
    pytest.param(mail(auth={"type": "magic"}), ["$.auth.type"], id="auth-unknown"),
    pytest.param(mail(auth={"type": "oauth2", "oauth2": {}}), None, id="oauth2-empty"),
    pytest.param(mail(auth={"type": "apiKey", "apiKey": {"location": "body"}}), None, id="api-key-in-body"),
    pytest.param(mail(tools={"send": {}}), ["$.tools"], id="tools-is-object"),
    pytest.param(mail(tools=tool_with(name=None)), ["$.tools[0].name"], id="tool-without-name"),
    pytest.param(mail(tools=[*tool_with(), *tool_with()]), ["$.tools[1].name"], id="two-tools-one-name"),
    pytest.param(mail(tools=tool_with(parameters=[])), ["$.tools[0].parameters"], id="parameters-is-list"),
    pytest.param(
        mail(tools=tool_with(parameters={"type": "string"})), ["$.tools[0].parameters.type"], id="parameters-is-text"
    ),
    pytest.param(mail(tools=tool_with(execution=None)), ["$.tools[0].execution.path"], id="http-without-path"),
    pytest.param(mail(app=app_with(name=" | ")), ["$.app.name"], id="name-is-blank"),
    pytest.param(mail(tools=tool_with(name="x" * 501)), ["$.tools[0].name"], id="tool-name-too-long"),
    *(
        pytest.param(mail(tools=tool_with(execution={"path": path})), ["$.tools[0].execution.path"], id=f"path-{path}")
        for path in ("https://evil.example/", "//evil.example", "@evil.example/x", "/a b", "\\evil")
    ),
    pytest.param(
        mail(tools=tool_with(execution={"path": "/x", "method": "G ET\r\nX: y"})),
        ["$.tools[0].execution.method"],
        id="method-injects",
    ),
    pytest.param(
        mail(tools=tool_with(execution={"path": "/x", "headers": {"X": "a\r\nY: b"}})),
        ["$.tools[0].execution.headers.X"],
        id="header-injects",
    ),
    pytest.param(mail(platforms={"android": {}}, platform=None), ["$.platforms"], id="draft-for-another-system"),
]


@pytest.mark.parametrize(("document", "paths"), WRONG)
def test_what_is_wrong_is_told_with_its_path_and_makes_no_app(document: object, paths: list[str] | None) -> None:
    """Paths are those of the document as it was published."""
    reading = read(document)

    assert reading.app is None
    assert errors(reading)
    assert paths is None or sorted(errors(reading)) == paths


UNREADABLE = [
    (b"", "empty"),
    (b"   \n", "empty"),
    (b'{"schemaVersion": "1.0", "app": {"id": "com.exa', "ends too early"),
    (b"\x89PNG\r\n\x1a\n\x00\x00", "not UTF-8"),
    ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
    (b"{'a': 1}", "not JSON"),
    (b"# A README", "not JSON"),
    (b'{"a": NaN}', "not JSON"),
    (b"[1, 2]", "found a list"),
    (b'"text"', "found a string"),
    (b"null", "found null"),
    (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "deeper"),
    (b'{"a":' * 70 + b"1" + b"}" * 70, "deeper"),
    (b'{"a": "' + b"x" * (1024 * 1024) + b'"}', "larger than 1024 KiB"),
]


@pytest.mark.parametrize(("raw", "reason"), UNREADABLE)
def test_bytes_that_are_no_descriptor_are_told_why(raw: bytes, reason: str) -> None:
    """Each way of being broken has its own words."""
    reading = aai.read(raw, system="linux")

    assert reading.app is None
    assert reason in reading.problems[0].message


def test_a_byte_order_mark_is_no_reason_to_refuse() -> None:
    """Windows editors write one."""
    reading = aai.read(b"\xef\xbb\xbf" + json.dumps(mail()).encode(), system="windows")

    assert reading.app is not None


def test_the_text_as_published_is_kept() -> None:
    """`resources/read` gives it back as it was."""
    raw = json.dumps(mail(), indent=3).encode()

    reading = aai.read(raw, system="linux", origin="https://mail.example.com")

    assert reading.app is not None
    assert (reading.app.raw, reading.app.origin) == (raw, "https://mail.example.com")


def test_a_misspelt_key_is_told_what_was_meant() -> None:
    """It is not used, and does no harm."""
    reading = read(mail(tools=tool_with(paramters={"type": "object"})))

    assert [str(problem) for problem in reading.problems] == [
        "$.tools[0].paramters: unknown key, not used; did you mean parameters?"
    ]


def test_a_password_in_an_address_is_not_repeated() -> None:
    """Neither in a problem nor anywhere else."""
    reading = read(mail(execution={"type": "http", "baseUrl": "https://user:hunter2@example.com"}))

    assert "hunter2" not in str(reading.problems)


def test_a_flood_of_problems_is_cut_and_counted() -> None:
    """A hundred are told, and how many there are beyond."""
    reading = read(mail(tools=[{"name": f"t{i}", "x": 1} for i in range(300)] + [{}]))

    assert len(reading.problems) <= 102
    assert "more problems" in reading.problems[-1].message
    assert reading.app is None
    assert errors(reading)


AGREED = [
    (mail(auth={"type": "none"}), True),
    (mail(app=app_with(version="2.0.0")), False),
    (mail(**{"$schema": 5}), False),
    (mail(execution={"type": "http", "baseUrl": "https://a\ufeffb"}), False),
    (mail(execution={"type": "http", "baseUrl": "https://a/\x1c"}), False),
    (mail(execution={"type": "http", "baseUrl": "HTTPS://EXAMPLE.com:443"}), True),
    (mail(tools=tool_with(execution={"path": "items/{id}"})), False),
]


@pytest.mark.parametrize(("document", "clean"), AGREED)
def test_reader_and_contract_agree_on_corners_that_one_change_does_not_reach(document: object, clean: bool) -> None:
    """Found by hand, held by this table."""
    assert VALIDATOR.is_valid(document) is clean
    assert (read(document).problems == ()) is clean


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"schemaVersion": "7.9", "version": "1.0.0"}, "$.schemaVersion"),
        ({"schemaVersion": "2.0"}, "$.version"),
    ],
)
def test_an_access_descriptor_is_told_what_is_old_or_missing(document: dict[str, Any], path: str) -> None:
    """As any other."""
    access = {"protocol": "skill", "config": {"path": "/skills/x"}}
    reading = read({**document, "app": {"name": {"default": "X"}}, "access": access})

    assert reading.app is not None
    assert [problem.path for problem in reading.problems] == [path]


def test_a_draft_on_the_bus_is_held_to_the_rules_of_the_bus() -> None:
    """What is read can be read again once it is written."""
    entry: dict[str, Any] = {"automation": "dbus", "object": "nope", "tools": []}
    reading = read({"schemaVersion": "1.0", "appId": "com.example.a", "platforms": {"linux": entry}})

    assert errors(reading) == ["$.platforms.linux.object"]


def test_ipc_on_windows_keeps_its_time_limit() -> None:
    """And what is unknown in it is named."""
    execution = {"type": "ipc", "timeout": 5000, "surprise": 1}
    reading = read(mail(platform="windows", execution=execution))

    assert reading.app is not None
    assert aai.canonical(reading.app)["execution"] == {"type": "com", "progId": "com.example.mail", "timeout": 5000}
    assert [problem.path for problem in reading.problems] == ["$.execution.type", "$.execution.surprise"]


def test_null_is_read_as_absent() -> None:
    """With a warning."""
    reading = read({**mail(), "auth": None})

    assert reading.app is not None
    assert [problem.path for problem in reading.problems] == ["$.auth"]


def test_schemas_that_cannot_be_used_are_an_authors_problem() -> None:
    """A scan takes them, `check` names them."""
    reading = read(mail(tools=tool_with(returns={"type": "wat"}, parameters={"type": "object", "$ref": "#/no"})))

    assert reading.app is not None
    assert [problem.path for problem in schema_problems(reading)] == ["$.tools[0].parameters", "$.tools[0].returns"]
    old = read({**mail(tools=None), "skills": tool_with(returns={"type": "wat"})})
    assert [problem.path for problem in schema_problems(old)] == ["$.skills[0].returns"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_of_the_contract_are_clean(path: Path) -> None:
    """They are valid there and read without a problem."""
    raw = path.read_bytes()

    assert VALIDATOR.is_valid(json.loads(raw))
    assert aai.read(raw, system="linux").problems == ()


def test_there_are_examples_in_the_contract() -> None:
    """The test above has something to look at."""
    assert len(EXAMPLES) >= 3


@settings(max_examples=300)
@given(documents)
def test_what_the_contract_allows_is_read_without_a_problem_and_survives_writing(document: dict[str, Any]) -> None:
    """Reading, writing and reading again gives the same app."""
    assert VALIDATOR.is_valid(document)

    reading = read(document)
    assert [str(problem) for problem in reading.problems] == []
    assert reading.app is not None
    written = aai.write(reading.app)

    assert VALIDATOR.is_valid(json.loads(written))
    again = aai.read(written, system="linux")
    assert again.problems == ()
    assert again.app is not None
    assert without_text(again.app) == without_text(reading.app)


def without_text(app: App) -> tuple[object, ...]:
    return (app.id, app.version, app.platform, app.names, app.description, app.execution, app.auth, app.capabilities)


@settings(max_examples=600)
@given(mutated_documents())
def test_the_reader_is_content_exactly_where_the_contract_is(document: dict[str, Any]) -> None:
    """One change to a correct descriptor: both notice, or neither; only the rules across keys are the reader's own."""
    reading = read(document)

    problems = [str(problem) for problem in reading.problems if problem.kind != "cross"]
    assert (problems == []) == VALIDATOR.is_valid(document), problems


@given(st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_give_a_report_and_never_an_exception(raw: bytes) -> None:
    """There is an app, or an error that says why not."""
    reading = aai.read(raw, system="macos", folder="x")

    assert reading.app is not None or errors(reading)


roots = st.sampled_from(
    [
        "schema_version",
        "appId",
        "name",
        "platforms",
        "platform",
        "app",
        "execution",
        "auth",
        "tools",
        "skills",
        "access",
    ]
)
inner = st.dictionaries(
    st.sampled_from(["web", "linux", "type", "automation", "base_url", "protocol", "config", "tools", "id", "name"]),
    json_values,
    max_size=4,
)


@settings(max_examples=300)
@given(st.dictionaries(roots, json_values | inner | st.lists(inner, max_size=2), max_size=6))
def test_any_object_with_familiar_keys_gives_a_report_and_never_an_exception(document: dict[str, Any]) -> None:
    """Also in the older forms; and what could be read can be written, and is canonical then."""
    reading = aai.read(json.dumps(document).encode(), system="linux", folder="com.example.folder")

    assert reading.app is not None or errors(reading)
    if reading.app is not None:
        kinds = {problem.kind for problem in reading.problems}
        assert VALIDATOR.is_valid(json.loads(aai.write(reading.app))) or "value" in kinds
