"""Conversations with authorisation servers, through the guarded client: who we are there, codes, tokens, the end.

Every conversation is decided in `oauth` and `oauth_server`; here it is only held. Nothing is followed to another
address, nothing takes longer than ten seconds, and nothing is kept.
"""

import re
from asyncio import sleep
from collections.abc import Awaitable, Callable, Generator, Mapping
from secrets import token_urlsafe
from typing import TYPE_CHECKING, TypeVar, cast, final
from urllib.parse import urlsplit

from switchboard.accounts import oauth, oauth_server
from switchboard.accounts.kept import Account, Registered
from switchboard.accounts.oauth import Ask, Begun, Callback, Client, Metadata
from switchboard.accounts.oauth_server import Device, Pause
from switchboard.accounts.tokens import LARGEST, Refused, Said, Tokens, Unusable, said_safely
from switchboard.catalog.bindings import OAuth2
from switchboard.catalog.errors import AuthDenied, CallTimeout, ServiceUnavailable, SwitchboardError
from switchboard.catalog.model import App
from switchboard.catalog.text import clean
from switchboard.net.guard import Guard

if TYPE_CHECKING:
    from switchboard.net.fetch import Fetch

T = TypeVar("T")

_SECONDS = 10.0
_NOT_THERE = Said(status=503, body=b"")


class Stranger(Exception):
    """An account was given to another client than we are now."""


