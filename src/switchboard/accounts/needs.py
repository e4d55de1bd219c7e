"""What opens an app, and where that may go. Pure.

A secret goes to the app's own web address and to the endpoints its descriptor names for signing in, as they were when
the user signed in. Where any of them is another one now, what was kept opens nothing, and the user is asked again.
"""

from functools import lru_cache
from typing import assert_never

from msgspec import Struct

from switchboard.accounts.kept import Account, Key
from switchboard.actions.ports import Secret
from switchboard.catalog.addresses import origin
from switchboard.catalog.bindings import ApiKey, AppCredential, Auth, Cookie, Execution, Http, OAuth2
from switchboard.catalog.errors import AuthDenied
from switchboard.catalog.model import App
from switchboard.catalog.text import clean
from switchboard.net.guard import read

_LONGEST_NAME = 100


class Need(Struct, frozen=True):
    """An app that wants a sign-in, and everywhere that its secrets go."""

    app: App
    auth: Auth
    goes_to: tuple[str, ...]
    address: str = ""
    """What to write to mean exactly this app."""

    @property
    def key(self) -> Key:
        """Which account it needs."""
        return self.app.origin, self.app.id

    def fits(self, account: Account | None, now: float) -> bool:
        """Say whether an account can open the app without asking the user, if need be after it was renewed."""
        if account is None or account.kind != self.auth.type or account.goes_to != self.goes_to:
            return False
        is_over = account.kind == "oauth2" and not account.refresh_token and (account.expires_at or now + 1) <= now
        return account.opens and not is_over


def need_of(app: App, execution: Execution) -> Need | None:
    """Return what an app needs before a capability of it is called in this way; None where it needs nothing.

    Raises:
        AuthDenied: it wants a sign-in, and nothing may be sent to it.
    """
    if app.auth is None:
        return None
    name = clean(app.names.primary, _LONGEST_NAME)
    if not app.origin:
        raise AuthDenied(
            f"It is not known where {name} comes from, so that nothing opens it. Install it again.", app_id=app.id
        )
    if not isinstance(execution, Http):
        message = (
            f"{name} wants a sign-in, and is not called over the web: what opens it would go to a program. "
            "Tell its developer."
        )
        raise AuthDenied(message, app_id=app.id, execution=execution.kind)
    goes_to = destinations(app.auth, execution)
    if isinstance(app.auth, Cookie) and not _is_within(execution.base_url, app.auth.domain):
        message = (
            f"{name} wants cookies of {clean(app.auth.domain, _LONGEST_NAME)}, and would send them elsewhere. "
            "Tell its developer."
        )
        raise AuthDenied(message, app_id=app.id)
    return Need(app, app.auth, goes_to)


def destinations(auth: Auth, execution: Http) -> tuple[str, ...]:
    """Return every origin that gets a part of the secret, the app's own first."""
    match auth:
        case OAuth2():
            urls = [execution.base_url, auth.token_endpoint, auth.refresh_endpoint or auth.token_endpoint]
        case AppCredential():
            urls = [execution.base_url, auth.token_endpoint]
        case ApiKey() | Cookie():
            urls = [execution.base_url]
        case _:
            assert_never(auth)
    return tuple(dict.fromkeys(_spelled(url) for url in urls))


def secret_of(auth: Auth, account: Account) -> Secret:
    """Return what is added to a request."""
    match auth:
        case OAuth2() | AppCredential():
            return Secret(headers=(("Authorization", f"Bearer {account.access_token}"),))
        case ApiKey():
            prefix = (auth.prefix or "").strip()
            value = f"{prefix} {account.values.get('key', '')}" if prefix else account.values.get("key", "")
            pair = ((auth.name, value),)
            return Secret(headers=pair) if auth.location == "header" else Secret(query=pair)
        case Cookie():
            wanted = [name for name in dict.fromkeys(auth.required_cookies) if name in account.values]
            return Secret(headers=(("Cookie", "; ".join(f"{name}={account.values[name]}" for name in wanted)),))
        case _:
            assert_never(auth)


@lru_cache(256)  # every call asks for the same few
def _spelled(url: str) -> str:
    found = read(url)
    return url if found is None else f"{found.scheme}://{found.host}:{found.port}"


def _is_within(url: str, domain: str) -> bool:
    found, wanted = origin(url), domain.strip().lstrip(".").rstrip(".").lower()
    return found is not None and bool(wanted) and (found[1] == wanted or found[1].endswith("." + wanted))
