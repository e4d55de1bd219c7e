"""The user's consent: for this caller, this app of this origin, this tool as it is, or all tools of the app.

Nothing runs without it, and no way to ask means no. A web app is confirmed with the first consent: where it is, and who
vouches for that; whatever of it changes later is asked about again. What the user did not decide is never remembered.
"""

from asyncio import Task, create_task, timeout, to_thread, wait
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import sha256
from shlex import quote
from typing import Any, cast, final
from weakref import ref

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from switchboard.actions.ports import Call, Client, Clock, Consent
from switchboard.catalog.bindings import Binding, Script
from switchboard.catalog.caches import USUAL, Cache, Caches
from switchboard.catalog.errors import ConsentRequired, NotSupported, UnknownTool
from switchboard.catalog.model import App, Caller, Capability, Owner
from switchboard.catalog.text import clean, nearest
from switchboard.prompts.forms import Form, Reply
from switchboard.prompts.questions import OPEN_S, PATIENCE_S, Questions, Unanswered
from switchboard.security.consent_forms import Matter, app_name, consent_form, in_text, origin_of
from switchboard.security.grants import Confirmed, Decision, Record, Verdict, decided, judge
from switchboard.security.records import Records
from switchboard.security.tools import Seen, seen
from switchboard.security.trust import Contacts, Differences, Vouched, confirmation, differences

_ONCE_S = 600.0
_ROUNDS = 3
_MOST_LOOKS = 10
_MOST_APPS = 64
_MANY_PASSING = 1000
_MOST_ASKING = 5
_TERMINAL = Caller("switchboard auth")
_NOTHING = Capability(kind="tool", id="-", binding=Binding(Script(language="jxa")))
"""What stands for the tool of an app that has none."""
_NAME, _ADDRESS = 80, 300
_CHOICES: dict[str, Decision] = {"deny": "deny", "once": "once", "tool": "tool", "all": "all"}
Namesakes = Callable[[Owner], Iterable[str]]
"""Tells where other apps of the same id are from, as far as the catalogue knows."""


class _Look(Struct, frozen=True):
    """An app, and what its tools are like; made once for as long as it is the same app."""

    app: Owner
    tools: Mapping[str, Seen]


class _Passing(Struct, frozen=True):
    """A call that was let pass for once, for as long as it can still be run."""

    call: "ref[Call]"
    key: tuple[str, ...]


