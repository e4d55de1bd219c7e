"""What opens an app: it goes where it belongs, over whatever a descriptor says, and nowhere else."""

import asyncio

import pytest
from tests.executors.grounds import tool_call
from tests.net.web import Site, redirect, reply

from switchboard.actions.ports import Secret
from switchboard.catalog.bindings import Http, Route
from switchboard.catalog.errors import ServiceUnavailable
from switchboard.executors.http import HttpExecutor
from switchboard.net.fetch import Fetch

TOKEN = Secret(headers=(("Authorization", "Bearer of-the-user"), ("X-Key", "of-the-user")))


def test_the_secret_wins_over_the_headers_of_the_descriptor() -> None:
    """In any letter case, from the app's defaults and from the tool's own; the others stay."""

    async def story() -> None:
        fetch = Fetch(loopback=True)
        async with Site({"/tool": reply(200, b"ok")}) as site:
            defaults = (
                ("authorization", "Bearer of-the-descriptor"),
                ("x-key", "of-the-descriptor"),
                ("X-Own", "kept"),
            )
            execution = Http(base_url=site.url("", "127.0.0.1"), default_headers=defaults)
            route = Route(path="/tool", method="GET", headers=(("X-KEY", "of-the-tool"),))
            await HttpExecutor(lambda: fetch).run(tool_call(execution, "tool", route=route), TOKEN)
            await fetch.close()

            sent = site.asked[-1].headers
            assert {name: sent[name] for name in ("authorization", "x-key", "x-own")} == {
                "authorization": "Bearer of-the-user",
                "x-key": "of-the-user",
                "x-own": "kept",
            }

    asyncio.run(story())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_call_with_a_secret_follows_no_redirect(status: int) -> None:
    """Neither to another server nor on the same one: only the first address is asked."""

    async def story() -> None:
        fetch = Fetch(loopback=True)
        async with Site({"/there": reply(200, b"taken")}) as other:
            pages = {"/away": redirect(other.url("/there", "127.0.0.1"), status), "/here": redirect("/there", status)}
            async with Site({**pages, "/there": reply(200, b"taken")}) as site:
                for path in pages:
                    call = tool_call(
                        Http(base_url=site.url("", "127.0.0.1")), "tool", route=Route(path=path, method="GET")
                    )
                    with pytest.raises(ServiceUnavailable):
                        await HttpExecutor(lambda: fetch).run(call, TOKEN)
                await fetch.close()

                assert [asked.path for asked in site.asked] == ["/away", "/here"]
                assert other.asked == []

    asyncio.run(story())
