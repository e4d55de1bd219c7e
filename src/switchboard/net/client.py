"""Calls to a control plane the user named: one client, time limits on everything, errors in our words."""

import httpx2

from switchboard.catalog.errors import ServiceUnavailable

_TIMEOUT_S = 10.0


def request(  # noqa: PLR0913 - what a request is made of
    method: str,
    url: str,
    *,
    api_key: str | None = None,
    parameters: list[tuple[str, str]] | None = None,
    body: bytes | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> tuple[int, bytes]:
    """Send one request and return status and body.

    Raises:
        ServiceUnavailable: nobody answers there.
    """
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if api_key:
        headers["X-API-Key"] = api_key
    try:
        answer = httpx2.request(
            method,
            url,
            params=tuple(parameters or ()),
            content=body,
            headers=headers,
            timeout=timeout_s,
            trust_env=False,
        )
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ServiceUnavailable(f"{url} does not answer: {error}") from error
    return answer.status_code, answer.content
