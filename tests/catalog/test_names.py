"""Targets and MCP names: every spelling reaches its capability, and every address prints back."""

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import agent, app
from tests.support import requirement

from switchboard.catalog.errors import AmbiguousName, InvalidTarget, UnknownApp, UnknownTool
from switchboard.catalog.names import Address, PortableNames, parse_target, readings, target
from switchboard.catalog.snapshot import Snapshot

SPELLINGS = [
    "research:deep",
    "research.deep",
    "research:reasoner:deep",
    "research.reasoner:deep",
    "caller.research:deep",
    "com.acme.caller.research:deep",
]
SKILL_SPELLINGS = [
    "research:skill:web_search",
    "research.skill:web_search",
    "research:web_search",
    "research.web_search",
    "caller.research:skill:web_search",
]


@pytest.fixture
def snapshot() -> Snapshot:
    return Snapshot.of(
        [
            agent("research", reasoners={"deep": [], "both": []}, skills={"web_search": [], "both": []}),
            agent("caller", reasoners={"call": []}),
            agent("com.acme.agent", reasoners={"plan": [], "step.one": []}),
            agent("com.acme", reasoners={"agent.plan": []}),
            app("com.example.mail", "send_email", "session/new"),
        ]
    )


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_of_a_reasoner_reaches_it(snapshot: Snapshot, spelling: str) -> None:
    """The four forms of the wire, and the Go SDK's own node before them."""
    owner, capability = snapshot.find(spelling)

    assert (owner.id, capability.kind, capability.id) == ("research", "reasoner", "deep")


@pytest.mark.parametrize("spelling", SKILL_SPELLINGS)
def test_every_spelling_of_a_skill_reaches_it(snapshot: Snapshot, spelling: str) -> None:
    """A plain name means the skill where no reasoner has it."""
    owner, capability = snapshot.find(spelling)

    assert (owner.id, capability.kind, capability.id) == ("research", "skill", "web_search")


def test_a_name_of_both_kinds_means_the_reasoner_unless_it_says_skill(snapshot: Snapshot) -> None:
    """`a:b` is the reasoner, `a:skill:b` the skill."""
    assert snapshot.find("research:both")[1].kind == "reasoner"
    assert snapshot.find("research.both")[1].kind == "reasoner"
    assert snapshot.find("research:skill:both")[1].kind == "skill"


@pytest.mark.parametrize("spelling", ["com.acme.agent:plan", "com.acme.agent.plan", "com.acme.agent:reasoner:plan"])
def test_a_dotted_owner_is_found_by_its_longest_known_name(snapshot: Snapshot, spelling: str) -> None:
    """`com.acme.agent.plan` is `plan` of `com.acme.agent`, although `com.acme` has an `agent.plan`."""
    owner, capability = snapshot.find(spelling)

    assert (owner.id, capability.id) == ("com.acme.agent", "plan")


def test_a_colon_decides_where_dots_leave_it_open(snapshot: Snapshot) -> None:
    """Every printed target means exactly one thing."""
    assert snapshot.find("com.acme:agent.plan")[0].id == "com.acme"
    assert snapshot.find("com.acme.agent:step.one")[1].id == "step.one"


@requirement("mcp:call-name:parsed")
def test_a_tool_of_an_app_is_called_by_app_id_and_name(snapshot: Snapshot) -> None:
    """`com.example.mail:send_email`, as the seeds call it, and back."""
    owner, capability = snapshot.find("com.example.mail:send_email")

    assert (owner.id, capability.id) == ("com.example.mail", "send_email")
    assert target(Address(owner.id, capability.id, capability.kind)) == "com.example.mail:send_email"
    assert snapshot.find("com.example.mail:session/new")[1].id == "session/new"


@requirement("discovery:target:reasoner", "discovery:target:skill")
def test_targets_print_as_the_seed_shows_them() -> None:
    """`agent:reasoner` and `agent:skill:name`."""
    assert str(Address("agent-research-001", "deep_research", "reasoner")) == "agent-research-001:deep_research"
    assert str(Address("agent-research-001", "web_search", "skill")) == "agent-research-001:skill:web_search"


def test_an_unknown_target_names_what_looks_like_it(snapshot: Snapshot) -> None:
    """Unknown owner, unknown capability and nonsense are told apart."""
    with pytest.raises(UnknownApp) as owner:
        snapshot.find("reserch:deep")
    with pytest.raises(UnknownTool) as capability:
        snapshot.find("research:dep")
    with pytest.raises(UnknownTool, match=r"'com\.acme\.agent' has no tool 'nothing'"):
        snapshot.find("com.acme.agent.nothing")
    for nonsense in ("", ":", "nothing", "a:", ":b", "x" * 5000):
        with pytest.raises(InvalidTarget):
            snapshot.find(nonsense)

    assert owner.value.details["nearest"] == ["research"]
    assert snapshot.nearest_owners("com.example.mial")[0] == "com.example.mail"
    assert capability.value.details["nearest"] == ["deep"]


