"""OAuth without a network: what is sent, what answers mean, and that nothing strange breaks it or leaks."""

# ruff: noqa: S105, S106 - nobody's secrets

import base64
import hashlib
from collections.abc import Generator
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchboard.accounts import oauth, oauth_server
from switchboard.accounts.oauth import Ask, Callback, Client, Foreign, Metadata
from switchboard.accounts.oauth_server import Device, Pause
from switchboard.accounts.tokens import (
    Refused,
    Said,
    Tokens,
    Unusable,
    read_app_token,
    read_tokens,
    said_safely,
)
from switchboard.catalog.bindings import OAuth2

STATE, VERIFIER = "the-state", "v" * 64
AUTH = OAuth2(
    authorization_endpoint="https://id.app.test/authorize",
    token_endpoint="https://id.app.test/token",
    scopes=("read", "write"),
)
PUBLIC = Client(id="gateway")
SECRET = "s3cr3t/of+the=user"


def begun(auth: OAuth2 = AUTH, client: Client = PUBLIC, tools: tuple[str, ...] = ("a", "b")) -> oauth.Begun:
    uri = "http://127.0.0.1:9/callback"
    return oauth.begin(auth, client, redirect_uri=uri, tools=tools, state=STATE, verifier=VERIFIER)


def said(document: object, status: int = 200) -> Said:
    return Said(status=status, body=msgspec.json.encode(document))


def ended(talk: Generator[Any, Any, Any], *answers: Said) -> tuple[list[Ask], Any]:
    """Hold a conversation with these answers, and return what was asked and what came of it."""
    asks = [next(talk)]
    for answer in answers:
        try:
            asks.append(talk.send(answer))
        except StopIteration as end:
            return asks, end.value
    raise AssertionError("it goes on")


def form_of(ask: Ask) -> dict[str, str]:
    return dict(parse_qsl((ask.body or b"").decode(), keep_blank_values=True))


def test_the_browser_is_sent_with_the_names_of_the_rfcs() -> None:
    """Snake case on the wire, PKCE S256, state, and the tools that the app may show."""
    query = parse_qs(urlsplit(begun().address).query)

    challenge = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
    assert query == {
        "response_type": ["code"],
        "client_id": ["gateway"],
        "redirect_uri": ["http://127.0.0.1:9/callback"],
        "scope": ["read write"],
        "state": [STATE],
        "code_challenge": [challenge],
        "code_challenge_method": ["S256"],
        "aai_tools": ["a,b"],
    }


def test_a_descriptor_adds_parameters_and_replaces_none() -> None:
    """Neither by `extraParams` nor by a query of the endpoint, in any case of letters."""
    auth = OAuth2(
        authorization_endpoint="https://id.app.test/authorize?tenant=7&state=theirs&client_id=theirs#top",
        token_endpoint=AUTH.token_endpoint,
        extra_params=(
            ("access_type", "offline"),
            ("uri", "https://evil.test"),
            ("redirect_uri", "https://evil.test"),
            ("Code_Challenge", "theirs"),
            ("code_challenge_method", "plain"),
            ("request_uri", "https://evil.test"),
            ("response_mode", "form_post"),
        ),
    )

    parts = urlsplit(begun(auth).address)
    query = parse_qs(parts.query)

    assert parts.fragment == ""
    assert (query["tenant"], query["access_type"], query["uri"]) == (["7"], ["offline"], ["https://evil.test"])
    assert (query["state"], query["client_id"], query["code_challenge_method"]) == ([STATE], ["gateway"], ["S256"])
    assert query["redirect_uri"] == ["http://127.0.0.1:9/callback"]
    assert not {"request_uri", "response_mode", "Code_Challenge"} & set(query)


def test_a_long_list_of_tools_is_cut_between_names() -> None:
    tools = tuple(f"tool_{number:04}" for number in range(1000))

    sent = parse_qs(urlsplit(begun(tools=tools).address).query)["aai_tools"][0]

    assert len(sent) <= 1500
    assert set(sent.split(",")) <= set(tools)


