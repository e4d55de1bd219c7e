"""A real authorisation server, on authlib's Flask integration and over TLS, with a login page and knobs for trouble.

Authorisation code with PKCE, rotating refresh tokens of which a second use costs the account, revocation, metadata,
`iss`, registration and the device grant. It remembers every request it got.
"""

# ruff: noqa: C901, D102, RUF012 - the shapes are the library's

import json
import logging
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from secrets import token_urlsafe
from threading import Lock, Thread
from typing import Any, NamedTuple, Self, cast

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import ClientMixin, TokenMixin, grants
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc8628 import DeviceAuthorizationEndpoint, DeviceCodeGrant, DeviceCredentialDict
from authlib.oauth2.rfc9207 import IssuerParameter
from flask import Flask, Response, jsonify, redirect, request
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

PASSWORD = "correct horse"  # noqa: S105 - of nobody
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_PAGE = """<!doctype html><html lang="en"><title>Sign in</title>
<form method="post"><h1>{client} wants your account</h1><p id="tools">{tools}</p>
<label>Password <input name="password" type="password" autofocus></label>
<button name="decision" value="allow">Allow</button> <button name="decision" value="deny">Deny</button></form></html>"""


class Asked(NamedTuple):
    """One request as it arrived."""

    method: str
    path: str
    form: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]


class Known(ClientMixin):
    """A client the server knows. Ports of loopback redirects may differ (RFC 8252)."""

    def __init__(self, client_id: str, redirects: list[str], grant_types: list[str], secret: str = "") -> None:
        self.client_id = client_id
        self.redirects = redirects
        self.grant_types = grant_types
        self.client_secret = secret
        self.client_info: dict[str, Any] = {"client_id": client_id}

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> str:
        return self.redirects[0]

    def get_allowed_scope(self, scope: Any) -> str:
        return str(scope or "")

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri.startswith("http://127.0.0.1:") and redirect_uri.endswith("/callback")

    def check_client_secret(self, client_secret: str) -> bool:
        return self.client_secret == client_secret

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        del endpoint
        return method == ("client_secret_basic" if self.client_secret else "none")

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in self.grant_types


class Issued(TokenMixin):
    """A pair of tokens; all that come from one sign-in are one family."""

    def __init__(self, token: Mapping[str, Any], client_id: str, family: str) -> None:
        self.access_token = str(token["access_token"])
        self.refresh_token = str(token.get("refresh_token", ""))
        self.scope = str(token.get("scope", ""))
        self.client_id = client_id
        self.family = family
        self.used = False
        self.revoked = False
        self.expires_at = time.time() + int(token["expires_in"])

    def check_client(self, client: Any) -> bool:
        return client.get_client_id() == self.client_id

    def get_scope(self) -> str:
        return self.scope

    def get_expires_in(self) -> int:
        return int(self.expires_at - time.time())

    def is_expired(self) -> bool:
        return self.expires_at < time.time()

    def is_revoked(self) -> bool:
        return self.revoked


class Code:
    """A code that waits for its exchange."""

    def __init__(self, asked: Mapping[str, str], client_id: str) -> None:
        self.client_id = client_id
        self.redirect_uri = asked.get("redirect_uri", "")
        self.scope = asked.get("scope", "")
        self.code_challenge = asked.get("code_challenge", "")
        self.code_challenge_method = asked.get("code_challenge_method", "")
        self.family = token_urlsafe(8)

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope


class Knobs:
    """What a test can turn: one lifetime, one wrong name, one kind of trouble at a time."""

    def __init__(self) -> None:
        self.expires_in: int = 3600
        self.iss: str | None = ""
        """None sends none, a text is sent as it is, empty stands for the truth."""
        self.promises_iss = True
        self.camel_case = False
        self.rotates = True
        self.trouble: dict[str, tuple[int, str]] = {}
        """What a path answers instead: a status and a body, which for a redirection is the address."""
        self.metadata: dict[str, Any] = {}
        self.has_metadata = True
        self.interval = 1
        self.slow_downs = 0


