"""Whatever a configuration looks like: our entry goes in and out of it, and every other byte stays."""

import json
import tomllib
from contextlib import suppress
from copy import deepcopy
from typing import Any

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from tests.clients_room import documents

from switchboard.clients.entries import Entry, document, with_entry, without_entry
from switchboard.clients.known import Shape
from switchboard.clients.refusals import Refusal, Unfit

NAME = "aai-gateway"
SERVERS = Shape("jsonc", ("mcpServers",), {"type": "stdio"})
NESTED = Shape("jsonc", ("mcp", "servers"))
CODEX = Shape("toml", ("mcp_servers",))
COMMAND = "/opt/ünï co/bin/aai-gateway"
PATIENT = settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)

entries = st.builds(
    Entry,
    st.just(COMMAND),
    st.none() | st.lists(documents.TEXTS, max_size=2).map(tuple),
    st.none() | st.dictionaries(documents.TEXTS, documents.TEXTS, max_size=2),
)


def expected(text: str, shape: Shape, entry: Entry) -> dict[str, Any]:
    wanted = deepcopy(document(text, shape))
    node = wanted
    for key in shape.container:
        node = node.setdefault(key, {})
    args = {} if entry.args is None else {"args": list(entry.args)}
    env = {} if entry.env is None else {"env": dict(entry.env)}
    node[NAME] = {**shape.fixed, "command": entry.command, **args, **env}
    return wanted


def only_added(before: str, after: str) -> bool:
    """Tell whether every character of one text is in the other, in order."""
    rest = iter(after)
    return all(char in rest for char in before)


@given(documents.jsonc(), st.sampled_from([SERVERS, NESTED]), entries)
@example("{}", SERVERS, Entry(COMMAND))
@example("{\n}", SERVERS, Entry(COMMAND))
@example('{\n  "mcpServers": {}\n}', SERVERS, Entry(COMMAND))
@example('{\n  "mcpServers": {\n  }\n}', SERVERS, Entry(COMMAND))
@example('{\n  "a": 1\n}', SERVERS, Entry(COMMAND))
@example("// only this", SERVERS, Entry(COMMAND))
@example('\ufeff{\r\n\t"mcpServers": { "x": {}, // why\r\n\t},\r\n}', SERVERS, Entry(COMMAND, ("--dev",), {"A": "b"}))
@PATIENT
def test_an_entry_goes_into_json_and_out_again(text: str, shape: Shape, entry: Entry) -> None:
    """The result says the same and our entry; taken out again, the text is what it was, to the byte."""
    try:
        wanted = expected(text, shape, entry)
        added = with_entry(text, shape, NAME, entry)
    except (Unfit, TypeError, AttributeError):
        assume(False)  # something else stands where servers belong
        return

    assert added.action == "added"
    assert added.text is not None
    assert document(added.text, shape) == wanted
    assert only_added(text, added.text)
    assert without_entry(added.text, shape, NAME).text == text


@given(documents.toml(), entries)
@example("", Entry(COMMAND))
@example('model = "x"', Entry(COMMAND))
@PATIENT
def test_an_entry_goes_into_toml_and_out_again(text: str, entry: Entry) -> None:
    """The same, for Codex."""
    try:
        tomllib.loads(text.removeprefix("\ufeff"))
        wanted = expected(text, CODEX, entry)
    except (tomllib.TOMLDecodeError, AttributeError):
        assume(False)  # a key comes twice
        return

    added = with_entry(text, CODEX, NAME, entry)

    assert added.text is not None
    assert tomllib.loads(added.text.removeprefix("\ufeff")) == wanted
    assert added.text.startswith(text)
    assert without_entry(added.text, CODEX, NAME).text == text


@given(documents.jsonc(), entries, entries)
@PATIENT
def test_an_entry_of_ours_is_brought_up_to_date_where_it_stands(text: str, first: Entry, second: Entry) -> None:
    """What is said replaces what was said; what is not said stays. Nothing else changes."""
    try:
        added = with_entry(text, SERVERS, NAME, first)
    except Refusal:
        assume(False)  # as above
        return
    kept = Entry(
        second.command,
        first.args if second.args is None else second.args,
        first.env if second.env is None else second.env,
    )

    updated = with_entry(added.text, SERVERS, NAME, second)

    assert updated.text is not None
    assert document(updated.text, SERVERS) == expected(text, SERVERS, kept)
    assert (updated.action == "unchanged") == (updated.text == added.text)
    assert without_entry(updated.text, SERVERS, NAME).text == text


@given(documents.toml(), entries, entries)
@PATIENT
def test_an_entry_in_toml_is_brought_up_to_date_where_it_stands(text: str, first: Entry, second: Entry) -> None:
    """The same, for Codex; the rest of the text stays in front of it."""
    try:
        added = with_entry(text, CODEX, NAME, first)
    except Refusal:
        assume(False)  # as above
        return
    args = first.args if second.args is None else second.args
    env = first.env if second.env is None else second.env

    updated = with_entry(added.text, CODEX, NAME, second)

    assert updated.text is not None
    assert document(updated.text, CODEX) == expected(text, CODEX, Entry(second.command, args, env))
    assert updated.text.startswith(text)
    assert without_entry(updated.text, CODEX, NAME).text == text


@given(documents.jsonc(), entries, st.sampled_from([None, 1, 4]), st.booleans())
@PATIENT
def test_an_entry_is_found_again_when_the_client_has_written_its_file_anew(
    text: str, entry: Entry, indent: int | None, later: bool
) -> None:
    """In another layout, and with something behind it: the entry alone goes; an object may be left empty."""
    try:
        before = document(text, SERVERS)
        added = document(with_entry(text, SERVERS, NAME, entry).text or "", SERVERS)
    except Refusal:
        assume(False)  # something else stands where servers belong
        return
    if later:
        before.setdefault("mcpServers", {})["later"] = added["mcpServers"]["later"] = {"command": "x"}

    removed = without_entry(json.dumps(added, indent=indent), SERVERS, NAME).text

    rest = document(removed or "", SERVERS)
    assert {"mcpServers": {}, **rest} == {"mcpServers": {}, **before}


@given(st.text(st.sampled_from('{}[]":,/*\\ \n#ae1'), max_size=30))
@PATIENT
def test_no_text_makes_it_stumble(text: str) -> None:
    """A text is taken or refused, in every format, and never anything else."""
    for shape in (SERVERS, CODEX):
        with suppress(Refusal):
            assert with_entry(text, shape, NAME, Entry(COMMAND)).action == "added"