@pytest.mark.parametrize(
    ("given_parameters", "expected"),
    [
        ({"code": "c", "state": STATE}, Callback(code="c")),
        ({"code": "c", "state": STATE, "iss": "https://x"}, Callback(code="c", iss="https://x")),
        ({"error": "access_denied", "state": STATE}, Callback(error="access_denied")),
        (
            {"error": "e", "error_description": "why", "state": STATE, "code": "c"},
            Callback(error="e", description="why"),
        ),
        ({"code": "c", "state": "other"}, None),
        ({"code": "c", "state": ""}, None),
        ({"code": "c"}, None),
        ({"error": "access_denied"}, None),
        ({"state": STATE}, None),
        ({"code": "", "state": STATE}, None),
        ({"code": "c\n", "state": STATE}, None),
        ({"code": "c", "state": "ÿ" + STATE}, None),
        ({}, None),
    ],
)
def test_only_an_answer_that_knows_the_state_counts(
    given_parameters: dict[str, str], expected: Callback | None
) -> None:
    if expected is None:
        with pytest.raises(Foreign):
            oauth.read_callback(given_parameters, STATE)
    else:
        assert oauth.read_callback(given_parameters, STATE) == expected


@pytest.mark.parametrize(
    ("pasted", "code"),
    [
        (f"http://127.0.0.1:9/callback?code=c&state={STATE}", "c"),
        (f"  http://127.0.0.1:9/callback?code=c&state={STATE}&iss=x \n", "c"),
        (f"code=c&state={STATE}", "c"),
        (f"?code=c&state={STATE}", "c"),
        (f"c#{STATE}", "c"),
        (f"c {STATE}", "c"),
        ("c", "c"),
        ("http://127.0.0.1:9/callback?code=c&state=other", None),
        ("http://127.0.0.1:9/callback?code=c", None),
        (f"http://127.0.0.1:9/callback?code=c&code=d&state={STATE}", None),
        ("c#other", None),
        ("", None),
        ("http://[", None),
    ],
)
def test_what_a_person_pastes_is_read(pasted: str, code: str | None) -> None:
    """The whole address, its query, code and state, or the code alone; nothing of another sign-in."""
    if code is None:
        with pytest.raises(Foreign):
            oauth.read_pasted(pasted, STATE)
    else:
        assert oauth.read_pasted(pasted, STATE).code == code


KNOWN = Metadata(issuer="https://id.app.test", promises_iss=True)
SILENT = Metadata(issuer="https://id.app.test")


@pytest.mark.parametrize(
    ("iss", "metadata", "expected"),
    [
        ("https://id.app.test", KNOWN, True),
        ("https://id.app.test", SILENT, True),
        ("https://evil.test", KNOWN, False),
        ("https://evil.test", SILENT, False),
        ("https://id.app.test/", KNOWN, False),
        (None, KNOWN, False),
        (None, SILENT, True),
        (None, None, True),
        ("https://id.app.test", None, True),
        ("https://id.app.test.evil.test", None, False),
        ("http://id.app.test", None, False),
        ("https://[", None, False),
    ],
)
def test_an_answer_of_another_server_is_told_apart(iss: str | None, metadata: Metadata | None, expected: bool) -> None:
    """RFC 9207: where it is promised it has to be there, and where it is there it has to be right."""
    assert oauth.is_from(Callback(code="c", iss=iss), AUTH, metadata) is expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://id.app.test/register", True),
        ("https://new.id.app.test/register", True),
        ("https://app.test/register", False),
        ("https://other.app.test/register", False),
        ("https://evilid.app.test/register", False),
        ("http://id.app.test/register", False),
        ("https://id.app.test@evil.test/", False),
        ("", False),
    ],
)
def test_only_hosts_of_the_descriptor_are_related(url: str, expected: bool) -> None:
    assert oauth.is_related(url, (AUTH.authorization_endpoint, AUTH.token_endpoint)) is expected


