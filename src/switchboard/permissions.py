"""Wires what stands before the apps of a person: consent, secrets, sign-in. For the gateway and for the terminal.

Nothing of it is imported, opened or asked before the first call needs it: the gateway starts with every chat.
"""

import os
from asyncio import run
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple, final

from switchboard.actions.ports import Call, Client, Clock, Consent, Secret, Secrets
from switchboard.catalog.errors import AuthDenied, SwitchboardError
from switchboard.catalog.locales import from_environment
from switchboard.catalog.model import App, Caller
from switchboard.settings import data_folder, system

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
    from typing import Any

    from switchboard.accounts.logins import Logins, Terminal
    from switchboard.accounts.sign_in import SignIn
    from switchboard.catalog.model import Owner
    from switchboard.net.fetch import Fetch
    from switchboard.prompts.browser import PrivateDoor
    from switchboard.prompts.forms import Prompt
    from switchboard.prompts.questions import Questions
    from switchboard.security.consent import UsersConsent
    from switchboard.security.grants import Decision, Record
    from switchboard.security.records import Records
    from switchboard.vaults.vault import Vault

    Confirm = Callable[[str], bool]
    Namesakes = Callable[[Owner], Iterable[str]]

Way = Literal["auto", "dialog", "browser", "elicit", "deny"]
Refusal = SwitchboardError
"""What the functions for the terminal raise; the message is fit to be shown."""


@final
class Permissions(Consent, Secrets):
    """The user's word and the user's secrets, made ready when a call first needs them."""

    def __init__(  # noqa: PLR0913 - what the gateway knows about this run
        self,
        way: Way,
        environment: "Mapping[str, str]",
        *,
        fetch: "Callable[[], Fetch]",
        clock: Clock,
        dev: bool = False,
        namesakes: "Namesakes" = lambda _: (),
        report: "Callable[[str], None]" = lambda _: None,
    ) -> None:
        self._way: Way = way
        self._environment = environment
        self._report = report
        self._fetch = fetch
        self._clock = clock
        self._dev = dev
        self._namesakes = namesakes
        self._locale = from_environment(environment)
        self._made: _Made | None = None

    async def require(self, call: Call, client: Client) -> None:
        """Let the call pass if the user allows it."""
        await self._parts().consent.require(call, client)

    def used(self, call: Call) -> None:
        """Use up what was allowed for once, if this call was."""
        self._parts().consent.used(call)

    async def secret_for(self, call: Call, client: Client) -> Secret | None:
        """Return what opens the app of a call."""
        made = self._parts()
        if isinstance(call.owner, App) and call.owner.auth is not None:
            await made.trust.refuse_latecomer(call.owner)
        return await made.sign_in.secret_for(call, client)

    async def renewed(self, call: Call, refused: Secret) -> Secret | None:
        """Return something new in the place of what the app has just refused."""
        return await self._parts().sign_in.renewed(call, refused)

    async def close(self) -> None:
        """Take back every question."""
        if self._made is not None:
            await self._made.sign_in.close()
            await self._made.questions.close()
            self._made.door.close()

    def _parts(self) -> "_Made":
        if self._made is None:
            self._made = self._make()
        return self._made

    def _make(self) -> "_Made":
        from switchboard.accounts.sign_in import SignIn
        from switchboard.prompts.browser import PrivateDoor
        from switchboard.prompts.questions import Questions
        from switchboard.prompts.session import session
        from switchboard.security.consent import UsersConsent
        from switchboard.security.records import Records
        from switchboard.security.trust import Contacts

        around = session(self._environment)
        door = PrivateDoor(system(), around)
        vault, prompt = _vault(self._environment), _prompt(self._way, around, door)
        records = Records(vault, self._clock, self._report)
        trust = _Trust(records, self._namesakes)
        questions: Questions[Decision] = Questions(prompt)
        consent = UsersConsent(
            records,
            Contacts(self._fetch, self._clock),
            None if self._way in ("elicit", "deny") else questions,
            self._clock,
            locale=self._locale,
            by_client=self._way == "elicit",
            namesakes=self._namesakes,
            dev=self._dev,
        )
        sign_in = SignIn(
            vault=vault,
            fetch=self._fetch,
            prompt=prompt,
            open_page=_unopened if self._way == "deny" else door.open,
            trusted=trust.require,
            clock=self._clock,
            locale=self._locale,
            environment=self._environment,
            dev=self._dev,
        )
        return _Made(consent, sign_in, questions, trust, door)


class _Made(NamedTuple):
    consent: "UsersConsent"
    sign_in: "SignIn"
    questions: "Questions[Decision]"
    trust: "_Trust"
    door: "PrivateDoor"