class Provider:
    """The server, from `with` to its end; `host` is the name that its addresses have."""

    def __init__(self, certificate: Path, key: Path, *, host: str = "localhost") -> None:
        self.knobs = Knobs()
        self.asked: list[Asked] = []
        self.clients: dict[str, Known] = {}
        self.codes: dict[str, Code] = {}
        self.used_codes: dict[str, str] = {}
        self.tokens: list[Issued] = []
        self.devices: dict[str, DeviceCredentialDict] = {}
        self.device_answers: dict[str, bool] = {}
        self.lock = Lock()
        self._host = host
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.app = Flask(__name__)
        self._server: BaseWSGIServer = make_server(
            "127.0.0.1", 0, self.app, threaded=True, request_handler=_Silent, ssl_context=context
        )
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        _routes(self, _grants(self))

    @property
    def url(self) -> str:
        return f"https://{self._host}:{self._server.server_port}"

    def know(self, client_id: str, secret: str = "") -> Known:
        grant_types = ["authorization_code", "refresh_token", DEVICE_GRANT]
        self.clients[client_id] = Known(client_id, [], grant_types, secret)
        return self.clients[client_id]

    def count(self, path: str, **form: str) -> int:
        """Say how often a path was asked with such a form."""
        fits = (all(asked.form.get(name) == value for name, value in form.items()) for asked in self.to(path))
        return sum(fits)

    def to(self, path: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.path == path]

    def living(self, access_token: str) -> bool:
        return any(token.access_token == access_token and not token.revoked for token in self.tokens)

    def end_family(self, family: str) -> None:
        for token in self.tokens:
            if token.family == family:
                token.revoked = True

    def secrets(self) -> list[str]:
        """Return everything that must never be seen."""
        found = [text for token in self.tokens for text in (token.access_token, token.refresh_token)]
        found += [*self.used_codes, *self.codes, PASSWORD]
        found += [
            asked.form[name] for asked in self.asked for name in ("code_verifier", "device_code") if name in asked.form
        ]
        return [text for text in found if text]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


class _Silent(WSGIRequestHandler):
    def log(self, *_: object, **__: object) -> None:
        pass


class _CodeChallenge(CodeChallenge):
    SUPPORTED_CODE_CHALLENGE_METHOD = ["S256"]