def test_a_public_client_names_itself_in_the_body() -> None:
    asks, tokens = ended(oauth.token_talk(AUTH, begun(), "c"), said({"access_token": "t", "token_type": "Bearer"}))

    assert form_of(asks[0]) == {
        "grant_type": "authorization_code",
        "redirect_uri": "http://127.0.0.1:9/callback",
        "code": "c",
        "code_verifier": VERIFIER,
        "client_id": "gateway",
    }
    assert tokens == Tokens(access_token="t")


def test_a_client_with_a_secret_says_it_as_it_was_told_to() -> None:
    """In the header as RFC 6749 has it, percent-encoded first; in the body only where the server wants that."""
    answer = said({"access_token": "t"})

    [basic, *_], _ = ended(oauth.refresh_talk(AUTH, Client(id="a:b", secret="ü c"), "r"), answer)
    [posted, *_], _ = ended(oauth.refresh_talk(AUTH, Client(id="a", secret="s", in_body=True), "r"), answer)

    header = dict(basic.headers)["Authorization"].removeprefix("Basic ")
    assert base64.b64decode(header) == b"a%3Ab:%C3%BC%20c"
    assert "client_secret" not in form_of(basic)
    assert form_of(posted)["client_secret"] == "s"
    assert "Authorization" not in dict(posted.headers)


def test_a_refresh_goes_to_its_own_endpoint_where_there_is_one() -> None:
    auth = OAuth2(
        authorization_endpoint=AUTH.authorization_endpoint,
        token_endpoint=AUTH.token_endpoint,
        refresh_endpoint="https://id.app.test/refresh",
    )

    asks, _ = ended(oauth.refresh_talk(auth, PUBLIC, "r"), said({"access_token": "t"}))

    assert asks[0].url == "https://id.app.test/refresh"


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"access_token": "t"}, Tokens(access_token="t")),
        (
            {"accessToken": "t", "refreshToken": "r", "expiresIn": 60, "tokenType": "BEARER", "scope": "a b"},
            Tokens(access_token="t", refresh_token="r", expires_in=60.0, scopes=("a", "b")),
        ),
        (
            {"access_token": "t", "expires_in": "3600", "scope": "a,b"},
            Tokens(access_token="t", expires_in=3600.0, scopes=("a", "b")),
        ),
        ({"access_token": "t", "expires_in": 0}, Tokens(access_token="t")),
        ({"access_token": "t", "expires_in": True}, Tokens(access_token="t")),
        ({"access_token": "t", "expires_in": "soon"}, Tokens(access_token="t")),
        ({"access_token": "t", "refresh_token": "a b"}, Tokens(access_token="t")),
        ({"access_token": "t", "scope": ["a", 1]}, Tokens(access_token="t", scopes=("a",))),
        ({"access_token": "t", "token_type": "mac"}, Unusable),
        ({"access_token": ""}, Unusable),
        ({"access_token": "a\r\nX: y"}, Unusable),
        ({"access_token": "ü"}, Unusable),
        ({"access_token": 5}, Unusable),
        ({}, Unusable),
        ([], Unusable),
        ({"error": "bad_verification_code"}, Refused),
    ],
)
def test_a_token_answer_is_read_in_both_spellings(document: object, expected: object) -> None:
    if isinstance(expected, type):
        with pytest.raises(expected):
            read_tokens(said(document))
    else:
        assert read_tokens(said(document)) == expected


@pytest.mark.parametrize("status", [301, 302, 307, 308, 408, 429, 500, 502, 503])
def test_a_server_in_trouble_has_not_refused_anything(status: int) -> None:
    """Nor has one that leads elsewhere: what was sent is not sent on."""
    with pytest.raises(Unusable):
        read_tokens(said({"error": "invalid_grant"}, status))


