"""Every code, provoked through a real gateway: each refusal says what happened, why, and what to do next."""

import json
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from flask import Response
from tests.accounts.sign_in_ground import Trust
from tests.errors.rows import Row, missing, name_of
from tests.gateways import ALLOWED, Gateway, Message, Page, Site, install, web_app
from tests.journeys.test_sign_in import KEY, Shop, around, call, decided, sign_in
from tests.leaks import WATCH, secret
from tests.users import pressed

from switchboard.catalog import errors
from switchboard.mcp.messages import INTERNAL_ERROR

BROKEN = (sys.executable, str(Path(__file__).with_name("broken_gateway.py")))
NOWHERE = "com.example.nowhere"


class Ground:
    """A home with apps in it, a site that they call, and gateways as they are needed."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.site = Site(
            {
                "/forbidden": Page(403, b"not for you"),
                "/missing": Page(404, b"no such page"),
                "/busy": Page(429, b"slow down"),
                "/down": Page(503, b"maintenance"),
                "/silent": Page(silent=True),
                "/large": Page(body=b"x" * (4 * 1024 * 1024 + 1)),
                "/locked": Page(401, b"who are you"),
                "/api/v1/apps": Page(silent=True),
                "/v1/apps": Page(silent=True),
            }
        )
        install(home, "com.example.mail")
        install(home, "com.example.post")  # the same name
        apple = {"type": "apple-events", "bundleId": "com.example.mac", "eventClass": "AAI_", "eventId": "exec"}
        install(home, "com.example.mac", platform="macos", execution=apple)
        for app, base in (("com.example.web", self.site.url), (NOWHERE, "https://nowhere.invalid")):
            folder = home / ".aai" / "web" / app
            folder.mkdir(parents=True)
            paths = ("forbidden", "missing", "busy", "down", "silent", "large", "locked")
            (folder / "aai.json").write_text(json.dumps(web_app(app, base, tools=[*map(tool, paths)])))
        self.allowed = Gateway(home, command=ALLOWED)
        self.allowed.initialize()

    def close(self) -> None:
        """End everything."""
        self.allowed.close()
        self.site.close()


def tool(name: str) -> Message:
    """Return a tool that asks for one page, and does not wait long."""
    return {
        "name": name,
        "description": name,
        "parameters": {"type": "object", "properties": {}},
        "execution": {"path": f"/{name}", "method": "POST", "timeout": 500 if name == "silent" else 20_000},
    }


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Generator[Ground]:
    built = Ground(tmp_path_factory.mktemp("home"))
    yield built
    built.close()


Provoke = Callable[[Ground], Message]


def calling(name: str, **arguments: Any) -> Provoke:
    """Call a tool of a gateway whose user says yes."""
    return lambda ground: ground.allowed.call(name, arguments)["structuredContent"]


def executing(app: str, operation: str, **args: Any) -> Provoke:
    return calling("aai:exec", app=app, tool=operation, args=args)


def broken_descriptor(ground: Ground) -> Message:
    """Ask for a site whose descriptor has no tools."""
    with Site() as site:
        document = web_app("com.example.half", site.url)
        del document["execution"]
        site.publish(document)
        return ground.allowed.call("web:discover", {"url": site.url})["structuredContent"]


def never_asked(ground: Ground) -> Message:
    """Call something that nobody has allowed, where nobody can be asked."""
    with Gateway(ground.home, "--consent", "deny") as gateway:
        gateway.initialize("Claude")
        arguments = {"app": "com.example.mail", "tool": "send_email", "args": {"to": "ada"}}
        return gateway.call("aai:exec", arguments)["structuredContent"]


def still_loading(ground: Ground) -> Message:
    """Ask for an app while a registry has not answered yet."""
    with Gateway(ground.home, "--registry", ground.site.url) as gateway:
        gateway.initialize()
        return gateway.call("aai:exec", {"app": "com.example.later", "tool": "go"})["structuredContent"]


def failing_inside(ground: Ground) -> Message:
    """Call a gateway one of whose parts is broken; that is a fault, and no result."""
    with Gateway(ground.home, command=BROKEN) as gateway:
        gateway.initialize()
        given = {"app": "com.example.mail", "tool": "send_email", "args": {"to": "ada"}}
        fault = gateway.fails("tools/call", {"name": "aai:exec", "arguments": given})
    assert fault["code"] == INTERNAL_ERROR
    return {"code": errors.InternalError.code, "message": fault["message"]}


ROWS: list[Row[Ground]] = [
    Row(errors.InvalidRequest, calling("aai:exec", tool="x"), "aai:exec needs 'app'", "a text", "Give it"),
    Row(
        errors.InvalidRequest,
        calling("aai:exec", app="com.example.mail", tool="send_email", args="{half"),
        "args is a text that is not JSON",
        "object keys must be strings",
        "Send an object",
    ),
    Row(
        errors.InvalidDescriptor,
        broken_descriptor,
        "cannot be used",
        "$.execution",
        "Tell the developer of the site",
    ),
    Row(
        errors.AmbiguousName,
        executing("Mail", "send_email", to="ada"),
        "'Mail' fits",
        "3 apps",
        "Use one of: com.example.mac, com.example.mail, com.example.post",
    ),
    Row(
        errors.RefusedAddress,
        calling("web:discover", url="http://192.0.2.1/"),
        "http://192.0.2.1/.well-known/aai.json is not called",
        "anything else needs https",
        "Correct the address",
    ),
    Row(
        errors.UnknownApp,
        executing("com.example.mial", "send_email"),
        "There is no app 'com.example.mial'",
        "",
        "Did you mean com.example.mail",
    ),
    Row(
        errors.UnknownApp,
        executing("zzz", "send_email"),
        "There is no app 'zzz'",
        "",
        "Ask for the list",
    ),
    Row(
        errors.UnknownTool,
        executing("com.example.mail", "send_mail"),
        "'com.example.mail' has no tool 'send_mail'",
        "",
        "Did you mean send_email?",
    ),
    Row(
        errors.InvalidParams,
        executing("com.example.mail", "send_email", body="hello"),
        "The arguments do not fit",
        '"to" is a required property',
        "Correct them to fit the schema",
    ),
    Row(
        errors.ConsentRequired,
        never_asked,
        "The user has not said whether Claude may use send_email of Mail",
        "cannot be asked here",
        "switchboard consent grant com.example.mail --tool send_email --caller Claude",
    ),
    Row(
        errors.AuthRequired,
        executing("com.example.web", "locked"),
        "com.example.web answers 401",
        "a sign-in that its descriptor does not describe",
        "tell its developer",
    ),
    Row(
        errors.AuthDenied,
        executing("com.example.web", "forbidden"),
        "com.example.web answers 403: not for you",
        "The user's account may not do this",
        "tell the user",
    ),
    Row(
        errors.CallTimeout,
        executing("com.example.web", "silent"),
        "gave no answer within 0.5 seconds",
        "",
        "look before you call again",
    ),
    Row(
        errors.NotFound,
        executing("com.example.web", "missing"),
        "com.example.web answers 404",
        "no such page",
        "Check the ids in the arguments",
    ),
    Row(
        errors.RateLimited,
        executing("com.example.web", "busy"),
        "com.example.web answers 429",
        "slow down",
        "Call again later, and less often",
    ),
    Row(
        errors.ServiceUnavailable,
        executing("com.example.web", "down"),
        "com.example.web answers 503",
        "maintenance",
        "Try again later",
    ),
    Row(
        errors.ServiceUnavailable,
        executing("com.example.mail", "send_email", to="ada"),
        "The program 'mail-aai' was not found",
        "",
        "Install it, or correct the command in the descriptor",
    ),
    Row(
        errors.StillLoading,
        still_loading,
        "'com.example.later' is not known yet",
        "the apps are still being looked at",
        "Try again in a moment",
    ),
    # Whether a name exists is the network's to say; without one it cannot be looked up, with the same advice.
    Row(errors.UnknownHost, executing(NOWHERE, "down"), "nowhere.invalid", "", "the network"),
    Row(
        errors.AnswerTooLarge,
        executing("com.example.web", "large"),
        "sends more than 4194304 bytes",
        "",
        "Ask it for less",
    ),
    Row(
        errors.InternalError,
        failing_inside,
        "It failed inside",
        "a fault of this server",
        "its log says why, and on your own machine `switchboard doctor` says where that is",
    ),
    Row(
        errors.NotSupported,
        executing("com.example.mac", "send_email", to="ada"),
        "com.example.mac can only be called on macOS",
        "",
        "Use another app for this",
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_a_refusal_says_what_happened_why_and_what_to_do(ground: Ground, row: Row[Ground]) -> None:
    """In one message, with the code of its class."""
    said = row.provoke(ground)

    assert said["code"] == row.kind.code, said
    assert missing(said["message"], row.happened, row.why, row.do) == [], said["message"]


class Strict(Shop):
    """A shop that accepts nothing, whatever it is opened with."""

    def _keyed(self) -> Response:
        return Response("not with that", 401)


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Trust:
    return Trust(tmp_path_factory.mktemp("trust"))


def test_what_a_sign_in_can_end_with_says_so_too(trust: Trust, tmp_path: Path) -> None:
    """AUTH_REQUIRED before it, AUTH_INVALID for a key that opens nothing; each with what to do."""
    with trust.provider() as provider:
        place = Strict(provider, KEY)
        with Gateway(tmp_path, "--dev", "--consent", "browser", environment=around(trust, tmp_path)) as gateway:
            gateway.initialize("Claude")
            decided(call(gateway, place, "keyed"))
            required = call(gateway, place, "keyed")["structuredContent"]
            pressed(required["authUrl"], "ok", key=secret("key"))
            invalid = call(gateway, place, "keyed")["structuredContent"]

    assert (required["code"], invalid["code"]) == ("AUTH_REQUIRED", "AUTH_INVALID")
    assert missing(required["message"], "The user has to sign in to Shop at http", "Tell them, and call again") == []
    assert (
        missing(invalid["message"], "Shop does not accept what the user signed in with", "Call again, and they are")
        == []
    )


def test_a_sign_in_that_was_renewed_and_still_opens_nothing_says_so(trust: Trust, tmp_path: Path) -> None:
    """AUTH_EXPIRED, with the command that begins anew."""
    with trust.provider() as provider:
        place = Strict(provider)
        with Gateway(tmp_path, "--dev", "--consent", "browser", environment=around(trust, tmp_path)) as gateway:
            gateway.initialize("Claude")
            decided(call(gateway, place, "keyed"))
            sign_in(trust, call(gateway, place, "keyed")["structuredContent"]["authUrl"])
            expired = call(gateway, place, "keyed")["structuredContent"]
            WATCH.secrets.update(text.encode() for text in provider.secrets())

    assert expired["code"] == "AUTH_EXPIRED"
    do = f"Ask the user to sign in anew: switchboard auth login {provider.url}"
    assert missing(expired["message"], "com.example.shop answers 401", "not with that", do) == []


SIGN_INS = (errors.AuthRequired, errors.AuthInvalid, errors.AuthExpired)
"""What the two tests above provoke."""