def _grants(provider: Provider) -> Any:
    logging.getLogger("authlib").setLevel(logging.CRITICAL)

    class CodeGrant(grants.AuthorizationCodeGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ["none", "client_secret_basic"]

        def save_authorization_code(self, code: str, request: Any) -> None:
            provider.codes[code] = Code(request.payload.data, request.client.client_id)

        def query_authorization_code(self, code: str, client: Any) -> Code | None:
            with provider.lock:
                if code in provider.used_codes:  # RFC 6749 4.1.2: a second use costs everything
                    provider.end_family(provider.used_codes[code])
                found = provider.codes.get(code)
                return found if found is not None and found.client_id == client.client_id else None

        def delete_authorization_code(self, authorization_code: Any) -> None:
            for code, kept in list(provider.codes.items()):
                if kept is authorization_code:
                    del provider.codes[code]
                    provider.used_codes[code] = kept.family

        def authenticate_user(self, authorization_code: Any) -> str:
            cast("Any", self.request).family = authorization_code.family
            return "user"

    class RefreshGrant(grants.RefreshTokenGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = ["none", "client_secret_basic"]

        @property
        def INCLUDE_NEW_REFRESH_TOKEN(self) -> bool:  # noqa: N802  # pyright: ignore[reportIncompatibleVariableOverride]
            return provider.knobs.rotates

        def authenticate_refresh_token(self, refresh_token: str) -> Any:
            with provider.lock:
                found = next((token for token in provider.tokens if token.refresh_token == refresh_token), None)
                if found is None or found.revoked:
                    return None
                if found.used and provider.knobs.rotates:
                    provider.end_family(found.family)
                    return None
                found.used = True
                cast("Any", self.request).family = found.family
                return found

        def authenticate_user(self, refresh_token: Any) -> str:
            del refresh_token
            return "user"

        def revoke_old_credential(self, refresh_token: Any) -> None:
            del refresh_token

    class DeviceGrant(DeviceCodeGrant):
        def query_device_credential(self, device_code: str) -> DeviceCredentialDict | None:
            return provider.devices.get(device_code)

        def query_user_grant(self, user_code: str) -> tuple[str, bool] | None:
            cast("Any", self.request).family = user_code
            answer = provider.device_answers.get(user_code)
            return None if answer is None else ("user", answer)

        def should_slow_down(self, credential: Any) -> bool:
            del credential
            provider.knobs.slow_downs -= 1
            return provider.knobs.slow_downs >= 0

    class Device(DeviceAuthorizationEndpoint):
        @property
        def INTERVAL(self) -> int:  # noqa: N802  # pyright: ignore[reportIncompatibleVariableOverride]
            return provider.knobs.interval

        def get_verification_uri(self) -> str:
            return f"{provider.url}/device"

        def save_device_credential(self, client_id: str, scope: Any, data: Any) -> None:
            kept = {**data, "client_id": client_id, "scope": scope or ""}
            provider.devices[data["device_code"]] = DeviceCredentialDict(kept)

    class Revocation(RevocationEndpoint):
        CLIENT_AUTH_METHODS = ["none", "client_secret_basic"]

        def query_token(self, token_string: str, token_type_hint: Any) -> Issued | None:
            del token_type_hint
            fits = (token for token in provider.tokens if token_string in (token.access_token, token.refresh_token))
            return next(fits, None)

        def revoke_token(self, token: Any, request: Any) -> None:
            del request
            provider.end_family(token.family)

    class Registration(ClientRegistrationEndpoint):
        def authenticate_token(self, request: Any) -> bool:
            del request
            return True

        def get_server_metadata(self) -> dict[str, Any]:
            return {}

        def generate_client_id(self, request: Any) -> str:
            del request
            return f"registered-{len(provider.clients)}"

        def generate_client_secret(self, request: Any) -> str:
            del request
            return ""

        def save_client(self, client_info: Any, client_metadata: Any, request: Any) -> Known:
            del request
            known = Known(
                client_info["client_id"], client_metadata["redirect_uris"], client_metadata.get("grant_types", [])
            )
            known.client_info = dict(client_info)
            provider.clients[known.client_id] = known
            return known

    class Issuer(IssuerParameter):
        def get_issuer(self) -> str | None:
            return provider.url if provider.knobs.iss == "" else provider.knobs.iss

    def save_token(token: Mapping[str, Any], request: Any) -> None:
        provider.tokens.append(Issued(token, request.client.client_id, request.family))

    def lifetime(client: Any, grant_type: str) -> int:
        del client, grant_type
        return provider.knobs.expires_in

    provider.app.config["OAUTH2_REFRESH_TOKEN_GENERATOR"] = True
    server = cast("Any", AuthorizationServer(query_client=provider.clients.get, save_token=save_token))
    server.init_app(provider.app)
    server.register_token_generator("default", _generator(server, lifetime))
    server.register_grant(CodeGrant, [_CodeChallenge(required=True)])
    server.register_grant(RefreshGrant)
    server.register_grant(DeviceGrant)
    for endpoint in (Device, Revocation, Registration):
        server.register_endpoint(endpoint)
    server.register_extension(Issuer())
    return server


def _generator(server: Any, lifetime: Any) -> Any:
    made = server.create_bearer_token_generator({"OAUTH2_REFRESH_TOKEN_GENERATOR": True})
    made.expires_generator = lifetime
    return made


def _routes(provider: Provider, server: Any) -> None:
    app = provider.app

    @app.before_request
    def note() -> Any:
        form = request.form.to_dict()
        provider.asked.append(
            Asked(request.method, request.path, form, request.args.to_dict(), dict(request.headers.items()))
        )
        trouble = provider.knobs.trouble.get(request.path)
        if trouble is None:
            return None
        status, body = trouble
        return redirect(body, status) if status in (301, 302, 303, 307, 308) else Response(body, status)

    @app.get("/authorize")
    def ask() -> Any:
        try:
            grant = server.get_consent_grant(end_user="user")
        except OAuth2Error as error:
            return Response(f"{error.error}: {error.description}", 400)
        return _PAGE.format(client=grant.client.client_id, tools=request.args.get("aai_tools", ""))

    @app.post("/authorize")
    def decide() -> Any:
        if request.form.get("password") != PASSWORD:
            return Response("wrong password", 403)
        grant = server.get_consent_grant(end_user="user")
        user = "user" if request.form.get("decision") == "allow" else None
        return server.create_authorization_response(grant_user=user, grant=grant)

    @app.post("/token")
    def token() -> Any:
        response = server.create_token_response()
        if provider.knobs.camel_case and response.status_code == 200:
            given = json.loads(response.get_data())
            response.set_data(json.dumps({_camel(name): value for name, value in given.items()}))
        return response

    @app.post("/revoke")
    def revoke() -> Any:
        return server.create_endpoint_response("revocation")

    @app.post("/register")
    def register() -> Any:
        return server.create_endpoint_response("client_registration")

    @app.post("/device_authorization")
    def device() -> Any:
        return server.create_endpoint_response("device_authorization")

    @app.post("/device")
    def on_device() -> Any:
        if request.form.get("password") != PASSWORD:
            return Response("wrong password", 403)
        provider.device_answers[request.form["user_code"]] = request.form.get("decision") == "allow"
        return "done"

    @app.get("/api/me")
    def me() -> Any:
        _, _, given = request.headers.get("Authorization", "").partition(" ")
        return jsonify({"me": "user"}) if provider.living(given) else Response("who are you?", 401)

    @app.get("/.well-known/oauth-authorization-server")
    def metadata() -> Any:
        if not provider.knobs.has_metadata:
            return Response("not here", 404)
        at = provider.url
        known = {
            "issuer": at,
            "authorization_endpoint": f"{at}/authorize",
            "token_endpoint": f"{at}/token",
            "revocation_endpoint": f"{at}/revoke",
            "registration_endpoint": f"{at}/register",
            "device_authorization_endpoint": f"{at}/device_authorization",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": provider.knobs.promises_iss,
            **provider.knobs.metadata,
        }
        return jsonify({name: value for name, value in known.items() if value is not None})


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def secrets_in(text: str, provider: Provider) -> list[str]:
    """Return which secrets of a server stand in a text."""
    return [secret for secret in provider.secrets() if secret in text]
