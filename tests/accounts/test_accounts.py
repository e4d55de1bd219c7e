"""What is kept of a sign-in: whose it is, read from memory while nothing changed, never shown."""

# ruff: noqa: S106 - nobody's secrets

import asyncio
import json
from collections.abc import Callable
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.accounts.sign_in_ground import MemoryVault, Time
from tests.caching import CACHES

from switchboard.accounts.kept import Account, Accounts, name_of
from switchboard.catalog.errors import VaultUnavailable
from switchboard.vaults.vault import Change, Vault

KEY = ("https://app.test", "com.example.notes")
NAME = "secret https://app.test com.example.notes"


def account(**changes: object) -> Account:
    whole = {"origin": KEY[0], "app": KEY[1], "kind": "apiKey", "since": 1.0, "goes_to": ("https://app.test:443",)}
    return Account(**{**whole, "values": {"key": "hidden"}, **changes})  # pyright: ignore[reportArgumentType]


def test_an_account_is_kept_under_its_origin_and_app() -> None:
    async def story() -> None:
        vault = MemoryVault()
        await Accounts(vault, Time(), CACHES).change(KEY, lambda _: account())

        assert list(vault.texts) == [NAME] == [name_of(KEY)]
        document = json.loads(vault.texts[NAME])
        assert (document["origin"], document["app"]) == KEY
        assert await Accounts(vault, Time(), CACHES).read(KEY) == account()

    asyncio.run(story())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "not json",
        '{"origin": 5}',
        json.dumps({"origin": "https://evil.test", "app": KEY[1], "kind": "apiKey", "since": 1, "goes_to": []}),
        json.dumps({"origin": KEY[0], "app": "another", "kind": "apiKey", "since": 1, "goes_to": []}),
        json.dumps({"origin": KEY[0], "app": KEY[1], "kind": "unheard of", "since": 1, "goes_to": []}),
    ],
)
def test_what_is_damaged_or_somebody_elses_opens_nothing(text: str) -> None:
    """It is there, it is not used, and looking at it does not remove it."""

    async def story() -> None:
        vault = MemoryVault()
        vault.texts[NAME] = text
        accounts = Accounts(vault, Time(), CACHES)

        assert await accounts.read(KEY) is None
        await accounts.require_vault(KEY)
        assert vault.texts[NAME] == text

    asyncio.run(story())


@given(text=st.text(max_size=60))
def test_nothing_that_is_kept_breaks_the_reading(text: str) -> None:
    async def story() -> None:
        vault = MemoryVault()
        vault.texts[NAME] = text

        assert await Accounts(vault, Time(), CACHES).read(KEY) is None

    asyncio.run(story())


def test_the_vault_is_read_again_only_where_something_changed() -> None:
    """Also after a minute: people have other programs to change a keychain with."""

    async def story() -> None:
        vault, time = MemoryVault(), Time()
        accounts = Accounts(vault, time)
        await accounts.change(KEY, lambda _: account())
        for _ in range(10):
            await accounts.read(KEY)
        assert vault.reads == 1

        await Accounts(vault, time, CACHES).change(KEY, lambda _: account(since=2.0))
        assert await accounts.read(KEY) == account(since=2.0)
        assert vault.reads == 2

        time.later = 61.0
        await accounts.read(KEY)
        assert vault.reads == 3

    asyncio.run(story())


def test_a_change_at_the_very_moment_of_reading_does_no_harm() -> None:
    """Calls read what they know while another thread forgets it, because it changes it."""

    async def story() -> None:
        vault = Interrupted(lambda: asyncio.run(accounts.require_vault(KEY)))
        accounts = Accounts(vault, Time(), CACHES)
        await accounts.change(KEY, lambda _: account())
        await accounts.read(KEY)
        vault.armed = True

        assert await accounts.read(KEY) == account()

    asyncio.run(story())


class Interrupted(Vault):
    """A vault where something happens in another thread, once, when somebody asks for its version."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self.texts: dict[str, str] = {}
        self.armed = False
        self._happens = happens

    def read(self, name: str) -> str | None:
        """Return a text."""
        return self.texts.get(name)

    def change(self, name: str, change: Change) -> str | None:
        """Replace a text."""
        text = change(self.texts.get(name))
        self.texts |= {} if text is None else {name: text}
        return text

    def names(self) -> list[str]:
        """Return the names."""
        return sorted(self.texts)

    def version(self) -> object:
        """Let it happen, and say that nothing has changed."""
        if self.armed:
            self.armed = False
            thread = Thread(target=self._happens)
            thread.start()
            thread.join()
        return 1


def test_an_app_without_an_account_is_remembered_as_such() -> None:
    async def story() -> None:
        vault = MemoryVault()
        accounts = Accounts(vault, Time())

        assert [await accounts.read(KEY) for _ in range(5)] == [None] * 5
        assert vault.reads == 1

    asyncio.run(story())


def test_a_listing_shows_everything_but_secrets() -> None:
    async def story() -> None:
        vault = MemoryVault()
        accounts = Accounts(vault, Time(), CACHES)
        one = account(kind="oauth2", values={}, access_token="hidden", refresh_token="hidden", scopes=("read",))
        await accounts.change(KEY, lambda _: one)
        other = ("https://other.test", "com.example.other")
        await accounts.change(other, lambda _: account(origin=other[0], app=other[1], refused=True))
        empty = ("https://empty.test", "com.example.empty")
        await accounts.change(empty, lambda _: account(origin=empty[0], app=empty[1], values={}))
        vault.texts["consent https://app.test com.example.notes"] = "{}"
        vault.texts["secret nonsense"] = "nonsense"
        listed = await accounts.all()

        assert [(item.origin, item.app, item.kind, item.renews, item.refused, item.scopes) for item in listed] == [
            ("https://app.test", "com.example.notes", "oauth2", True, False, ("read",)),
            ("https://other.test", "com.example.other", "apiKey", False, True, ()),
        ]
        assert "hidden" not in repr(listed)

    asyncio.run(story())


def test_a_vault_that_does_not_open_says_what_to_do() -> None:
    async def story() -> None:
        vault = MemoryVault()
        vault.locked = "Unlock it."
        accounts = Accounts(vault, Time(), CACHES)
        for attempt in (accounts.read(KEY), accounts.all(), accounts.require_vault(KEY)):
            with pytest.raises(VaultUnavailable, match="Unlock it"):
                await attempt

    asyncio.run(story())


@pytest.mark.parametrize(
    ("lasts", "renewed_after"), [(3600.0, 3540.0), (120.0, 60.0), (60.0, 30.0), (2.0, 1.0), (None, None)]
)
def test_tokens_are_renewed_before_they_end(lasts: float | None, renewed_after: float | None) -> None:
    """A minute before, or at half of a life that is shorter than two."""
    after = account().with_tokens("a", "r", at=1000.0, lasts=lasts)

    assert after.renew_at == (None if renewed_after is None else 1000.0 + renewed_after)
    assert after.expires_at == (None if lasts is None else 1000.0 + lasts)


def test_forgetting_tokens_keeps_who_we_are() -> None:
    whole = account(kind="oauth2", values={}, scopes=("read",)).with_tokens("a", "r", at=1.0, lasts=5.0)

    bare = whole.without_tokens()

    assert not bare.opens
    assert (bare.access_token, bare.refresh_token, bare.expires_at, bare.renew_at) == ("", "", None, None)
    assert (bare.key, bare.scopes) == (KEY, ("read",))