@final
class Authorities:
    """The authorisation servers of all apps. `dev` allows plain http on this machine, as the given client does."""

    def __init__(
        self,
        fetch: "Callable[[], Fetch]",
        *,
        environment: Mapping[str, str],
        dev: bool = False,
        wait: Callable[[float], Awaitable[None]] = sleep,
    ) -> None:
        self._fetch = fetch
        self._environment = environment
        self._guard = Guard(loopback=dev)
        self._wait = wait

    async def begin(self, app: App, auth: OAuth2, known: Client | None, redirect_uri: str, state: str) -> Begun:
        """Find out who we are for an app's server, and return where the browser has to go.

        Raises:
            RefusedAddress: an endpoint is not https.
        """
        self._require_safe(auth)
        client, metadata = self._configured(app, auth) or known, None
        if client is None:
            metadata = await self.metadata(auth)
            client = await self._registered(auth, metadata, redirect_uri) or Client(id=oauth.DEFAULT_CLIENT_ID)
        return oauth.begin(
            auth,
            client,
            redirect_uri=redirect_uri,
            tools=[tool.id for tool in app.capabilities],
            state=state,
            verifier=token_urlsafe(48),
            metadata=metadata,
        )

    async def finish(self, auth: OAuth2, begun: Begun, callback: Callback) -> Tokens:
        """Make tokens of what the browser brought.

        Raises:
            AuthDenied: the user or the server said no, or the answer is another server's.
            Refused: the server does not take the code.
            ServiceUnavailable, CallTimeout: there is no usable answer.
        """
        metadata = begun.metadata
        if metadata is None and callback.iss is not None:
            metadata = await self.metadata(auth)
        if not oauth.is_from(callback, auth, metadata):
            raise AuthDenied(
                "The sign-in was answered by another server than the one that was asked. Nothing was sent. Sign in "
                "again; if it happens again, tell the developer of the app."
            )
        if callback.error:
            said = said_safely(callback.description, (begun.state, begun.verifier)) or "it gives no reason"
            error = said_safely(callback.error, (begun.state, begun.verifier))
            raise AuthDenied(
                f"The sign-in was refused ({error}): {said}. Sign in again to change that.", error=error, said=said
            )
        return await self._talk(oauth.token_talk(auth, begun, callback.code))

    async def refresh(self, app: App, auth: OAuth2, account: Account) -> Tokens:
        """Renew the tokens of an account.

        Raises:
            Stranger: they were given to another client than we are now.
            Refused: the server says no.
            ServiceUnavailable, CallTimeout: there is no usable answer, and nothing is lost.
        """
        self._require_safe(auth)
        client = self._signed_in(app, auth, account)
        return await self._talk(oauth.refresh_talk(auth, client, account.refresh_token))

    async def revoke(self, app: App, auth: OAuth2, account: Account) -> bool:
        """Take the tokens back where the server offers that; tell whether it did. Never raises for an answer."""
        try:
            self._require_safe(auth)
            metadata = await self.metadata(auth)
            if metadata is None or metadata.revocation_endpoint is None:
                return False
            client, done = self._signed_in(app, auth, account), True
            for token, kind in ((account.refresh_token, "refresh_token"), (account.access_token, "access_token")):
                if token:
                    talk = oauth_server.revocation_talk(metadata.revocation_endpoint, client, token, kind)
                    done = await self._talk(talk) and done
        except (Stranger, SwitchboardError):
            return False
        return done

    async def device(self, app: App, auth: OAuth2, known: Client | None) -> tuple[Client, Device] | None:
        """Begin a sign-in on another device; None where the server does not offer that.

        Raises:
            Refused, ServiceUnavailable, CallTimeout: it offers it, and it does not work.
            RefusedAddress: where it sends the person is not https.
        """
        self._require_safe(auth)
        metadata = await self.metadata(auth)
        if metadata is None or metadata.device_authorization_endpoint is None:
            return None
        client = self._configured(app, auth) or known
        if client is None:
            client = await self._registered(auth, metadata, "http://127.0.0.1/callback")
        client = client or Client(id=oauth.DEFAULT_CLIENT_ID)
        talk = oauth_server.device_talk(metadata.device_authorization_endpoint, auth, client)
        device = await self._talk(talk)
        for address in (device.address, device.complete_address):
            if address is not None:
                self._guard.target(address)
        return client, device

    async def device_tokens(self, auth: OAuth2, client: Client, device: Device) -> Tokens:
        """Wait until the person is done on the other device.

        Raises:
            Refused: they said no, or it took too long.
        """
        return await self._talk(oauth_server.poll_talk(auth, client, device), patient=True)

    async def metadata(self, auth: OAuth2) -> Metadata | None:
        """Return what the server of the token endpoint says about itself; None where it says nothing."""
        try:
            found = await self._talk(oauth_server.metadata_talk(auth))
        except SwitchboardError:
            return None
        return found

    def _signed_in(self, app: App, auth: OAuth2, account: Account) -> Client:
        """Return who we were when the user signed in.

        A gateway that another program starts may have other settings: what it cannot renew it must not spoil.
        """
        known = as_client(account.client) if account.client else None
        for client in (known, self._configured(app, auth), Client(id=oauth.DEFAULT_CLIENT_ID)):
            if client is not None and client.id == account.client_id:
                return client
        raise Stranger

    def _configured(self, app: App, auth: OAuth2) -> Client | None:
        """Return who the descriptor says we are, or the user's settings."""
        given, secret = _settings(self._environment, app.id)
        if auth.client_id is not None:
            return Client(id=auth.client_id, secret=secret if given in ("", auth.client_id) else "")
        return Client(id=given, secret=secret) if given else None

    async def _registered(self, auth: OAuth2, metadata: Metadata | None, redirect_uri: str) -> Client | None:
        if metadata is None or metadata.registration_endpoint is None:
            return None
        device = metadata.device_authorization_endpoint is not None
        talk = oauth_server.registration_talk(metadata.registration_endpoint, auth, redirect_uri, device=device)
        try:
            return await self._talk(talk)
        except (Refused, SwitchboardError):
            return None

    def _require_safe(self, auth: OAuth2) -> None:
        """Refuse endpoints that are not https: the browser goes to one of them, where no client of ours looks."""
        for address in (auth.authorization_endpoint, auth.token_endpoint, auth.refresh_endpoint):
            if address is not None:
                self._guard.target(address)

    async def _talk(
        self, talk: "Generator[Ask, Said, T] | Generator[Ask | Pause, Said | None, T]", *, patient: bool = False
    ) -> T:
        """Hold a conversation, and return what it was about; a patient one goes on where a server does not answer."""
        held = cast("Generator[Ask | Pause, Said | None, T]", talk)
        step: Ask | Pause = Pause(0)
        said: Said | None = None
        try:
            step = next(held)
            while True:
                try:
                    said = await self._send(step)
                except (ServiceUnavailable, CallTimeout):
                    if not patient:
                        raise
                    said = _NOT_THERE
                step = held.send(said)
        except StopIteration as end:
            return cast("T", end.value)
        except Unusable as error:
            host = urlsplit(step.url).netloc if isinstance(step, Ask) else "The server"
            raise ServiceUnavailable(
                f"{clean(host)} cannot be used for signing in: {error.why}. Tell the developer of the app."
            ) from None

    async def _send(self, step: Ask | Pause) -> Said | None:
        from switchboard.net.fetch import Limits  # noqa: PLC0415 - with the first sign-in

        if isinstance(step, Pause):
            await self._wait(step.seconds)
            return None
        answer = await self._fetch().send(
            step.method,
            step.url,
            headers=step.headers,
            content=step.body,
            limits=Limits(seconds=_SECONDS, size=LARGEST, redirects=0),
        )
        return Said(status=answer.status, body=answer.body)


def as_client(registered: Registered) -> Client:
    """Return who a server registered us as."""
    return Client(id=registered.id, secret=registered.secret, in_body=registered.in_body, registered=True)


def _settings(environment: Mapping[str, str], app_id: str) -> tuple[str, str]:
    """Return client id and secret from `AAI_<APP ID>_CLIENT_ID` and `_CLIENT_SECRET`."""
    name = re.sub(r"[^0-9A-Za-z]", "_", app_id)
    for spelling in (name.upper(), name):
        given = environment.get(f"AAI_{spelling}_CLIENT_ID", "").strip()
        secret = environment.get(f"AAI_{spelling}_CLIENT_SECRET", "").strip()
        if given or secret:
            return given, secret
    return "", ""