@final
class UsersConsent(Consent):
    """Asks the user, once for each thing there is to decide, and keeps to what they said.

    Without `questions` the client is asked, if `by_client` says so, or nobody is.
    """

    def __init__(  # noqa: PLR0913 - collaborators, and how to ask
        self,
        records: Records,
        contacts: Contacts,
        questions: "Questions[Decision] | None",
        clock: Clock,
        *,
        locale: str = "en",
        by_client: bool = False,
        namesakes: Namesakes = lambda _: (),
        dev: bool = False,
        caches: Caches = USUAL,
    ) -> None:
        self._records = records
        self._contacts = contacts
        self._questions = questions
        self._clock = clock
        self._locale = locale
        self._by_client = by_client
        self._namesakes = namesakes
        self._dev = dev
        self._looks: Cache[tuple[str, str], _Look] = Cache(caches.most(_MOST_APPS))
        self._once: dict[tuple[str, ...], float] = {}
        self._asking: dict[tuple[str, ...], Task[None]] = {}
        self._passing: dict[str, _Passing] = {}
        """Calls that were let pass for once, and have not been run yet. None is forgotten for as long as it may be."""

    async def require(self, call: Call, client: Client) -> None:
        """Let the call pass if the user allows it, now or before."""
        for _ in range(_ROUNDS):
            matter = await self._current_matter(call)
            if matter is None:
                return
            if matter.verdict.standing == "denied":
                raise self._refusal(call, "denied")
            if self._is_once(call, matter):
                return
            await self._ask(matter, client)
        # What was decided does not hold any more: the app changes faster than that.
        raise self._refusal(call, "pending")

    def used(self, call: Call) -> None:
        """Use up what was allowed for once, if this call was."""
        passing = self._passing.pop(call.id, None)
        if passing is not None and self._once.pop(passing.key, 0.0) <= self._clock.passed():
            raise self._refusal(call, "closed")

    async def grant(self, owner: Owner, caller: Caller, tool: str | None, confirm: Callable[[Form], bool]) -> bool:
        """Allow a caller one tool, or all, for somebody who decides beforehand; return whether they did.

        `confirm` is shown what is being allowed.

        Raises:
            UnknownTool: the owner has no such tool.
            VaultUnavailable: it could not be kept.
        """
        capability = next((item for item in owner.capabilities if tool in (None, item.id)), None)
        if capability is None:
            raise UnknownTool(owner.id, tool or "", nearest(tool or "", (item.id for item in owner.capabilities)))
        call = Call(id="", caller=caller, owner=owner, capability=capability, arguments={})
        matter = await self._matter(call, asked=True)
        self._records.require_kept()
        if matter is None or not confirm(consent_form(replace(matter, whole=tool is None), self._locale)):
            return False
        await self._note(matter, "all" if tool is None else "tool")
        self._records.require_kept()
        return True

    async def introduce(self, app: App, confirm: Callable[[Form], bool]) -> bool:
        """Let somebody confirm where a web app is, who signs in before anything is called; return whether they did."""
        capability = app.capabilities[0] if app.capabilities else _NOTHING
        call = Call(id="", caller=_TERMINAL, owner=app, capability=capability, arguments={})
        origin, tools = origin_of(app), self._tools(app)
        record = await self._records.read(origin, app.id)
        vouched = await self._vouched(app, record)
        news = self._news(app, record, vouched, tools)
        if news is not None and not news.any:
            return True
        matter = Matter(
            call=call,
            seen=seen(capability),
            verdict=Verdict("unknown"),
            vouched=vouched,
            first=news is None,
            news=news or Differences(),
            others=await self._others(app),
            whole=True,
            signing_in=True,
        )
        if not confirm(consent_form(matter, self._locale)):
            return False
        await self._confirm(matter, tools)
        self._records.require_kept()
        return True

    async def _confirm(self, matter: Matter, tools: Mapping[str, Seen]) -> None:
        owner, now = matter.call.owner, self._clock.now()

        def after(record: Record) -> Record:
            later_than = record.later_than if record.is_accepted else matter.others
            confirmed = _confirmed(matter, record, tools, now)
            return replace(record, name=app_name(owner), confirmed=confirmed, later_than=later_than)

        await self._records.change(origin_of(owner), owner.id, after)

    async def _current_matter(self, call: Call) -> Matter | None:
        """Return what has to be asked now.

        What was read is current when this returns: a question that ends later is still open, and joined.
        """
        mark, matter = self._records.mark(), await self._matter(call)
        for _ in range(_MOST_LOOKS):
            now = self._records.mark()
            if matter is None or now == mark:
                break
            mark, matter = now, await self._matter(call)
        return matter

    async def _matter(self, call: Call, *, asked: bool = False) -> Matter | None:
        """Return what has to be asked, or that the user said no; None where nothing has, unless it is `asked` for."""
        owner = call.owner
        origin, tools = origin_of(owner), self._tools(owner)
        now = tools[call.capability.id]
        record = await self._records.read(origin, owner.id)
        verdict = judge(record, call.caller.name, call.capability.id, now)
        if verdict.standing == "denied" and not asked:
            return Matter(call=call, seen=now, verdict=verdict)
        vouched = await self._vouched(owner, record)
        news = self._news(owner, record, vouched, tools)
        if verdict.standing == "allowed" and news is not None and not news.any and not asked:
            return None
        return Matter(
            call=call,
            seen=now,
            verdict=verdict,
            vouched=vouched,
            first=news is None,
            news=news or Differences(),
            others=await self._others(owner),
            forgetful=self._records.unavailable is not None,
        )

    async def _others(self, owner: Owner) -> tuple[str, ...]:
        remembered = await to_thread(self._records.others, origin_of(owner), owner.id)
        return tuple(dict.fromkeys((*self._namesakes(owner), *remembered)))

    def _tools(self, owner: Owner) -> Mapping[str, Seen]:
        key = (origin_of(owner), owner.id)
        look = self._looks.get(key)
        if look is None or look.app is not owner:
            look = self._looks.keep(key, _Look(owner, {tool.id: seen(tool) for tool in owner.capabilities}))
        return look.tools

    async def _vouched(self, owner: Owner, record: Record) -> Mapping[str, Vouched]:
        if not isinstance(owner, App):
            return {}
        known = self._contacts.known(owner)
        if known is not None:
            return known
        return await self._contacts.look(owner, record.confirmed.issuers if record.confirmed is not None else ())

    def _news(
        self, owner: Owner, record: Record, vouched: Mapping[str, Vouched], tools: Mapping[str, Seen]
    ) -> Differences | None:
        """Return what is new about where a web app is; None at the first contact, nothing for other apps."""
        if not isinstance(owner, App) or not vouched:
            return Differences()
        if record.confirmed is None:
            return None
        return differences(record.confirmed, confirmation(owner, vouched, tools, 0.0))

    async def _ask(self, matter: Matter, client: Client) -> None:
        form = consent_form(matter, self._locale)
        try:
            if self._questions is not None:
                await self._asked(matter, form, client, self._questions)
            else:
                await self._asked_by_client(matter, form, client)
        except Unanswered as unanswered:
            raise self._refusal(matter.call, unanswered.why, unanswered.address) from None

    async def _asked(self, matter: Matter, form: Form, client: Client, questions: "Questions[Decision]") -> None:
        call = matter.call
        key = ("consent", call.caller.name, origin_of(call.owner), call.owner.id, call.capability.id, matter.seen.mark)

        async def then(reply: Reply) -> Decision:
            return await self._note(matter, _decision(reply.choice))

        await questions.answer(key, form, client, then, waiting=f"{form.title}: {form.question}")

    async def _asked_by_client(self, matter: Matter, form: Form, client: Client) -> None:
        """Let the client ask, if the user wants it so, while a call may wait; a later call takes a late answer.

        A client that declines has not asked, so nothing is noted.
        """
        if not self._by_client:
            raise Unanswered("nobody")
        key = (matter.call.caller.name, origin_of(matter.call.owner), matter.seen.mark, in_text(form))
        asking = self._asking.get(key)
        if asking is None:
            if len(self._asking) >= _MOST_ASKING:
                raise Unanswered("busy")
            asking = self._asking[key] = create_task(self._chosen(matter, form, client))
            asking.add_done_callback(partial(self._forget_asking, key))
        await wait([asking], timeout=client.patience(PATIENCE_S))
        if not asking.done():
            raise Unanswered("pending")
        await asking

    async def _chosen(self, matter: Matter, form: Form, client: Client) -> None:
        try:
            async with timeout(OPEN_S):
                chosen = await client.choose(in_text(form), {choice.id: choice.label for choice in form.choices})
        except NotSupported:
            raise Unanswered("nobody") from None
        except TimeoutError:
            raise Unanswered("closed") from None
        if chosen is None:
            raise Unanswered("closed")
        await self._note(matter, _decision(chosen))

    def _forget_asking(self, key: tuple[str, ...], asking: Task[None]) -> None:
        self._asking.pop(key, None)
        if not asking.cancelled():
            asking.exception()  # whoever waits gets it; nobody may be waiting

    async def _note(self, matter: Matter, decision: Decision) -> Decision:
        call, owner, now = matter.call, matter.call.owner, self._clock.now()
        tools = self._tools(owner)

        def after(record: Record) -> Record:
            noted = decided(record, call.caller.name, call.capability.id, decision, tools=tools, at=now)
            confirmed = noted.confirmed if decision == "deny" else _confirmed(matter, noted, tools, now)
            later_than = record.later_than if record.is_accepted else matter.others
            return replace(noted, name=app_name(owner), confirmed=confirmed, later_than=later_than)

        await self._records.change(origin_of(owner), owner.id, after)
        if decision == "once":
            self._once[self._once_key(call, matter)] = self._clock.passed() + _ONCE_S
        return decision

    def _is_once(self, call: Call, matter: Matter) -> bool:
        """Tell whether this very call was allowed for once; it is used up when the call is run.

        Not where the app is another one than the user saw then: it could sign them in elsewhere.
        """
        key = self._once_key(call, matter)
        if matter.first or matter.news.any or self._once.get(key, 0.0) <= self._clock.passed():
            return False
        if len(self._passing) >= _MANY_PASSING:
            self._passing = {name: one for name, one in self._passing.items() if one.call() is not None}
        self._passing[call.id] = _Passing(ref(call), key)
        return True

    def _refusal(self, call: Call, why: str, address: str | None = None) -> ConsentRequired:
        details: dict[str, object] = {
            "app_id": call.owner.id,
            "app_name": call.owner.names.primary if isinstance(call.owner, App) else call.owner.id,
            "tool": call.capability.id,
            "tool_description": call.capability.description,
            "tool_parameters": _properties(call),
            "caller": call.caller.name,
            "decision": why,
        }
        message = _messages(call, address, dev=self._dev)[why]
        return ConsentRequired(message, **details, **({} if address is None else {"consent_url": address}))

    def _once_key(self, call: Call, matter: Matter) -> tuple[str, ...]:
        given = sha256(msgspec.json.encode(dict(call.arguments), order="deterministic")).hexdigest()
        return (call.caller.name, origin_of(call.owner), call.owner.id, matter.seen.mark, given)


