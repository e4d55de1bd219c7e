"""Signing in at a real authorisation server over TLS, with a small browser: the whole way, and every attack on it."""

# ruff: noqa: S106 - nobody's secrets

import asyncio
import json
import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace
from tests.accounts.provider import Provider, secrets_in
from tests.accounts.sign_in_ground import (
    CLIENT_ID,
    Ground,
    Trust,
    app_of,
    call_of,
    ground,
    oauth,
    redirect_of,
)
from tests.caching import CACHES
from tests.net.web import Site, reply

from switchboard.accounts.authorities import Authorities
from switchboard.accounts.kept import Account, Accounts
from switchboard.accounts.oauth_flow import Flows, Wanted
from switchboard.actions.ports import Call, Secret
from switchboard.catalog.errors import (
    AuthDenied,
    AuthInvalid,
    AuthRequired,
    CallTimeout,
    RefusedAddress,
    ServiceUnavailable,
    SwitchboardError,
    VaultUnavailable,
)
from switchboard.vaults.encrypted_file import EncryptedFile, key_file
from switchboard.vaults.vault import Change

ROOT = Path(__file__).resolve().parents[2]
NAME = "secret https://app.test com.example.notes"


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Trust:
    return Trust(tmp_path_factory.mktemp("trust"))


@pytest.fixture
def provider(trust: Trust) -> Generator[Provider]:
    with trust.provider() as server:
        server.know(CLIENT_ID)
        yield server


def notes(provider: Provider, **changes: Any) -> Call:
    return call_of(app_of(oauth(provider, **changes), base_url=f"{provider.url}/api"))


def token_of(secret: Secret | None) -> str:
    assert secret is not None
    return secret.headers[0][1].removeprefix("Bearer ")


def kept(world: Ground) -> dict[str, Any]:
    return json.loads(world.memory.texts[NAME])


def shown(error: SwitchboardError) -> str:
    return f"{error!r} {error.message} {error.details} {error.__cause__!r}"


def test_a_user_signs_in_once_and_is_not_asked_again(trust: Trust, provider: Provider) -> None:
    """The browser opens by itself, the token opens the app, and another gateway finds it in the vault."""

    async def story() -> None:
        async with ground(trust) as world:
            first = await world.sign_in().secret_for(notes(provider), world.client)
            again = await world.sign_in().secret_for(notes(provider), world.client)

            assert first == again
            assert provider.living(token_of(first))
            assert len(world.browser.opened) == 1
            assert world.browser.last is not None
            assert world.browser.last.status == 200
            assert "close this tab" in world.browser.last.body
            query = parse_qs(urlsplit(world.browser.opened[0]).query)
            assert query["aai_tools"] == ["me,search"]
            assert query["scope"] == ["read write"]
            assert kept(world)["scopes"] == ["read", "write"]

    asyncio.run(story())


def test_a_reader_of_chinese_gets_a_chinese_page(trust: Trust, provider: Provider) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            world.locale = "zh-TW"
            await world.sign_in().secret_for(notes(provider), world.client)

            assert world.browser.last is not None
            assert "关闭此标签页" in world.browser.last.body

    asyncio.run(story())


def test_strangers_at_the_port_change_nothing(trust: Trust, provider: Provider) -> None:
    """Another path, no state, a wrong state, a forged refusal: each gets a no, and the sign-in goes on."""

    async def story() -> None:
        async with ground(trust) as world:
            statuses: list[int] = []

            async def strangers(address: str) -> None:
                at = redirect_of(address)
                state = parse_qs(urlsplit(address).query)["state"][0]
                targets = (
                    at.replace("/callback", "/"),
                    at.replace("/callback", "/favicon.ico"),
                    at,
                    f"{at}?code=forged",
                    f"{at}?code=forged&state=wrong",
                    f"{at}?code=forged&state={state[:-1]}",
                    f"{at}?error=access_denied",
                    f"{at}?error=access_denied&state=wrong",
                    f"{at}?state={state}",
                    f"{at}?code=forged&state={state}&state=wrong",
                )
                statuses.extend([(await world.browser.visit(target)).status for target in targets])
                statuses.append((await world.browser.visit(at, {"code": "forged", "state": state})).status)

            world.browser.before = strangers
            secret = await world.sign_in().secret_for(notes(provider), world.client)

            assert provider.living(token_of(secret))
            assert statuses == [404, 404, 400, 400, 400, 400, 400, 400, 400, 400, 405]
            assert provider.count("/token", code="forged") == 0

    asyncio.run(story())


