"""What `switchboard consent` and `switchboard auth` do, for a person at a terminal."""

import os
from asyncio import run
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from switchboard.catalog.errors import SwitchboardError
from switchboard.catalog.locales import from_environment
from switchboard.catalog.model import App, Caller
from switchboard.permissions import vault_of
from switchboard.settings import caching, system

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator
    from typing import Any

    from switchboard.accounts.logins import Logins, Terminal
    from switchboard.security.claims import Claims
    from switchboard.security.consent import Namesakes, UsersConsent
    from switchboard.security.grants import Record
    from switchboard.security.records import Records

    Confirm = Callable[[str], bool]

Refusal = SwitchboardError
"""What the functions here raise; the message is fit to be shown."""


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
            records.require_kept()
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
            await desk.claims.refuse_latecomer(app)
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
    claims: "Claims"


@asynccontextmanager
async def _desk(namesakes: "Namesakes" = lambda _: (), *, dev: bool = False) -> "AsyncGenerator[_Desk]":
    """Yield what a person at a terminal needs; nobody is asked in any other way."""
    from switchboard.accounts.logins import Logins
    from switchboard.catalog.caches import Caches
    from switchboard.net.fetch import Fetch
    from switchboard.prompts.browser import PrivateDoor
    from switchboard.prompts.session import session
    from switchboard.security.claims import Claims
    from switchboard.security.consent import UsersConsent
    from switchboard.security.records import Records
    from switchboard.security.trust import Contacts
    from switchboard.telemetry.clock import SystemClock

    caches = Caches.of(caching(os.environ) or "on")
    clock, fetch, vault = SystemClock(), Fetch(loopback=dev, caches=caches), vault_of(os.environ)
    records, locale = Records(vault, clock, caches=caches), from_environment(os.environ)
    claims, door = Claims(records, namesakes), PrivateDoor(system(), session(os.environ))
    contacts = Contacts(lambda: fetch, clock, caches)
    consent = UsersConsent(records, contacts, None, clock, locale=locale, namesakes=namesakes, caches=caches)
    logins = Logins(
        vault=vault,
        fetch=lambda: fetch,
        open_page=door.open,
        trusted=claims.require,
        clock=clock,
        locale=locale,
        environment=os.environ,
        dev=dev,
        caches=caches,
    )
    try:
        yield _Desk(consent, logins, claims)
    finally:
        door.close()
        await fetch.close()


def _records() -> "Records":
    from switchboard.security.records import Records
    from switchboard.telemetry.clock import SystemClock

    return Records(vault_of(os.environ), SystemClock())