def _confirmed(matter: Matter, record: Record, tools: Mapping[str, Seen], at: float) -> Confirmed | None:
    owner = matter.call.owner
    if not isinstance(owner, App) or not matter.vouched:
        return record.confirmed
    return confirmation(owner, matter.vouched, tools, at)


def _decision(choice: str) -> Decision:
    """Return what was chosen; what cannot be chosen is a no."""
    return _CHOICES.get(choice, "deny")


def _messages(call: Call, address: str | None, *, dev: bool) -> dict[str, str]:
    """Return what a refusal says for each reason, with commands that mean this very app and can be pasted."""
    name, app = app_name(call.owner), quote(clean(call.address or call.owner.id, _ADDRESS))
    tool, caller = clean(call.capability.id, _NAME), clean(call.caller.name, _NAME)
    what, which = f"{caller} may use {tool} of {name}", f"--tool {quote(tool)} --caller {quote(caller)}"
    where = "" if address is None else f" The question is at {address}"
    known = quote(clean(origin_of(call.owner), _ADDRESS)) if call.address != call.owner.id else app
    return {
        "denied": f"The user has said no to this: {what}. Do not try again. The user can take that back with: "
        f"switchboard consent revoke {known} {which}",
        "pending": f"The user is being asked whether {what}, and has not answered yet. Tell the user, then make the "
        f"same call again; an answer given meanwhile counts.{where}",
        "closed": f"The user was asked whether {what}, and has not decided. Nothing was run. Ask the user before you "
        "try again.",
        "busy": "Several questions are open already. Ask the user to answer them, then make the same call again.",
        "nobody": f"The user has not said whether {what}, and cannot be asked here. The user can allow it in a "
        f"terminal: switchboard consent grant {app} {which}{' --dev' if dev else ''}{_through(call.owner)}",
    }


def _through(owner: Owner) -> str:
    """Return the options that say which control planes know an agent."""
    planes = owner.standing.planes if isinstance(owner, App) and owner.standing is not None else ()
    return "".join(f" --control-plane {quote(clean(plane, _ADDRESS))}" for plane in planes)


def _properties(call: Call) -> object:
    schema = msgspec.json.decode(call.capability.input_schema or b"{}")
    return cast("dict[str, Any]", schema).get("properties", {}) if isinstance(schema, dict) else {}