def test_a_second_callback_is_not_taken(trust: Trust, provider: Provider) -> None:
    """Neither while the first is exchanged nor afterwards; the code is exchanged once."""

    async def story() -> None:
        async with ground(trust) as world:
            seen: list[int] = []

            async def twice(address: str) -> bool:
                async def go() -> Any:
                    location = await world.browser.decide(address)
                    pages = await asyncio.gather(
                        *(world.browser.visit(location) for _ in range(3)), return_exceptions=True
                    )
                    seen.extend(page.status for page in pages if not isinstance(page, BaseException))
                    return pages

                world.browser.tasks.add(asyncio.create_task(go()))
                return True

            world.browser.open = twice
            secret = await world.sign_in().secret_for(notes(provider), world.client)

            assert provider.living(token_of(secret))
            assert seen.count(200) == 1
            assert set(seen) <= {200, 410}
            assert provider.count("/token") == 1

    asyncio.run(story())


def test_a_user_who_says_no_is_heard(trust: Trust, provider: Provider) -> None:
    """`error=` ends the sign-in as AUTH_DENIED, which is not remembered."""

    async def story() -> None:
        async with ground(trust) as world:
            sign_in = world.sign_in()
            world.browser.decision = "deny"
            with pytest.raises(AuthDenied) as error:
                await sign_in.secret_for(notes(provider), world.client)
            world.browser.decision = "allow"

            assert error.value.details["error"] == "access_denied"
            assert await sign_in.secret_for(notes(provider), world.client) is not None

    asyncio.run(story())


@pytest.mark.parametrize(
    ("iss", "promised", "ends_well"),
    [
        ("https://evil.test", True, False),
        ("https://evil.test", False, False),
        (None, True, True),  # not known without metadata, which nothing else needed here
        (None, False, True),
        ("", True, True),
    ],
)
def test_an_answer_of_another_server_ends_the_sign_in(
    trust: Trust, provider: Provider, iss: str | None, promised: bool, ends_well: bool
) -> None:
    """RFC 9207: with a wrong `iss` no code is sent anywhere."""

    async def story() -> None:
        async with ground(trust) as world:
            provider.knobs.iss, provider.knobs.promises_iss = iss, promised
            if ends_well:
                assert await world.sign_in().secret_for(notes(provider), world.client) is not None
            else:
                with pytest.raises(AuthDenied):
                    await world.sign_in().secret_for(notes(provider), world.client)
                assert provider.count("/token") == 0

    asyncio.run(story())


def test_a_missing_iss_is_noticed_where_it_was_promised(trust: Trust, provider: Provider) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            provider.knobs.iss = None
            with pytest.raises(AuthDenied):
                await world.sign_in().secret_for(notes(provider, client_id=None), world.client)

            assert provider.count("/token") == 0

    asyncio.run(story())


def test_a_code_opens_one_time(trust: Trust, provider: Provider) -> None:
    """A replayed code is refused by the server, which ends what it gave for it; what it says is not a crash here."""

    async def story() -> None:
        async with ground(trust) as world:
            authorities = Authorities(lambda: world.fetch, environment={})
            wanted = Wanted(app_of(oauth(provider)), oauth(provider), ())
            flow = Flows(Accounts(world.vault, world.time, CACHES), authorities, world.time).new(wanted, "en")
            location = await world.browser.decide(await flow.begin())
            account = await flow.finish_pasted(location)
            assert provider.living(account.access_token)
            with pytest.raises(AuthInvalid) as error:
                await flow.finish_pasted(location)
            await flow.close()

            assert error.value.details["error"] == "invalid_grant"
            assert not provider.living(account.access_token)
            assert not secrets_in(shown(error.value), provider)

    asyncio.run(story())


