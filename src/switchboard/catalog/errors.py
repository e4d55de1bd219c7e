"""Every way Switchboard says no, as one tree.

    SwitchboardError
    ├── InvalidRequest        INVALID_REQUEST      the request itself is wrong
    │   ├── InvalidDescriptor                      an aai.json or a registration cannot be used
    │   │   └── NotJson                            what should be JSON is none at all
    │   ├── InvalidQuery                           a discovery parameter is wrong
    │   ├── InvalidTarget                          a target cannot be read as an address
    │   ├── AmbiguousName                          a name fits several things
    │   ├── RefusedAddress                         an address that must not be called
    │   ├── Conflict                               it does not go with what is there already
    │   └── RequestTooLarge                        it is longer than we take
    │       └── TooManyValues                      it has more parts than we take
    ├── UnknownApp            UNKNOWN_APP          there is no such app or agent
    ├── UnknownTool           UNKNOWN_TOOL         it has no such tool, reasoner or skill
    ├── InvalidParams         INVALID_PARAMS       the arguments do not fit the schema
    ├── ConsentRequired       CONSENT_REQUIRED     the user has not said yes
    ├── AuthRequired          AUTH_REQUIRED        the user has to sign in
    ├── AuthDenied            AUTH_DENIED          the user or the app said no to signing in
    ├── AuthExpired           AUTH_EXPIRED         the sign-in is over
    ├── AuthInvalid           AUTH_INVALID         the secret was refused
    ├── CallTimeout           TIMEOUT              no answer in time
    ├── NotFound              NOT_FOUND            the app knows no such thing
    ├── RateLimited           RATE_LIMITED         too many calls
    ├── ServiceUnavailable    SERVICE_UNAVAILABLE  it exists and does not answer
    │   ├── StillLoading                           it may exist: not everything has been looked at yet
    │   ├── Unreached                              nobody is there: nothing was sent
    │   │   └── UnknownHost                        its name cannot be looked up
    │   ├── Unconfirmed                            the store was told, and did not say whether it has done it
    │   ├── VaultUnavailable                       there is nowhere to keep secrets
    │   └── AnswerTooLarge                         it sends more than we take
    ├── InternalError         INTERNAL_ERROR       our own fault
    └── NotSupported          NOT_IMPLEMENTED      it is described, and cannot be run here

Each class has one `code` and named details. How an error looks on a wire is the business of the face that sends it.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal, get_args

Code = Literal[
    "INVALID_REQUEST",
    "UNKNOWN_APP",
    "UNKNOWN_TOOL",
    "INVALID_PARAMS",
    "CONSENT_REQUIRED",
    "AUTH_REQUIRED",
    "AUTH_DENIED",
    "AUTH_EXPIRED",
    "AUTH_INVALID",
    "TIMEOUT",
    "NOT_FOUND",
    "RATE_LIMITED",
    "SERVICE_UNAVAILABLE",
    "INTERNAL_ERROR",
    "NOT_IMPLEMENTED",
]
CODES: tuple[Code, ...] = get_args(Code)
EFFECT_UNKNOWN = "Whether the call had an effect is not known: look before you call again."
"""What to do after a call that was sent and not answered."""


class SwitchboardError(Exception):
    """Root of the tree; `message` says what happened and what to do next, `details` name the facts."""

    code: ClassVar[Code]

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class InvalidRequest(SwitchboardError):
    """The request itself is wrong; sending it again will not help."""

    code = "INVALID_REQUEST"


class InvalidDescriptor(InvalidRequest):
    """An aai.json or a registration cannot be used; `problems` holds one line each."""

    def __init__(self, message: str, *, problems: Sequence[str]) -> None:
        super().__init__(message, problems=list(problems))


class NotJson(InvalidDescriptor):
    """What should be JSON is none at all."""


class InvalidQuery(InvalidRequest):
    """A discovery parameter is wrong: which one, what was given, what is allowed."""

    def __init__(self, message: str, *, parameter: str, provided: str, allowed: Sequence[str]) -> None:
        super().__init__(message, parameter=parameter, provided=provided, allowed=list(allowed))


class InvalidTarget(InvalidRequest):
    """A target cannot be read as `owner:capability` in any spelling."""

    def __init__(self, target: str) -> None:
        super().__init__(
            f"{target!r} is not a target. Write agent:reasoner, agent:skill:name or app:tool.", target=target
        )


class AmbiguousName(InvalidRequest):
    """A short name fits several things; `candidates` are the exact names to choose from."""

    def __init__(self, name: str, candidates: Sequence[str]) -> None:
        super().__init__(
            f"{name!r} fits {len(candidates)} apps. Use one of: {', '.join(candidates)}.",
            name=name,
            candidates=list(candidates),
        )


class RefusedAddress(InvalidRequest):
    """An address must not be called: not https, not public, or in no form we know; `url` is what was asked for."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"{url} is not called: {why}. Correct the address.", url=url, why=why)


