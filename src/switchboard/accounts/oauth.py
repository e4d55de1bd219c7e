"""OAuth 2.1 as questions and answers: what to send, and what an answer means. Pure, no I/O.

A conversation with a server is a generator: it yields what to send, takes what came back, and returns what it was
about. Whoever runs it does the sending. Parameters have the names of the RFCs on the wire; answers are read in both
spellings. This file imports authlib, which is heavy: import it when somebody signs in.
"""

import base64
from collections.abc import Generator, Iterable, Mapping
from hmac import compare_digest
from typing import TypeVar, cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from authlib.oauth2.rfc6749.parameters import (
    prepare_grant_uri,  # pyright: ignore[reportUnknownVariableType]
    prepare_token_request,
)
from authlib.oauth2.rfc7636 import create_s256_code_challenge  # pyright: ignore[reportUnknownVariableType]
from msgspec import Struct

from switchboard.accounts.tokens import Said, Tokens, is_sendable, read_tokens
from switchboard.catalog.bindings import OAuth2

T = TypeVar("T")

DEFAULT_CLIENT_ID = "aai-gateway"
_FORM = ("Content-Type", "application/x-www-form-urlencoded")
ACCEPT = ("Accept", "application/json")
_MOST_PARAMETERS = 50
_LONGEST_TOOLS = 1500
"""Of the list of tools in an address: servers refuse long ones, and showing it is all it is for."""

# What a descriptor may not set: the protocol's own, and what would put other parameters in their place.
_OURS = frozenset(
    {
        "aai_tools",
        "client_id",
        "client_secret",
        "code",
        "code_challenge",
        "code_challenge_method",
        "code_verifier",
        "grant_type",
        "iss",
        "nonce",
        "redirect_uri",
        "registration",
        "request",
        "request_uri",
        "response_mode",
        "response_type",
        "scope",
        "state",
    }
)