def test_a_server_cannot_make_us_send_it_the_code_of_another(trust: Trust, provider: Provider) -> None:
    """Mix-up: the honest server's answer arrives at the sign-in of another one, with the state of that."""

    async def story() -> None:
        with trust.provider() as evil:
            evil.know(CLIENT_ID)
            async with ground(trust) as world:
                honest = Ground(trust)
                honest.browser.works = False
                sign_in = honest.sign_in(patience_s=0.5)
                with pytest.raises(AuthRequired) as pending:
                    await sign_in.secret_for(notes(provider), honest.client)
                answer = await world.browser.decide(str(pending.value.details["auth_url"]))
                given = parse_qs(urlsplit(answer).query)

                async def mix_up(address: str) -> bool:
                    state = parse_qs(urlsplit(address).query)["state"][0]
                    target = f"{redirect_of(address)}?code={given['code'][0]}&state={state}&iss={given['iss'][0]}"
                    world.browser.tasks.add(asyncio.create_task(world.browser.visit(target)))
                    return True

                world.browser.open = mix_up
                with pytest.raises(AuthDenied):
                    await world.sign_in().secret_for(notes(evil), world.client)

                assert evil.count("/token") == 0
                await sign_in.close()
                await honest.fetch.close()

    asyncio.run(story())


def test_a_code_cannot_be_used_with_another_sign_in(trust: Trust, provider: Provider) -> None:
    """Injection: the state is right, the code is of another sign-in, and the verifier does not fit it."""

    async def story() -> None:
        async with ground(trust) as world:
            thief = Ground(trust)
            thief.browser.works = False
            theirs = thief.sign_in(patience_s=0.5)
            with pytest.raises(AuthRequired) as pending:
                await theirs.secret_for(notes(provider), thief.client)
            stolen = await world.browser.decide(str(pending.value.details["auth_url"]))
            code = parse_qs(urlsplit(stolen).query)["code"][0]

            async def inject(address: str) -> bool:
                state = parse_qs(urlsplit(address).query)["state"][0]
                target = f"{redirect_of(address)}?code={code}&state={state}&iss={provider.url}"
                world.browser.tasks.add(asyncio.create_task(world.browser.visit(target)))
                return True

            world.browser.open = inject
            with pytest.raises(AuthInvalid):
                await world.sign_in().secret_for(notes(provider), world.client)

            assert provider.tokens == []
            await theirs.close()
            await thief.fetch.close()

    asyncio.run(story())


def test_camel_case_answers_are_read(trust: Trust, provider: Provider) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            provider.knobs.camel_case = True
            secret = await world.sign_in().secret_for(notes(provider), world.client)

            assert provider.living(token_of(secret))
            assert kept(world)["refresh_token"]

    asyncio.run(story())


def test_a_call_does_not_wait_forever_and_the_next_one_picks_it_up(trust: Trust, provider: Provider) -> None:
    """AUTH_REQUIRED says where to sign in; the same question stays open meanwhile."""

    async def story() -> None:
        async with ground(trust) as world:
            sign_in = world.sign_in(patience_s=0.5)
            world.browser.works = False
            addresses: list[str] = []
            for _ in range(2):
                with pytest.raises(AuthRequired) as error:
                    await sign_in.secret_for(notes(provider), world.client)
                assert error.value.details["pending"] is True
                addresses.append(str(error.value.details["auth_url"]))
            await world.browser.sign_in(addresses[0])

            async with asyncio.timeout(20):
                while NAME not in world.memory.texts:  # noqa: ASYNC110 - the vault tells nobody
                    await asyncio.sleep(0.01)
            assert provider.living(token_of(await sign_in.secret_for(notes(provider), world.client)))
            assert addresses[0] == addresses[1]
            assert world.client.pages == [addresses[0]]

    asyncio.run(story())