names = st.text(min_size=1, max_size=20).filter(lambda text: text == text.strip())


@given(names, names, st.sampled_from(["skill", "reasoner"]))
def test_every_address_prints_back_to_itself(owner: str, name: str, kind: str) -> None:
    """Whatever an id contains, its target reads back to it and finds it among look-alikes."""
    address = Address(owner, name, "skill" if kind == "skill" else None)

    assert parse_target(target(address)) == address


@given(st.lists(st.tuples(names, names), min_size=1, max_size=6, unique_by=lambda pair: pair[0]))
def test_every_printed_target_finds_its_capability(pairs: list[tuple[str, str]]) -> None:
    """Discovery never prints a target that cannot be called, whatever agents call themselves."""
    snapshot = Snapshot.of(agent(owner, reasoners={name: []}, skills={name: []}) for owner, name in pairs)

    for owner, name in pairs:
        for kind in ("reasoner", "skill"):
            found_owner, found = snapshot.find(target(Address(owner, name, kind)))
            assert (found_owner.id, found.id, found.kind) == (owner, name, kind)


def test_the_longest_ids_can_be_called() -> None:
    """Five hundred characters each, all of which have to be encoded."""
    snapshot = Snapshot.of([agent(":" * 500, skills={"%" * 500: []})])

    assert snapshot.find(target(Address(":" * 500, "%" * 500, "skill")))[1].id == "%" * 500


@given(st.text(max_size=60))
def test_any_text_has_readings_or_none_and_never_fails(text: str) -> None:
    """Reading a target is total."""
    assert all(reading.owner and reading.name for reading in readings(text))


def test_portable_names_fit_every_model_api() -> None:
    """Letters, digits, underscore and hyphen, under 40 characters, and back to the id."""
    ids = ["com.example.mail", "a" * 80, "b" * 79 + ".c", "com.ex ample.日本"]
    portable = PortableNames(ids)

    for app_id in ids:
        name = portable.name_of(app_id)
        assert len(name) < 40
        assert name.isascii()
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
        assert portable.id_of(name) == app_id
    assert portable.name_of("com.example.mail") == "app_com_example_mail"


def test_portable_names_that_collide_get_a_hash_and_their_plain_name_is_ambiguous() -> None:
    """Two ids that differ in a dot only are both reachable, and the common name lists them."""
    portable = PortableNames(["a.b", "a_b"])

    assert portable.id_of(portable.name_of("a.b")) == "a.b"
    assert portable.id_of(portable.name_of("a_b")) == "a_b"
    with pytest.raises(AmbiguousName) as error:
        portable.id_of("app_a_b")
    assert error.value.details["candidates"] == ["a.b", "a_b"]
    with pytest.raises(UnknownApp):
        portable.id_of("app_nobody")


@pytest.mark.parametrize("again", [1, 2, 3])
def test_no_app_takes_the_hashed_name_of_another(again: int) -> None:
    """Its id is made to be that name, and the next one to be the name that this leads to; nobody has it then."""
    long = "com.example.very.long.application.name.here.notes"
    ids = [long]
    for _ in range(again):
        ids.append(PortableNames(ids).name_of(long).removeprefix("app_"))
    portable = PortableNames(ids)

    assert [portable.id_of(portable.name_of(app_id)) for app_id in ids] == ids
    with pytest.raises(AmbiguousName) as error:
        portable.id_of(f"app_{ids[1]}")
    assert error.value.details["candidates"] == sorted(ids[:2])


@st.composite
def adversarial_ids(draw: st.DrawFn) -> list[str]:
    """Draw ids that are alike, too long, or made of the names that others have."""
    ids = draw(st.lists(st.text("ab._-\u00e9 ", min_size=1, max_size=60), min_size=1, max_size=8, unique=True))
    for _ in range(draw(st.integers(0, 6))):
        portable = PortableNames(ids)
        taken = portable.name_of(draw(st.sampled_from(ids))).removeprefix("app_")
        made = draw(st.sampled_from([taken, taken.replace("_", "."), taken.replace("_", " ", 1)]))
        ids = list(dict.fromkeys([*ids, made]))
    return ids


@given(adversarial_ids(), st.randoms(use_true_random=False))
def test_portable_names_are_unique_whatever_the_ids(ids: list[str], random: Random) -> None:
    """Each fits every model API, leads back to its app, and does not depend on the order of the apps."""
    portable = PortableNames(ids)
    names = [portable.name_of(app_id) for app_id in ids]
    shuffled = list(ids)
    random.shuffle(shuffled)

    assert len(set(names)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,39}", name) for name in names)
    assert [portable.id_of(name) for name in names] == ids
    assert [PortableNames(shuffled).name_of(app_id) for app_id in ids] == names