@pytest.mark.parametrize(
    ("document", "token"),
    [
        ({"code": 0, "tenant_access_token": "t", "expire": 7200}, "t"),
        ({"tenantAccessToken": "t"}, "t"),
        ({"app_access_token": "a", "tenant_access_token": "t"}, "t"),
        ({"app_access_token": "a"}, "a"),
        ({"userAccessToken": "u"}, "u"),
        ({"access_token": "x", "expires_in": 5, "code": "0"}, "x"),
        ({"accessToken": "x", "code": None}, "x"),
        ({"code": 10014, "msg": "app secret invalid"}, None),
        ({"code": "10014", "tenant_access_token": "t"}, None),
        ({"code": False, "tenant_access_token": "t"}, None),
    ],
)
def test_an_app_token_is_found_under_all_its_names(document: dict[str, object], token: str | None) -> None:
    if token is None:
        with pytest.raises(Refused):
            read_app_token(said(document), "tenantAccessToken", ())
    else:
        assert read_app_token(said(document), "tenantAccessToken", ()).access_token == token


def test_what_was_sent_does_not_come_back_in_words() -> None:
    """In any spelling: as it is, percent-encoded, as JSON has it, or with invisible characters between the letters."""
    spellings = [SECRET, quote(SECRET, safe=""), SECRET.replace("/", "\\/"), "\u200b".join(SECRET)]

    words = said_safely(" and ".join(spellings) + "\x1b[31m", (SECRET,))

    assert words == "[secret] and [secret] and [secret] and [secret][31m"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.just(SECRET),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=8,
)
NAMES = st.sampled_from(
    [
        *("access_token", "accessToken", "refresh_token", "refreshToken", "tenant_access_token", "token_type"),
        *("expires_in", "expiresIn", "expire", "scope", "scopes", "error", "error_description", "code", "msg"),
    ]
)
DOCUMENTS = st.dictionaries(NAMES, JSON, max_size=8)
STATUS = st.sampled_from([200, 201, 302, 400, 401, 403, 404, 429, 500, 503])


@given(status=STATUS, body=st.one_of(DOCUMENTS.map(msgspec.json.encode), st.binary(max_size=200)))
def test_no_answer_breaks_the_reading_or_repeats_a_secret(status: int, body: bytes) -> None:
    """Whatever a server sends ends in tokens, a refusal or `Unusable`, and shows nothing of what it was sent."""
    answer = Said(status=status, body=body)
    for is_app in (False, True):
        shown = ""
        try:
            tokens = (
                read_app_token(answer, "tenantAccessToken", (SECRET,)) if is_app else read_tokens(answer, (SECRET,))
            )
        except Refused as refusal:
            shown = f"{refusal!r} {refusal} {refusal.said} {refusal.error}"
        except Unusable as error:
            shown = f"{error!r} {error.why}"
        else:
            shown = f"{tokens!r} {tokens.scopes}"
            assert tokens.access_token.isascii()
            assert tokens.access_token.isprintable()
            assert tokens.expires_in is None or 0 < tokens.expires_in < 4e8
        assert SECRET not in shown


@given(query=st.text(max_size=80))
def test_nothing_pasted_breaks_the_reading(query: str) -> None:
    for text in (query, f"http://127.0.0.1/callback?{query}", f"code={query}&state={STATE}"):
        try:
            callback = oauth.read_pasted(text, STATE)
        except Foreign:
            continue
        assert callback.error or callback.code


@given(document=st.dictionaries(st.sampled_from(["issuer", "registration_endpoint", "revocation_endpoint"]), JSON))
def test_no_metadata_breaks_the_reading(document: dict[str, object]) -> None:
    _, found = ended(oauth_server.metadata_talk(AUTH), said(document), Said(status=404, body=b""))

    assert found is None


