"""An app id and secret exchanged for a token that lasts for an hour or two, as Feishu and others have it."""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from switchboard.accounts.tokens import LARGEST, Said, Tokens, Unusable, read_app_token
from switchboard.catalog.bindings import AppCredential
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.catalog.text import clean

if TYPE_CHECKING:
    from switchboard.net.fetch import Fetch

_SECONDS = 10.0
_HEADERS = (("Content-Type", "application/json; charset=utf-8"), ("Accept", "application/json"))


async def exchange(fetch: "Fetch", auth: AppCredential, app_id: str, app_secret: str) -> Tokens:
    """Ask for a token; where the answer does not say how long it lasts, the descriptor does.

    Raises:
        Refused: the server does not take this id and secret.
        ServiceUnavailable, CallTimeout: there is no usable answer.
        RefusedAddress: the address must not be called.
    """
    from switchboard.net.fetch import Limits  # noqa: PLC0415 - with the first call

    answer = await fetch.send(
        "POST",
        auth.token_endpoint,
        headers=_HEADERS,
        content=msgspec.json.encode({"app_id": app_id, "app_secret": app_secret}),
        limits=Limits(seconds=_SECONDS, size=LARGEST, redirects=0),
    )
    try:
        tokens = read_app_token(Said(status=answer.status, body=answer.body), auth.token_type, (app_secret, app_id))
    except Unusable as error:
        host = clean(urlsplit(auth.token_endpoint).netloc)
        raise ServiceUnavailable(
            f"{host} cannot be used for signing in: {error.why}. Tell the developer of the app."
        ) from None
    return Tokens(access_token=tokens.access_token, expires_in=tokens.expires_in or float(auth.expires_in))
