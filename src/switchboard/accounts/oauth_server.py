"""What an authorisation server offers beside the code flow: metadata, registration, revocation, devices. Pure, no I/O.

The same kind of conversations as in `oauth`. Nothing a server says about itself is believed beyond the hosts that the
descriptor names.
"""

from collections.abc import Generator
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

import msgspec
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata, get_well_known_url
from msgspec import Struct

from switchboard.accounts.oauth import ACCEPT, Ask, Client, Metadata, Talk, is_related, posted
from switchboard.accounts.tokens import Refused, Said, Tokens, Unusable, is_sendable, read_document, read_tokens
from switchboard.catalog.bindings import OAuth2

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_JSON = ("Content-Type", "application/json")
_POLL_S, _SLOWER_S, _SLOWEST_S = 5.0, 5.0, 60.0
_DEVICE_LIFE_S = 600.0
_LONGEST_ERROR = 60
_OK = 200


class Pause(Struct, frozen=True):
    """Nothing to send for so many seconds."""

    seconds: float


class Device(Struct, frozen=True, kw_only=True):
    """A sign-in on another device: the person goes to `address` and types `user_code`."""

    device_code: str
    user_code: str
    address: str
    complete_address: str | None = None
    interval: float = _POLL_S
    expires_in: float = _DEVICE_LIFE_S

    def __repr__(self) -> str:
        return f"Device({self.user_code!r}, …)"


def revocation_talk(endpoint: str, client: Client, token: str, kind: str) -> Talk[bool]:
    """Take a token back (RFC 7009), and tell whether the server says that it has."""
    ask = posted(endpoint, urlencode({"token": token, "token_type_hint": kind}), client, (token,))
    return (yield ask).status == _OK


def metadata_talk(auth: OAuth2) -> Talk[Metadata | None]:
    """Ask the server of the token endpoint what it can do; None where it does not say, or what it says is not believed.

    Its name is not in the descriptor, so it is the origin of the token endpoint, and has to call itself so. Of its
    endpoints only those count that belong to the hosts which the descriptor names.
    """
    parts = urlsplit(auth.token_endpoint)
    issuer = f"{parts.scheme}://{parts.netloc}"
    for suffix in ("oauth-authorization-server", "openid-configuration"):
        said = yield Ask(method="GET", url=get_well_known_url(issuer, external=True, suffix=suffix), headers=(ACCEPT,))
        found = _metadata(said, issuer, auth)
        if found is not None:
            return found
    return None


def registration_talk(endpoint: str, auth: OAuth2, redirect_uri: str, *, device: bool) -> Talk[Client]:
    """Register as a public client (RFC 7591).

    Raises:
        Refused, Unusable: it does not take us.
    """
    grants = ["authorization_code", "refresh_token", *([DEVICE_GRANT] if device else [])]
    wanted: dict[str, Any] = {
        "client_name": "Switchboard",
        # RFC 8252 lets the port differ; a server that does not know that knows at least this one.
        "redirect_uris": [redirect_uri, "http://127.0.0.1/callback"],
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    if auth.scopes:
        wanted["scope"] = " ".join(auth.scopes)
    said = yield Ask(method="POST", url=endpoint, headers=(_JSON, ACCEPT), body=msgspec.json.encode(wanted))
    document = read_document(said)
    if said.status not in (200, 201):
        raise Refused(str(document.get("error", ""))[:_LONGEST_ERROR], "it registers nobody")
    given, secret = document.get("client_id", document.get("clientId")), document.get("client_secret", "")
    if not isinstance(given, str) or not is_sendable(given):
        raise Unusable("it registers nobody")
    method = document.get("token_endpoint_auth_method")
    return Client(
        id=given,
        secret=secret if method != "none" and isinstance(secret, str) and is_sendable(secret) else "",
        in_body=method == "client_secret_post",
        registered=True,
    )


def device_talk(endpoint: str, auth: OAuth2, client: Client) -> Talk[Device]:
    """Ask for a code that the person types on another device (RFC 8628).

    Raises:
        Refused, Unusable: there is none.
    """
    ask = posted(endpoint, urlencode({"scope": " ".join(auth.scopes)}) if auth.scopes else "", client, ())
    said = yield ask
    document = read_document(said)
    device, user = document.get("device_code"), document.get("user_code")
    address, complete = (
        document.get("verification_uri", document.get("verification_url")),
        document.get("verification_uri_complete"),
    )
    if said.status != _OK or not all(isinstance(text, str) and text for text in (device, user, address)):
        raise Refused(str(document.get("error", ""))[:_LONGEST_ERROR], "it gives no code for another device")
    return Device(
        device_code=cast("str", device),
        user_code=cast("str", user),
        address=cast("str", address),
        complete_address=complete if isinstance(complete, str) else None,
        interval=_sensible(document.get("interval"), _POLL_S, _SLOWEST_S),
        expires_in=_sensible(document.get("expires_in"), _DEVICE_LIFE_S, 3600.0),
    )


def poll_talk(auth: OAuth2, client: Client, device: Device) -> Generator[Ask | Pause, Said | None, Tokens]:
    """Ask again and again whether the person is done, as slowly as the server wants it.

    Raises:
        Refused: the person or the server said no, or it took too long: `expired_token`.
        Unusable: the server says nothing that can be used.
    """
    body = urlencode({"grant_type": DEVICE_GRANT, "device_code": device.device_code})
    ask = posted(auth.token_endpoint, body, client, (device.device_code,))
    interval, waited = device.interval, 0.0
    while waited < device.expires_in:
        yield Pause(interval)
        waited += interval
        said = yield ask
        try:
            return read_tokens(cast("Said", said), ask.secrets)
        except Refused as refusal:
            if refusal.error == "slow_down":
                interval = min(interval + _SLOWER_S, _SLOWEST_S)
            elif refusal.error != "authorization_pending":
                raise
        except Unusable:
            interval = min(interval * 2, _SLOWEST_S)  # RFC 8628 3.5: a server in trouble is asked less often
    raise Refused("expired_token", "nobody signed in in time")


def _metadata(said: Said, issuer: str, auth: OAuth2) -> Metadata | None:
    try:
        document = AuthorizationServerMetadata(read_document(said))
        document.validate_issuer()
    except (Unusable, ValueError, AttributeError, TypeError):
        return None
    named = document.get("issuer")
    if said.status != _OK or not isinstance(named, str) or named.removesuffix("/") != issuer:
        return None
    endpoints = (auth.authorization_endpoint, auth.token_endpoint)

    def believed(name: str) -> str | None:
        url = document.get(name)
        return url if isinstance(url, str) and is_related(url, endpoints) else None

    return Metadata(
        issuer=named,
        registration_endpoint=believed("registration_endpoint"),
        device_authorization_endpoint=believed("device_authorization_endpoint"),
        revocation_endpoint=believed("revocation_endpoint"),
        promises_iss=document.get("authorization_response_iss_parameter_supported") is True,
    )


def _sensible(value: object, otherwise: float, most: float) -> float:
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else otherwise
    return min(number, most) if number > 0 else otherwise