class Client(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who we are for one server; without a secret we are a public client."""

    id: str
    secret: str = ""
    in_body: bool = False
    """Whether the secret goes into the body: only where the server said so when it registered us."""
    registered: bool = False

    def __repr__(self) -> str:
        return f"Client({self.id!r}, …)"


class Ask(Struct, frozen=True, kw_only=True):
    """One request to send; `secrets` are what must not come back in a text."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Ask({self.method} {self.url.partition('?')[0]}, …)"


Talk = Generator[Ask, Said, T]
"""A conversation that ends with a T."""


class Metadata(Struct, frozen=True, kw_only=True):
    """What a server says about itself (RFC 8414), as far as it is believed."""

    issuer: str
    registration_endpoint: str | None = None
    device_authorization_endpoint: str | None = None
    revocation_endpoint: str | None = None
    promises_iss: bool = False


class Begun(Struct, frozen=True, kw_only=True):
    """A sign-in that waits for the browser; `address` is where the person goes."""

    address: str
    redirect_uri: str
    state: str
    verifier: str
    client: Client
    metadata: Metadata | None = None

    def __repr__(self) -> str:
        return "Begun(…)"


class Callback(Struct, frozen=True, kw_only=True):
    """What the browser brought back from a server that knew our state."""

    code: str = ""
    iss: str | None = None
    error: str = ""
    description: str = ""

    def __repr__(self) -> str:
        return f"Callback(error={self.error!r}, …)"


class Foreign(Exception):
    """What arrived is not the answer to our question: somebody else's, forged, or no answer at all."""


def begin(  # noqa: PLR0913 - what an authorisation request is made of
    auth: OAuth2,
    client: Client,
    *,
    redirect_uri: str,
    tools: Iterable[str],
    state: str,
    verifier: str,
    metadata: Metadata | None = None,
) -> Begun:
    """Return the address that the browser is sent to, with what has to be known when it comes back.

    `state` and `verifier` are random, and never used twice.
    """
    address = cast(
        "str",
        prepare_grant_uri(
            _with_extra(auth),
            client.id,
            "code",
            redirect_uri=redirect_uri,
            scope=list(auth.scopes) or None,
            state=state,
            code_challenge=_challenge(verifier),
            code_challenge_method="S256",
            aai_tools=_shortened(tools) or None,
        ),
    )
    return Begun(
        address=address,
        redirect_uri=redirect_uri,
        state=state,
        verifier=verifier,
        client=client,
        metadata=metadata,
    )


def read_callback(given: Mapping[str, str], state: str) -> Callback:
    """Read what the browser was sent back with.

    Raises:
        Foreign: it does not know our state, or is no answer.
    """
    if not _is_same(given.get("state", ""), state):
        raise Foreign
    iss = given.get("iss")
    if "error" in given:
        return Callback(error=given["error"], description=given.get("error_description", ""), iss=iss)
    if not is_sendable(given.get("code", "")):
        raise Foreign
    return Callback(code=given["code"], iss=iss)


def read_pasted(text: str, state: str) -> Callback:
    """Read what a person copied: the whole address they were sent back to, its query, `code#state` or the code.

    A code without a state is taken: nobody but the person can type here, and without the verifier it is worth nothing.

    Raises:
        Foreign: it belongs to another sign-in, or is nothing of all this.
    """
    pasted = text.strip()
    if "://" in pasted:
        return read_callback(_parameters(pasted.partition("?")[2].partition("#")[0]), state)
    if "code=" in pasted or "error=" in pasted:
        return read_callback(_parameters(pasted.removeprefix("?")), state)
    code, mark, given = pasted.replace("#", " ").partition(" ")
    if (mark and not _is_same(given.strip(), state)) or not is_sendable(code):
        raise Foreign
    return Callback(code=code)


def is_from(callback: Callback, auth: OAuth2, metadata: Metadata | None) -> bool:
    """Say whether an answer comes from the server that was asked (RFC 9207), so that none can pose as another."""
    if callback.iss is None:
        return metadata is None or not metadata.promises_iss
    if metadata is not None:
        return _is_same(callback.iss, metadata.issuer)
    return is_related(callback.iss, (auth.authorization_endpoint, auth.token_endpoint))


def is_related(url: str, endpoints: Iterable[str]) -> bool:
    """Say whether an address has the host of one of the endpoints, or one below it; https stays https.

    There is no list of public suffixes here, so neighbours do not count: `a.co.uk` is not `b.co.uk`.
    """
    try:
        host, scheme = urlsplit(url).hostname or "", urlsplit(url).scheme
        known = [(parts.hostname or "", parts.scheme) for parts in map(urlsplit, endpoints)]
    except ValueError:
        return False
    return any(scheme == kind and name and (host == name or host.endswith("." + name)) for name, kind in known)


def token_talk(auth: OAuth2, begun: Begun, code: str) -> Talk[Tokens]:
    """Exchange a code for tokens.

    Raises:
        Refused, Unusable: there are none.
    """
    body = prepare_token_request(
        "authorization_code", redirect_uri=begun.redirect_uri, code=code, code_verifier=begun.verifier
    )
    ask = posted(auth.token_endpoint, body, begun.client, (code, begun.verifier))
    return read_tokens((yield ask), ask.secrets)


def refresh_talk(auth: OAuth2, client: Client, refresh_token: str) -> Talk[Tokens]:
    """Exchange a refresh token for new tokens.

    Raises:
        Refused, Unusable: there are none.
    """
    body = prepare_token_request("refresh_token", refresh_token=refresh_token)
    ask = posted(auth.refresh_endpoint or auth.token_endpoint, body, client, (refresh_token,))
    return read_tokens((yield ask), ask.secrets)


def posted(url: str, body: str, client: Client, secrets: tuple[str, ...]) -> Ask:
    """Return a form to send; a public client names itself in it, one with a secret as it was told to."""
    headers: list[tuple[str, str]] = [_FORM, ACCEPT]
    if client.secret and not client.in_body:
        pair = f"{quote(client.id, safe='')}:{quote(client.secret, safe='')}".encode()
        basic = base64.b64encode(pair).decode()
        headers.append(("Authorization", f"Basic {basic}"))
        secrets = (*secrets, basic)
    else:
        own = {"client_id": client.id} | ({"client_secret": client.secret} if client.secret else {})
        body = "&".join(part for part in (body, urlencode(own)) if part)
    held = (*secrets, client.secret) if client.secret else secrets
    return Ask(method="POST", url=url, headers=tuple(headers), body=body.encode(), secrets=held)


def _with_extra(auth: OAuth2) -> str:
    """Return the endpoint with what the app adds, without what the protocol says itself, and without a fragment."""
    parts = urlsplit(auth.authorization_endpoint)
    given = [*parse_qsl(parts.query, keep_blank_values=True), *auth.extra_params]
    kept = [(name, value) for name, value in given if name.lower() not in _OURS]
    return urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(kept), ""))


def _challenge(verifier: str) -> str:
    return str(cast("object", create_s256_code_challenge(verifier)))


def _shortened(tools: Iterable[str]) -> str:
    names, length = list[str](), 0
    for name in tools:
        length += len(name) + 1
        if length > _LONGEST_TOOLS:
            break
        if "," not in name:
            names.append(name)
    return ",".join(names)


def _is_same(given: str, expected: str) -> bool:
    """Compare without telling by the time it takes how much is right."""
    return compare_digest(given.encode(errors="replace"), expected.encode(errors="replace"))


def _parameters(query: str) -> dict[str, str]:
    """Return the parameters of an answer; one that is there twice could be read in two ways."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise Foreign from None
    given = dict(pairs)
    if len(given) != len(pairs):
        raise Foreign
    return given