def test_many_calls_open_one_page(trust: Trust, provider: Provider) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            sign_in = world.sign_in()
            calls = [sign_in.secret_for(notes(provider), world.client) for _ in range(20)]
            found = await asyncio.gather(*calls)

            assert len({token_of(secret) for secret in found}) == 1
            assert len(world.browser.opened) == 1

    asyncio.run(story())


def test_many_calls_make_one_refresh(trust: Trust, provider: Provider) -> None:
    """The token is over; twenty calls at once bring one new one, and the rotation is kept."""

    async def story() -> None:
        async with ground(trust) as world:
            sign_in = world.sign_in()
            old = token_of(await sign_in.secret_for(notes(provider), world.client))
            for turn in range(1, 4):
                world.time.later = turn * 3550.0  # within the last minute
                calls = [sign_in.secret_for(notes(provider), world.client) for _ in range(20)]
                found = {token_of(secret) for secret in await asyncio.gather(*calls)}
                assert len(found) == 1
                assert old not in found
                assert provider.count("/token", grant_type="refresh_token") == turn
                assert all(map(provider.living, found))

    asyncio.run(story())


def test_a_token_is_renewed_a_minute_before_it_ends_and_not_earlier(trust: Trust, provider: Provider) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            sign_in = world.sign_in()
            await sign_in.secret_for(notes(provider), world.client)
            for later, expected in ((3539.0, 0), (3541.0, 1)):
                world.time.later = later
                await sign_in.secret_for(notes(provider), world.client)
                assert provider.count("/token", grant_type="refresh_token") == expected

    asyncio.run(story())