class _Trust:
    """Says which apps get secrets: those the user has confirmed, and whose id is their own."""

    def __init__(self, records: "Records", namesakes: "Namesakes" = lambda _: ()) -> None:
        self._records = records
        self._namesakes = namesakes

    def require(self, app: App) -> None:
        """Refuse an app that the user has never confirmed.

        Raises:
            AuthDenied: it gets nothing.
        """
        if self._records.last(app.origin, app.id).confirmed is None:
            raise AuthDenied(f"Nobody has confirmed where {app.id} is, so nothing opens it.", app_id=app.id)

    async def refuse_latecomer(self, app: App) -> None:
        """Refuse an app whose id was another one's first, for as long as that one is known.

        Raises:
            AuthDenied: it gets nothing.
        """
        from asyncio import to_thread

        earlier = self._records.last(app.origin, app.id).later_than
        if not earlier:
            return
        known = {*self._namesakes(app), *await to_thread(self._records.others, app.origin, app.id)}
        still = sorted(known.intersection(earlier))
        if still:
            raise AuthDenied(
                f"Another app has the id {app.id} and had it first: {', '.join(still)}. This one, from {app.origin}, "
                f"gets no secrets. If the user means this one: switchboard consent revoke {app.id} --origin {still[0]}",
                app_id=app.id,
                origin=app.origin,
                first=still,
            )


async def _unopened(address: str) -> bool:
    del address
    return False


def _vault(environment: "Mapping[str, str]") -> "Vault":
    """Return where decisions and secrets are kept; the passphrase is not for processes that are started later."""
    from switchboard.vaults.choice import PASSPHRASE_VARIABLE, open_vault

    vault = open_vault(dict(environment), data_folder() / "vault")
    os.environ.pop(PASSPHRASE_VARIABLE, None)
    return vault


def _prompt(way: Way, environment: "Mapping[str, str]", door: "PrivateDoor") -> "Prompt":
    """Return how the person at this machine is asked, for secrets too where consent is the client's to ask for."""
    from switchboard.prompts.dialogs import Dialogs
    from switchboard.prompts.order import FirstPossible
    from switchboard.prompts.pages import Pages

    dialogs, pages = Dialogs(system(), environment), Pages(door.open, fetched=door.forget)
    ways: dict[Way, tuple[Prompt, ...]] = {"dialog": (dialogs,), "browser": (pages,), "deny": ()}
    return FirstPossible(ways.get(way, (dialogs, pages)))


def consents() -> "list[dict[str, Any]]":
    """Return everything that was decided, in the order of apps, callers and tools; `tool` is `*` for all of them.

    Raises:
        VaultUnavailable: nobody knows.
    """
    records = sorted(_records().all(), key=lambda record: (record.app, record.origin))
    return [row for record in records for caller in sorted(record.callers) for row in _rows(record, caller)]


def _rows(record: "Record", caller: str) -> "Iterator[dict[str, Any]]":
    about = {"app": record.app, "name": record.name, "origin": record.origin, "caller": caller}
    decided = record.callers[caller]
    if decided.everything is not None:
        tools = sorted(decided.everything.tools)
        yield {**about, "tool": "*", "decision": "allow", "at": _time(decided.everything.at), "tools": tools}
    for tool, grant in sorted(decided.tools.items()):
        yield {**about, "tool": tool, "decision": "allow" if grant.allowed else "deny", "at": _time(grant.at)}