class Conflict(InvalidRequest):
    """A request is right in itself, and does not go with what is there already; the message says with what."""


class RequestTooLarge(InvalidRequest):
    """A request is longer than anything sensible."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The body is larger than {limit} bytes. Send less, or in several requests.", limit_bytes=limit
        )


class TooManyValues(RequestTooLarge):
    """A request has so many parts that reading it would hold everybody up."""

    def __init__(self, limit: int) -> None:
        InvalidRequest.__init__(
            self, f"The body has more than {limit} values. Send less, or in several requests.", limit_values=limit
        )


class UnknownApp(SwitchboardError):
    """No app and no agent has this id; `nearest` are the ones that look like it, `sources` what was not ready."""

    code = "UNKNOWN_APP"

    def __init__(
        self, app: str, nearest: Sequence[str] = (), *, because: str = "", sources: Sequence[object] = ()
    ) -> None:
        why = f": {because}" if because else ""
        hint = _did_you_mean(nearest, "Ask for the list of those that there are.")
        message = f"There is no app {app!r}{why}.{hint}"
        super().__init__(message, app=app, nearest=list(nearest), **_unless_empty(sources))


class UnknownTool(SwitchboardError):
    """The owner exists and has no such capability; `nearest` are the ones that look like it."""

    code = "UNKNOWN_TOOL"

    def __init__(self, app: str, tool: str, nearest: Sequence[str] = ()) -> None:
        hint = _did_you_mean(nearest, "Ask what it has: its guide and discovery list it.")
        super().__init__(f"{app!r} has no tool {tool!r}.{hint}", app=app, tool=tool, nearest=list(nearest))


class InvalidParams(SwitchboardError):
    """The arguments do not fit the schema; `violations` say where, `schema` is what they have to fit."""

    code = "INVALID_PARAMS"

    def __init__(self, message: str, *, violations: Sequence[str], schema: object) -> None:
        super().__init__(message, violations=list(violations), schema=schema)


class ConsentRequired(SwitchboardError):
    """The user has not allowed this caller to use this tool of this app."""

    code = "CONSENT_REQUIRED"


class AuthRequired(SwitchboardError):
    """The user has to sign in first."""

    code = "AUTH_REQUIRED"


class AuthDenied(SwitchboardError):
    """The user, the app or the operating system refused the sign-in."""

    code = "AUTH_DENIED"


class AuthExpired(SwitchboardError):
    """The sign-in is over and could not be renewed."""

    code = "AUTH_EXPIRED"


class AuthInvalid(SwitchboardError):
    """The stored secret was refused by the app."""

    code = "AUTH_INVALID"


class CallTimeout(SwitchboardError):
    """No answer within the limit; whether the call had an effect is not known."""

    code = "TIMEOUT"


class NotFound(SwitchboardError):
    """The app knows no such thing."""

    code = "NOT_FOUND"


class RateLimited(SwitchboardError):
    """Too many calls in too short a time."""

    code = "RATE_LIMITED"


class ServiceUnavailable(SwitchboardError):
    """The owner exists and does not answer."""

    code = "SERVICE_UNAVAILABLE"


class StillLoading(ServiceUnavailable):
    """The catalogue is not complete yet; the same request a moment later may find what it asks for."""

    def __init__(self, message: str, *, sources: Sequence[object] = ()) -> None:
        super().__init__(message, loading=True, **_unless_empty(sources))


class Unreached(ServiceUnavailable):
    """No connection could be made, so nothing was sent: whatever was wanted has not happened."""


class UnknownHost(Unreached):
    """The name of a host cannot be looked up: it does not exist, or there is no network."""


class Unconfirmed(ServiceUnavailable):
    """The store was told to do something, and did not say whether it has."""


class VaultUnavailable(ServiceUnavailable):
    """There is nowhere to keep secrets and decisions, or it does not open; the message says what to do."""


class AnswerTooLarge(ServiceUnavailable):
    """An answer is longer than we take."""


class InternalError(SwitchboardError):
    """Our own fault."""

    code = "INTERNAL_ERROR"


class NotSupported(SwitchboardError):
    """The capability is described in a way that cannot be run here."""

    code = "NOT_IMPLEMENTED"


def _unless_empty(sources: Sequence[object]) -> dict[str, object]:
    return {"sources": list(sources)} if sources else {}


def _did_you_mean(nearest: Sequence[str], otherwise: str) -> str:
    return f" Did you mean {' or '.join(nearest)}?" if nearest else f" {otherwise}"
