"""The `auth` of an aai.json: how the user signs in, in every spelling; written in the canonical one.

Only the description of the sign-in is here. Secrets never stand in a descriptor; a key that names one is not used.
"""

from typing import Any, assert_never

from switchboard.catalog.bindings import ApiKey, AppCredential, Auth, Cookie, KeyLocation, OAuth2, TokenType
from switchboard.descriptors.cursor import Record, Value

_OLD_TYPES = {"api_key": "apiKey", "app_credential": "appCredential"}


def read_auth(record: Record) -> Auth | None:
    """Read one auth object; None where there is nothing to sign in to, or where the report says why not."""
    value = record.require("type")
    kind: object = value.value if value else None
    if value and isinstance(kind, str) and kind in _OLD_TYPES:
        value.note_old_form(f"old name of {_OLD_TYPES[kind]}")
        kind = _OLD_TYPES[kind]
    match kind:
        case "none":
            auth = None
        case "oauth2":
            auth = _oauth2(_inner(record, "oauth2"))
        case "apiKey":
            auth = _api_key(_inner(record, "apiKey"))
        case "appCredential":
            auth = _app_credential(_inner(record, "appCredential"))
        case "cookie":
            auth = _cookie(_inner(record, "cookie"))
        case "bearer":
            auth = _bearer(record, value)
        case _:
            auth = None
            if value:
                value.choice("oauth2", "apiKey", "appCredential", "cookie")
    record.finish()
    return auth


def write_auth(auth: Auth) -> dict[str, Any]:
    """Return the canonical object."""
    match auth:
        case OAuth2():
            inner: dict[str, Any] = {
                "authorizationEndpoint": auth.authorization_endpoint,
                "tokenEndpoint": auth.token_endpoint,
                "refreshEndpoint": auth.refresh_endpoint,
                "clientId": auth.client_id,
                "scopes": list(auth.scopes),
                "pkce": {"method": "S256"},
                "extraParams": dict(auth.extra_params) or None,
            }
        case ApiKey():
            inner = {
                "location": auth.location,
                "name": auth.name,
                "prefix": auth.prefix,
                "obtainUrl": auth.obtain_url,
                "instructions": auth.instructions,
            }
        case AppCredential():
            inner = {
                "tokenEndpoint": auth.token_endpoint,
                "tokenType": auth.token_type,
                "expiresIn": auth.expires_in,
                "instructions": auth.instructions,
            }
        case Cookie():
            inner = {
                "loginUrl": auth.login_url,
                "requiredCookies": list(auth.required_cookies),
                "domain": auth.domain,
                "instructions": auth.instructions,
            }
        case _:
            assert_never(auth)
    return {"type": auth.type, auth.type: {key: value for key, value in inner.items() if value is not None}}


def _inner(record: Record, key: str) -> Record | None:
    """Return the object with the details; the first drafts had them flat beside `type`."""
    value = record.take(key)
    if value is None:
        record.belongs_elsewhere(f"belongs into {key}")
    return value.record() if value else record


def _oauth2(record: Record | None) -> OAuth2 | None:
    if record is None:
        return None
    authorization = record.require("authorizationEndpoint", "auth_url")
    token = record.require("tokenEndpoint", "token_url")
    refresh, client = record.take("refreshEndpoint"), record.take("clientId")
    scopes, extra = record.take("scopes"), record.take("extraParams")
    for key in ("flow", "token_placement", "token_prefix"):
        record.drop(key, "not used: a token is always sent as Authorization: Bearer after the code flow")
    _pkce(record)
    authorization_endpoint = authorization.url() if authorization else None
    token_endpoint = token.url() if token else None
    refresh_endpoint = refresh.url() if refresh else None
    client_id = client.text() if client else None
    asked, parameters = scopes.texts() if scopes else (), extra.pairs() if extra else ()
    record.finish()
    if authorization_endpoint is None or token_endpoint is None:
        return None
    return OAuth2(
        authorization_endpoint=authorization_endpoint,
        token_endpoint=token_endpoint,
        refresh_endpoint=refresh_endpoint,
        client_id=client_id,
        scopes=asked,
        extra_params=parameters,
    )


def _pkce(record: Record) -> None:
    value = record.take("pkce")
    inner = value.record() if value else None
    if inner is None:
        return
    method = inner.require("method")
    if method:
        method.choice("S256")
    inner.finish()


def _api_key(record: Record | None) -> ApiKey | None:
    if record is None:
        return None
    header = record.take("header") if "name" not in record else None
    location, name = record.take("location", "placement", "key_placement"), record.take("name", "key_name")
    prefix, obtain = record.take("prefix"), record.take("obtainUrl")
    instructions = _instructions(record)
    record.drop("env_var", "not used: keys come from the keychain, never from the environment")
    if header:
        header.note_old_form("old spelling of location and name")
    where: KeyLocation | None = location.choice("header", "query") if location else "header" if header else None
    which = name.text() if name else header.text() if header else None
    for key, found in (("location", location or header), ("name", name or header)):
        if found is None:
            record.report.error("missing", f"{record.path}.{key}", "is missing")
    key_prefix = prefix.text(empty=True) if prefix else None
    obtain_url = obtain.url() if obtain else None
    record.finish()
    if where is None or which is None:
        return None
    return ApiKey(location=where, name=which, prefix=key_prefix, obtain_url=obtain_url, instructions=instructions)


def _bearer(record: Record, value: Value | None) -> ApiKey:
    if value:
        value.note_old_form("old name of an apiKey in the Authorization header")
    obtain, instructions = record.take("obtainUrl"), _instructions(record)
    return ApiKey(
        location="header",
        name="Authorization",
        prefix="Bearer",
        obtain_url=obtain.url() if obtain else None,
        instructions=instructions,
    )


def _app_credential(record: Record | None) -> AppCredential | None:
    if record is None:
        return None
    endpoint, kind, expires = record.require("tokenEndpoint"), record.take("tokenType"), record.take("expiresIn")
    instructions = _instructions(record)
    token_endpoint = endpoint.url() if endpoint else None
    token_type: TokenType | None = (
        kind.choice("tenantAccessToken", "appAccessToken", "userAccessToken") if kind else None
    )
    expires_in = expires.whole(1, 2**53) if expires else None
    record.finish()
    if token_endpoint is None:
        return None
    return AppCredential(
        token_endpoint=token_endpoint,
        token_type=token_type or "tenantAccessToken",
        expires_in=expires_in or 7200,
        instructions=instructions,
    )


def _cookie(record: Record | None) -> Cookie | None:
    if record is None:
        return None
    login, cookies, domain = record.require("loginUrl"), record.require("requiredCookies"), record.require("domain")
    instructions = _instructions(record)
    login_url = login.url() if login else None
    names = tuple(text for item in cookies.items() if (text := item.text())) if cookies else ()
    if cookies and not names:
        record.report.error("value", cookies.path, "must name at least one cookie")
    where = domain.text() if domain else None
    record.finish()
    if login_url is None or where is None:
        return None
    return Cookie(login_url=login_url, required_cookies=names, domain=where, instructions=instructions)


def _instructions(record: Record) -> str | None:
    """Return the help text; it was an object of several texts for ten days."""
    value = record.take("instructions")
    if value is None:
        return None
    if not isinstance(value.value, dict):
        return value.text(empty=True)
    value.note_old_form("an object in the place of one text")
    parts = value.record()
    if parts is None:
        return None
    texts = [part.text(empty=True) for key in ("short", "detailed", "helpUrl") if (part := parts.take(key))]
    parts.ignore("screenshotUrl", "screenshot_url")
    parts.finish()
    return "\n".join(text for text in texts if text)