def test_two_processes_refresh_without_losing_the_account(trust: Trust, provider: Provider, tmp_path: Path) -> None:
    """The server ends the account when a refresh token is used twice; both processes want a new one at once."""
    turns = 5
    key = tmp_path / "key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    vault = tmp_path / "vault"

    async def sign_in_first() -> None:
        async with ground(trust) as world:
            world.vault = EncryptedFile(vault, key_file(key))
            await world.sign_in().secret_for(notes(provider), world.client)

    asyncio.run(sign_in_first())
    settings = tmp_path / "settings.json"
    settings.write_text(
        json.dumps(
            {
                "certificate": str(trust.certificate),
                "vault": str(vault),
                "key": str(key),
                "provider": provider.url,
                "folder": str(tmp_path),
                "turns": str(turns),
            }
        )
    )
    command = [sys.executable, str(ROOT / "tests/accounts/refresher.py"), str(settings)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    processes = [
        subprocess.Popen([*command, name], env=environment, stderr=subprocess.PIPE, text=True)  # noqa: S603
        for name in ("one", "two")
    ]
    errors = [process.communicate(timeout=100)[1] for process in processes]

    assert [process.returncode for process in processes] == [0, 0], errors
    assert provider.count("/token", grant_type="refresh_token") == turns
    got = {
        name: [(tmp_path / f"got.{turn + 1}.{name}").read_text() for turn in range(turns)] for name in ("one", "two")
    }
    assert got["one"] == got["two"]
    assert provider.living(got["one"][-1].removeprefix("Bearer "))


def test_the_old_refresh_token_stays_where_no_new_one_comes(trust: Trust, provider: Provider) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            provider.knobs.rotates = False
            sign_in = world.sign_in()
            await sign_in.secret_for(notes(provider), world.client)
            before = kept(world)["refresh_token"]
            for turn in (1, 2):
                world.time.later = turn * 4000.0
                assert provider.living(token_of(await sign_in.secret_for(notes(provider), world.client)))

            assert kept(world)["refresh_token"] == before

    asyncio.run(story())


def test_a_server_in_trouble_costs_nothing(trust: Trust, provider: Provider) -> None:
    """503, nonsense or another address: nothing is forgotten, and the account renews when the server is back."""

    async def story() -> None:
        async with ground(trust) as world:
            sign_in = world.sign_in()
            await sign_in.secret_for(notes(provider), world.client)
            before = kept(world)["refresh_token"]
            world.time.later = 4000.0
            for trouble in (
                (503, "down"),
                (200, "<html>"),
                (302, "https://other.test/token"),
                (403, "<html>no</html>"),
            ):
                provider.knobs.trouble["/token"] = trouble
                with pytest.raises(ServiceUnavailable):
                    await sign_in.secret_for(notes(provider), world.client)
            provider.knobs.trouble.clear()

            assert kept(world)["refresh_token"] == before
            assert provider.living(token_of(await sign_in.secret_for(notes(provider), world.client)))
            assert len(world.browser.opened) == 1

    asyncio.run(story())


def test_trouble_in_the_last_minute_is_not_noticed(trust: Trust, provider: Provider) -> None:
    """Renewing was only early: the token still opens the app."""

    async def story() -> None:
        async with ground(trust) as world:
            sign_in = world.sign_in()
            secret = await sign_in.secret_for(notes(provider), world.client)
            world.time.later = 3550.0
            provider.knobs.trouble["/token"] = (503, "down")

            assert await sign_in.secret_for(notes(provider), world.client) == secret

    asyncio.run(story())


def test_an_account_that_was_ended_elsewhere_is_asked_for_again(trust: Trust, provider: Provider) -> None:
    """`invalid_grant`: the tokens are forgotten, and the user signs in in the same call."""

    async def story() -> None:
        async with ground(trust) as world:
            sign_in = world.sign_in()
            old = token_of(await sign_in.secret_for(notes(provider), world.client))
            provider.end_family(provider.tokens[0].family)
            world.time.later = 4000.0
            new = token_of(await sign_in.secret_for(notes(provider), world.client))

            assert new != old
            assert provider.living(new)
            assert len(world.browser.opened) == 2

    asyncio.run(story())


def test_a_refused_token_is_renewed_once(trust: Trust, provider: Provider) -> None:
    """A 401: many calls at once bring one refresh; who comes later with the old token gets the new one."""

    async def story() -> None:
        async with ground(trust) as world:
            sign_in, call = world.sign_in(), notes(provider)
            old = await sign_in.secret_for(call, world.client)
            assert old is not None
            found = await asyncio.gather(*(sign_in.renewed(call, old) for _ in range(10)))
            late = await sign_in.renewed(call, old)

            assert {token_of(secret) for secret in found} == {token_of(late)}
            assert token_of(late) != token_of(old)
            assert provider.count("/token", grant_type="refresh_token") == 1
            assert await sign_in.secret_for(call, world.client) == late

    asyncio.run(story())


def test_a_refused_token_that_cannot_be_renewed_asks_for_a_sign_in(trust: Trust, provider: Provider) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            sign_in, call = world.sign_in(), notes(provider)
            old = await sign_in.secret_for(call, world.client)
            assert old is not None
            provider.end_family(provider.tokens[0].family)
            with pytest.raises(AuthRequired) as error:
                await sign_in.renewed(call, old)

            assert not secrets_in(shown(error.value), provider)
            assert "access_token" not in kept(world)
            assert await sign_in.secret_for(call, world.client) != old

    asyncio.run(story())


def test_we_register_where_nobody_knows_us(trust: Trust, provider: Provider) -> None:
    """No client id in the descriptor or the settings: RFC 7591, once; refreshing uses the same name."""

    async def story() -> None:
        async with ground(trust) as world:
            sign_in, call = world.sign_in(), notes(provider, client_id=None)
            await sign_in.secret_for(call, world.client)
            world.time.later = 4000.0
            await world.sign_in().secret_for(call, world.client)

            names = {asked.form["client_id"] for asked in provider.to("/token")}
            assert len(names) == 1
            assert names.pop().startswith("registered-")
            assert provider.count("/register") == 1

    asyncio.run(story())


def test_a_registration_that_the_server_forgot_is_made_anew(trust: Trust, provider: Provider) -> None:
    """Told at a refresh (`invalid_client`), or only to the browser: the next sign-in registers again."""

    async def story() -> None:
        async with ground(trust) as world:
            sign_in, call = world.sign_in(patience_s=5), notes(provider, client_id=None)
            await sign_in.secret_for(call, world.client)
            provider.clients.clear()
            world.time.later = 4000.0
            await sign_in.secret_for(call, world.client)
            assert provider.count("/register") == 2

            provider.clients.clear()
            provider.end_family(provider.tokens[-1].family)
            account = kept(world)
            account.update(access_token="", refresh_token="", expires_at=1.0)
            world.memory.change(NAME, lambda _: json.dumps(account))
            world.browser.works = False
            fresh = world.sign_in(patience_s=0.5)
            with pytest.raises(AuthRequired) as error:
                await fresh.secret_for(call, world.client)
            page = await world.browser.visit(str(error.value.details["auth_url"]))
            assert page.status == 400  # what the user sees, and we do not
            await fresh.close()
            world.browser.works = True
            secret = await fresh.secret_for(call, world.client)

            assert provider.count("/register") == 3
            assert provider.living(token_of(secret))

    asyncio.run(story())


def test_the_settings_say_who_we_are(trust: Trust, provider: Provider) -> None:
    """`AAI_<APP ID>_CLIENT_ID` and `_CLIENT_SECRET`; the secret goes into the header and nowhere else."""

    async def story() -> None:
        async with ground(trust) as world:
            provider.know("of-the-user", "secret-of-the-user")
            world.environment = {
                "AAI_COM_EXAMPLE_NOTES_CLIENT_ID": "of-the-user",
                "AAI_COM_EXAMPLE_NOTES_CLIENT_SECRET": "secret-of-the-user",
            }
            secret = await world.sign_in().secret_for(notes(provider, client_id=None), world.client)

            assert provider.living(token_of(secret))
            assert provider.count("/register") == 0
            assert "secret-of-the-user" not in world.browser.opened[0]
            assert "client_secret" not in provider.to("/token")[0].form

    asyncio.run(story())


def test_a_gateway_with_other_settings_does_not_spoil_the_account(trust: Trust, provider: Provider) -> None:
    """Programs start gateways with other environments: without the client id, or with a wrong secret."""

    async def story() -> None:
        async with ground(trust) as world:
            provider.know("of-the-user", "secret-of-the-user")
            provider.knobs.has_metadata = False
            call = notes(provider, client_id=None)
            name = "AAI_COM_EXAMPLE_NOTES_CLIENT"
            right = {f"{name}_ID": "of-the-user", f"{name}_SECRET": "secret-of-the-user"}
            world.environment = right
            await world.sign_in().secret_for(call, world.client)
            before = kept(world)["refresh_token"]
            world.browser.works = False
            world.time.later = 4000.0
            for wrong in ({}, {f"{name}_ID": "of-the-user", f"{name}_SECRET": "wrong"}):
                world.environment = wrong
                other = world.sign_in(patience_s=0.5)
                with pytest.raises(AuthRequired):
                    await other.secret_for(call, world.client)
                await other.close()
            assert kept(world)["refresh_token"] == before

            world.environment = right
            assert provider.living(token_of(await world.sign_in().secret_for(call, world.client)))

    asyncio.run(story())


def test_without_any_name_we_are_the_gateway(trust: Trust, provider: Provider) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            provider.know("aai-gateway")
            provider.knobs.has_metadata = False
            secret = await world.sign_in().secret_for(notes(provider, client_id=None), world.client)

            assert provider.living(token_of(secret))

    asyncio.run(story())


def test_metadata_cannot_lead_a_registration_elsewhere(trust: Trust, provider: Provider) -> None:
    async def story() -> None:
        async with ground(trust) as world, Site({"/register": reply(201, b'{"client_id": "x"}')}) as other:
            provider.know("aai-gateway")
            provider.knobs.metadata = {"registration_endpoint": f"https://other.test:{other.port}/register"}
            await world.sign_in().secret_for(notes(provider, client_id=None), world.client)

            assert other.asked == []

    asyncio.run(story())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_token_endpoint_that_leads_elsewhere_takes_nothing_along(
    trust: Trust, provider: Provider, status: int
) -> None:
    """Neither the code nor the refresh token goes to another address."""

    async def story() -> None:
        async with ground(trust) as world, Site({"/token": reply(200, b"{}")}) as other:
            sign_in = world.sign_in()
            provider.knobs.trouble["/token"] = (status, f"http://127.0.0.1:{other.port}/token")
            with pytest.raises(ServiceUnavailable) as error:
                await sign_in.secret_for(notes(provider), world.client)
            assert not secrets_in(shown(error.value), provider)

            provider.knobs.trouble.clear()
            await sign_in.secret_for(notes(provider), world.client)
            provider.knobs.trouble["/token"] = (status, f"http://127.0.0.1:{other.port}/token")
            world.time.later = 4000.0
            with pytest.raises(ServiceUnavailable):
                await sign_in.secret_for(notes(provider), world.client)

            assert other.asked == []

    asyncio.run(story())


@pytest.mark.parametrize("which", ["authorization_endpoint", "token_endpoint", "refresh_endpoint"])
def test_endpoints_are_https(trust: Trust, provider: Provider, which: str) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            with pytest.raises(RefusedAddress):
                await world.sign_in().secret_for(notes(provider, **{which: "http://app.test/x"}), world.client)

            assert world.browser.opened == []
            assert provider.asked == []

    asyncio.run(story())


def test_a_server_that_repeats_what_it_was_sent_is_not_quoted(trust: Trust, provider: Provider) -> None:
    """An error description with the code and the verifier in it, and a fake token in the refusal."""

    async def story() -> None:
        async with ground(trust) as world:

            async def echo(address: str) -> bool:
                location = await world.browser.decide(address)
                code = parse_qs(urlsplit(location).query)["code"][0]
                words = json.dumps({"error": "invalid_grant", "error_description": f"no such code: {code}\u202e"})
                provider.knobs.trouble["/token"] = (400, words)
                world.browser.tasks.add(asyncio.create_task(world.browser.visit(location)))
                return True

            world.browser.open = echo
            with pytest.raises(AuthInvalid) as error:
                await world.sign_in().secret_for(notes(provider), world.client)

            assert "no such code: [secret]." in error.value.message
            assert not secrets_in(shown(error.value), provider)

    asyncio.run(story())


def test_a_token_endpoint_elsewhere_is_another_account(trust: Trust, provider: Provider) -> None:
    """The descriptor changes where secrets go: what is kept is not used, and the user is asked again."""

    async def story() -> None:
        async with ground(trust) as world:
            sign_in = world.sign_in(patience_s=0.5)
            await world.sign_in().secret_for(notes(provider), world.client)
            world.browser.works = False
            app = app_of(oauth(provider), base_url=f"{provider.url}/api")
            for changed in (
                app_of(oauth(provider), base_url="https://evil.test"),
                replace(app, auth=oauth(provider, refresh_endpoint="https://evil.test/refresh")),
            ):
                with pytest.raises(AuthRequired):
                    await sign_in.secret_for(call_of(changed), world.client)
            await sign_in.close()

            assert await sign_in.secret_for(notes(provider), world.client) is not None

    asyncio.run(story())


def test_no_sign_in_is_begun_that_cannot_be_kept(trust: Trust, provider: Provider) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            world.memory.locked = "Unlock the keychain."
            with pytest.raises(VaultUnavailable, match="Unlock"):
                await world.sign_in().secret_for(notes(provider), world.client)

            assert world.browser.opened == []

    asyncio.run(story())


def test_a_silent_server_is_given_up(trust: Trust, provider: Provider) -> None:
    async def story() -> None:
        async with ground(trust) as world:
            sign_in = world.sign_in()
            await sign_in.secret_for(notes(provider), world.client)
            before = kept(world)["refresh_token"]
        async with ground(trust) as later:
            later.vault = world.vault
            later.time.later = 4000.0
            url = notes(provider)
            provider.knobs.trouble["/token"] = (504, "")
            with pytest.raises((ServiceUnavailable, CallTimeout)):
                await later.sign_in().secret_for(url, later.client)

            assert json.loads(later.memory.texts[NAME])["refresh_token"] == before

    asyncio.run(story())


def test_a_claim_of_a_process_that_is_gone_runs_out(trust: Trust, provider: Provider) -> None:
    """Somebody began to renew and died: after some seconds the next one does it."""

    async def story() -> None:
        async with ground(trust) as world:
            sign_in = world.sign_in()
            await sign_in.secret_for(notes(provider), world.client)
            world.time.later = 4000.0
            account = kept(world)
            account.update(claimed_by="gone", claimed_until=world.time.now() + 15)
            world.memory.change(NAME, lambda _: json.dumps(account))
            waiting = asyncio.create_task(sign_in.secret_for(notes(provider), world.client))
            before = world.memory.changes
            async with asyncio.timeout(20):
                while world.memory.changes == before:  # noqa: ASYNC110 - the vault tells nobody
                    await asyncio.sleep(0.01)
            assert not waiting.done()
            assert provider.count("/token", grant_type="refresh_token") == 0
            world.time.later += 16

            assert provider.living(token_of(await asyncio.wait_for(waiting, 20)))

    asyncio.run(story())


def test_signing_out_while_it_is_renewed_stays_signed_out(trust: Trust, provider: Provider) -> None:
    """What the server gives too late is not kept."""

    async def story() -> None:
        async with ground(trust) as world:
            sign_in = world.sign_in(patience_s=0.5)
            await sign_in.secret_for(notes(provider), world.client)
            world.time.later = 4000.0
            world.browser.works = False
            changed = world.memory.change

            def sign_out_after_the_claim(name: str, change: Change) -> str | None:
                after = changed(name, change)
                if after is not None and json.loads(after).get("claimed_by"):
                    world.memory.texts.pop(name)
                return after

            world.memory.change = sign_out_after_the_claim
            with pytest.raises(AuthRequired):
                await sign_in.secret_for(notes(provider), world.client)

            assert NAME not in world.memory.texts
            await sign_in.close()

    asyncio.run(story())


def test_no_log_and_no_error_shows_a_secret(
    trust: Trust, provider: Provider, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """A whole life, with every log at its most talkative: sign-in, refresh, refusals, the end."""
    caplog.set_level(logging.DEBUG)
    logging.getLogger("authlib").setLevel(logging.CRITICAL)  # that is the server, in the same process
    errors: list[str] = []

    async def story() -> None:
        async with ground(trust) as world:
            sign_in, call = world.sign_in(patience_s=5), notes(provider, client_id=None)
            secret = await sign_in.secret_for(call, world.client)
            assert secret is not None
            world.time.later = 4000.0
            secret = await sign_in.secret_for(call, world.client)
            assert secret is not None
            provider.end_family(provider.tokens[0].family)
            world.browser.decision = "deny"
            for attempt in (sign_in.renewed(call, secret), sign_in.secret_for(call, world.client)):
                try:
                    await attempt
                except SwitchboardError as error:
                    errors.append(shown(error))
                    errors.extend(traceback.format_exception(error))
            errors.append(repr((sign_in, secret, world.client.told)))
            await sign_in.close()

    asyncio.run(story())

    output = capfd.readouterr()
    assert len(errors) > 2
    assert secrets_in("\n".join([caplog.text, output.out, output.err, *errors]), provider) == []


def test_an_account_shows_nothing_of_itself() -> None:
    account = Account(
        origin="o",
        app="a",
        kind="oauth2",
        since=0.0,
        goes_to=(),
        values={"key": "hidden"},
        access_token="hidden",
        refresh_token="hidden",
    )

    assert "hidden" not in f"{account!r} {account}"
