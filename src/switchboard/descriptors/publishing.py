"""What a descriptor has to be before a registry hands it out: everything that every gateway would refuse is said here.

Stricter than reading: who publishes can still mend. The app of a reading stays where only these rules object to it, so
that what was published under older rules can still be compared with.
"""

from collections.abc import Iterator

from switchboard.catalog import addresses, versions
from switchboard.catalog.bindings import AppCredential, Auth, Cookie, OAuth2
from switchboard.catalog.differences import address_of
from switchboard.catalog.findings import Problem
from switchboard.catalog.model import App
from switchboard.catalog.names import is_folder_name
from switchboard.descriptors import aai
from switchboard.descriptors.check import schema_problems
from switchboard.descriptors.document import decode
from switchboard.descriptors.web import on_the_web


def read(raw: bytes, *, loopback: bool) -> aai.Reading:
    """Read a descriptor that is to be published; `loopback` allows addresses on this machine, for trying things out."""
    reading = aai.read(raw, system="web")
    if reading.app is None:
        return aai.Reading(None, (*reading.problems, *_version(raw)), reading.tool_paths)
    problems = (
        *reading.problems,
        *_desktop(reading),
        *_identity(reading.app),
        *_version(raw),
        *_addresses(reading.app, loopback=loopback),
        *schema_problems(reading),
    )
    return aai.Reading(reading.app, problems, reading.tool_paths)


def _desktop(reading: aai.Reading) -> Iterator[Problem]:
    app = reading.app
    if app is not None and on_the_web(reading).app is None:
        kind = app.execution.kind
        message = f"{kind} names something on a person's machine; only web apps can be published, with http"
        yield _error("$.execution.type", message)
    elif app is not None and app.platform != "web":
        yield _error("$.platform", f"is {app.platform}; only web apps can be published")


def _identity(app: App) -> Iterator[Problem]:
    if not is_folder_name(app.id):
        yield _error("$.app.id", "cannot be the name of a folder, which gateways keep their copy in")


def _version(raw: bytes) -> Iterator[Problem]:
    """Look at the version as it is written: a reader mends what it cannot read, and nobody could order that."""
    document = decode(raw)
    if isinstance(document, Problem):
        return
    written: object = document.get("version")
    if written is None:
        yield _error("$.version", "is missing; a published app has a semantic version such as 1.0.0")
    elif not isinstance(written, str) or versions.parse(written) is None:
        yield _error("$.version", "is not a semantic version such as 1.0.0 or 2.1.0-beta.1")


def _addresses(app: App, *, loopback: bool) -> Iterator[Problem]:
    where = address_of(app.execution)
    if where is not None:
        yield from _address(f"$.execution.{where[1]}", where[0], loopback=loopback)
    for key, url in _endpoints(app.auth):
        yield from _address(key, url, loopback=loopback)


def _endpoints(auth: Auth | None) -> Iterator[tuple[str, str]]:
    match auth:
        case OAuth2():
            yield "$.auth.oauth2.authorizationEndpoint", auth.authorization_endpoint
            yield "$.auth.oauth2.tokenEndpoint", auth.token_endpoint
            if auth.refresh_endpoint is not None:
                yield "$.auth.oauth2.refreshEndpoint", auth.refresh_endpoint
        case AppCredential():
            yield "$.auth.appCredential.tokenEndpoint", auth.token_endpoint
        case Cookie():
            yield "$.auth.cookie.loginUrl", auth.login_url
        case _:
            return


def _address(path: str, url: str, *, loopback: bool) -> Iterator[Problem]:
    """Say why gateways will not call an address; only what can be seen without asking anybody."""
    origin = addresses.origin(url)
    if origin is None or addresses.refusal(url) is not None:
        yield _error(path, "is no address that may be called")
        return
    scheme, host, _ = origin
    address = addresses.literal(host)
    here = host == "localhost" or host.endswith(".localhost") or (address is not None and address.is_loopback)
    if here and not loopback:
        yield _error(path, "is on the machine of whoever calls it; a published app has an address that others reach")
    elif not here and scheme != "https":
        yield _error(path, "must be https")
    elif not here and address is not None and not address.is_global:
        yield _error(path, "is inside a network; gateways call public addresses only")


def _error(path: str, message: str) -> Problem:
    return Problem("error", "value", path, message)