def test_metadata_is_believed_about_its_own_hosts_only() -> None:
    document = {
        "issuer": "https://id.app.test",
        "registration_endpoint": "https://evil.test/register",
        "revocation_endpoint": "https://id.app.test/revoke",
        "device_authorization_endpoint": "http://id.app.test/device",
        "authorization_response_iss_parameter_supported": True,
    }

    asks, found = ended(oauth_server.metadata_talk(AUTH), said(document))

    assert asks[0].url == "https://id.app.test/.well-known/oauth-authorization-server"
    assert found == Metadata(
        issuer="https://id.app.test", revocation_endpoint="https://id.app.test/revoke", promises_iss=True
    )


def test_metadata_of_somebody_else_is_not_believed() -> None:
    """It has to call itself what it was asked as; the second place is where OpenID providers have it."""
    foreign = said({"issuer": "https://evil.test"})

    asks, found = ended(oauth_server.metadata_talk(AUTH), foreign, foreign)

    assert [ask.url.rpartition("/")[2] for ask in asks] == ["oauth-authorization-server", "openid-configuration"]
    assert found is None


def test_a_registration_is_remembered_with_how_it_says_who_it_is() -> None:
    talk = oauth_server.registration_talk(
        "https://id.app.test/register", AUTH, "http://127.0.0.1:9/callback", device=True
    )
    answer = {"client_id": "c", "client_secret": "s", "token_endpoint_auth_method": "client_secret_post"}

    asks, client = ended(talk, said(answer, 201))

    sent = msgspec.json.decode(asks[0].body or b"")
    assert sent["token_endpoint_auth_method"] == "none"
    assert sent["redirect_uris"] == ["http://127.0.0.1:9/callback", "http://127.0.0.1/callback"]
    assert client == Client(id="c", secret="s", in_body=True, registered=True)


def test_a_device_is_asked_about_as_slowly_as_the_server_wants() -> None:
    """RFC 8628: the interval first, five seconds more after `slow_down`, and an end."""
    talk = oauth_server.poll_talk(AUTH, PUBLIC, Device(device_code="d", user_code="u", address="", interval=2))
    answers = [said({"error": "authorization_pending"}, 400), said({"error": "slow_down"}, 400), said({}, 503)]
    pauses = list[float]()
    step = next(talk)
    for answer in answers:
        assert isinstance(step, Pause)
        pauses.append(step.seconds)
        assert isinstance(talk.send(None), Ask)
        step = talk.send(answer)
    assert isinstance(step, Pause)
    pauses.append(step.seconds)
    talk.send(None)

    with pytest.raises(StopIteration) as end:
        talk.send(said({"access_token": "t"}))

    assert pauses == [2, 2, 7, 14]
    assert end.value.value == Tokens(access_token="t")


def test_a_device_that_nobody_uses_comes_to_an_end() -> None:
    device = Device(device_code="d", user_code="u", address="", interval=5, expires_in=9)
    talk = oauth_server.poll_talk(AUTH, PUBLIC, device)
    next(talk)

    pending = said({"error": "authorization_pending"}, 400)
    assert isinstance(talk.send(None), Ask)
    assert isinstance(talk.send(pending), Pause)
    assert isinstance(talk.send(None), Ask)

    with pytest.raises(Refused) as refusal:
        talk.send(pending)

    assert refusal.value.error == "expired_token"


def test_nothing_that_holds_a_secret_shows_it() -> None:
    """`repr` is what ends up in logs and tracebacks."""
    values = [
        Tokens(access_token=SECRET, refresh_token=SECRET),
        Client(id="c", secret=SECRET),
        Ask(method="POST", url=f"https://x.test/?q={SECRET}", body=SECRET.encode(), secrets=(SECRET,)),
        Said(status=200, body=SECRET.encode()),
        Callback(code=SECRET),
        Device(device_code=SECRET, user_code="u", address=""),
        oauth.Begun(address=SECRET, redirect_uri="", state=SECRET, verifier=SECRET, client=PUBLIC),
    ]

    assert not [value for value in values if SECRET in repr(value) or SECRET in str(value)]
