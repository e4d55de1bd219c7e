"""Wires what stands before the apps of a person: consent, secrets, sign-in.

Nothing of it is imported, opened or asked before the first call needs it: the gateway starts with every chat.
"""

import os
from typing import TYPE_CHECKING, Literal, NamedTuple, final

from switchboard.actions.ports import Call, Client, Clock, Consent, Secret, Secrets
from switchboard.catalog.caches import USUAL, Caches
from switchboard.catalog.locales import from_environment
from switchboard.catalog.model import App
from switchboard.settings import data_folder, system

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from switchboard.accounts.sign_in import SignIn
    from switchboard.catalog.model import Owner
    from switchboard.net.fetch import Fetch
    from switchboard.prompts.browser import PrivateDoor
    from switchboard.prompts.forms import Prompt
    from switchboard.prompts.questions import Questions
    from switchboard.security.claims import Claims
    from switchboard.security.consent import UsersConsent
    from switchboard.security.grants import Decision
    from switchboard.vaults.vault import Vault

    Confirm = Callable[[str], bool]
    Namesakes = Callable[[Owner], Iterable[str]]

Way = Literal["auto", "dialog", "browser", "elicit", "deny"]


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
        caches: Caches = USUAL,
    ) -> None:
        self._way: Way = way
        self._environment = environment
        self._report = report
        self._fetch = fetch
        self._clock = clock
        self._dev = dev
        self._namesakes = namesakes
        self._locale = from_environment(environment)
        self._caches = caches
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
            await made.claims.refuse_latecomer(call.owner)
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
        from switchboard.security.claims import Claims
        from switchboard.security.consent import UsersConsent
        from switchboard.security.records import Records
        from switchboard.security.trust import Contacts

        around = session(self._environment)
        door = PrivateDoor(system(), around)
        vault, prompt = vault_of(self._environment), _prompt(self._way, around, door)
        records = Records(vault, self._clock, self._report, self._caches)
        claims = Claims(records, self._namesakes)
        questions: Questions[Decision] = Questions(prompt)
        consent = UsersConsent(
            records,
            Contacts(self._fetch, self._clock, self._caches),
            None if self._way in ("elicit", "deny") else questions,
            self._clock,
            locale=self._locale,
            by_client=self._way == "elicit",
            namesakes=self._namesakes,
            dev=self._dev,
            caches=self._caches,
        )
        sign_in = SignIn(
            vault=vault,
            fetch=self._fetch,
            prompt=prompt,
            open_page=_unopened if self._way == "deny" else door.open,
            trusted=claims.require,
            clock=self._clock,
            locale=self._locale,
            environment=self._environment,
            dev=self._dev,
            caches=self._caches,
        )
        return _Made(consent, sign_in, questions, claims, door)


class _Made(NamedTuple):
    consent: "UsersConsent"
    sign_in: "SignIn"
    questions: "Questions[Decision]"
    claims: "Claims"
    door: "PrivateDoor"


async def _unopened(address: str) -> bool:
    del address
    return False


def vault_of(environment: "Mapping[str, str]") -> "Vault":
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