def _time(at: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(int(at), UTC).isoformat().replace("+00:00", "Z")


def revoke(app: str, *, origin: str | None = None, caller: str | None = None, tool: str | None = None) -> int:
    """Take back what was decided about an app, and return how many records that changed.

    Raises:
        VaultUnavailable: nothing can be changed.
    """
    from switchboard.security.grants import revoked

    records, changed = _records(), 0
    caller = None if caller is None else Caller.called(caller).name
    for record in records.all():
        if app not in (record.app, record.origin) or origin not in (None, record.origin):
            continue
        after = revoked(record, caller, tool)
        if after != record:
            records.change_now(record.origin, record.app, lambda kept: revoked(kept, caller, tool))
            changed += 1
    return changed


def grant(  # noqa: PLR0913 - what the command says
    app: App, caller: str, tool: str | None, *, confirm: "Confirm", namesakes: "Namesakes", dev: bool = False
) -> bool:
    """Allow a caller one tool of an app, or all, once `confirm` has shown what that is; return whether it is so.

    Raises:
        VaultUnavailable: it cannot be kept.
        UnknownTool: the app has no such tool.
        SwitchboardError: a web app cannot be reached, or its certificate is not accepted.
    """
    return run(_grant(app, caller, tool, confirm, namesakes=namesakes, dev=dev))


async def _grant(  # noqa: PLR0913 - as above
    app: App, caller: str, tool: str | None, confirm: "Confirm", *, namesakes: "Namesakes", dev: bool
) -> bool:
    from switchboard.security.consent_forms import in_text

    async with _desk(namesakes, dev=dev) as desk:
        return await desk.consent.grant(app, Caller.called(caller), tool, lambda form: confirm(in_text(form)))


def accounts() -> "list[dict[str, Any]]":
    """Return what the user is signed in to, in the order of apps; never what with.

    Raises:
        VaultUnavailable: nobody knows.
    """
    return run(_accounts())


async def _accounts() -> "list[dict[str, Any]]":
    async with _desk() as desk:
        listed = await desk.logins.all()
    return [
        {
            "app": one.app,
            "origin": one.origin,
            "type": one.kind,
            "since": _time(one.since),
            "expires": None if one.expires_at is None else _time(one.expires_at),
            "renews": one.renews,
            "scopes": list(one.scopes),
            "refused": one.refused,
        }
        for one in sorted(listed, key=lambda one: (one.app, one.origin))
    ]


def login(  # noqa: PLR0913 - as above
    app: App,
    terminal: "Terminal",
    *,
    confirm: "Confirm",
    namesakes: "Namesakes",
    device: bool,
    browser: bool,
    dev: bool,
) -> bool:
    """Sign in to an app, once `confirm` has shown where it is; return whether that was confirmed.

    Raises:
        SwitchboardError: it did not work; the message says why.
    """
    from switchboard.security.consent_forms import in_text

    async def signed_in() -> bool:
        async with _desk(namesakes, dev=dev) as desk:
            if not await desk.consent.introduce(app, lambda form: confirm(in_text(form))):
                return False
            await desk.trust.refuse_latecomer(app)
            await desk.logins.login(app, terminal, device=device, browser=browser)
        return True

    return run(signed_in())


def logout(name: str, *, find: "Callable[[str], App]", origin: str | None = None, dev: bool = False) -> int:
    """Sign out of an app, by its id or where it is from; return of how many accounts.

    `find` looks the app up: who has it can also tell its server.

    Raises:
        VaultUnavailable: nothing can be forgotten.
    """
    return run(_logout(name, find, origin, dev=dev))


async def _logout(name: str, find: "Callable[[str], App]", origin: str | None, *, dev: bool) -> int:
    from asyncio import to_thread

    async with _desk(dev=dev) as desk:
        listed = await desk.logins.all()
        meant = [one for one in listed if name in (one.app, one.origin) and origin in (None, one.origin)]
        for one in meant:
            try:
                app = await to_thread(find, one.origin if one.origin.startswith("http") else one.app)
            except SwitchboardError:  # it is gone: then there is nobody to tell
                app = None
            await desk.logins.logout(one.origin, one.app, app)
    return len(meant)


class _Desk(NamedTuple):
    consent: "UsersConsent"
    logins: "Logins"
    trust: _Trust


@asynccontextmanager
async def _desk(namesakes: "Namesakes" = lambda _: (), *, dev: bool = False) -> "AsyncGenerator[_Desk]":
    """Yield what a person at a terminal needs; nobody is asked in any other way."""
    from switchboard.accounts.logins import Logins
    from switchboard.net.fetch import Fetch
    from switchboard.prompts.browser import PrivateDoor
    from switchboard.prompts.session import session
    from switchboard.security.consent import UsersConsent
    from switchboard.security.records import Records
    from switchboard.security.trust import Contacts
    from switchboard.telemetry.clock import SystemClock

    clock, fetch, vault = SystemClock(), Fetch(loopback=dev), _vault(os.environ)
    records, locale = Records(vault, clock), from_environment(os.environ)
    trust, door = _Trust(records, namesakes), PrivateDoor(system(), session(os.environ))
    contacts = Contacts(lambda: fetch, clock)
    consent = UsersConsent(records, contacts, None, clock, locale=locale, namesakes=namesakes)
    logins = Logins(
        vault=vault,
        fetch=lambda: fetch,
        open_page=door.open,
        trusted=trust.require,
        clock=clock,
        locale=locale,
        environment=os.environ,
        dev=dev,
    )
    try:
        yield _Desk(consent, logins, trust)
    finally:
        door.close()
        await fetch.close()


def _records() -> "Records":
    from switchboard.security.records import Records
    from switchboard.telemetry.clock import SystemClock

    return Records(_vault(os.environ), SystemClock())
