"""What the README shows is what a person sees, and somebody who reads nothing else gets there."""

import asyncio
import subprocess
from pathlib import Path

import pytest
from tests.docs.documents import ROOT
from tests.docs.walk import Walk, need_tools
from tests.gateways import GATEWAY
from tests.sdk_go.golang import need_go
from tools import pictures

READMES = (ROOT / "README.md", ROOT / "README.zh-CN.md")


def test_everything_on_the_first_page_works_as_pasted(tmp_path: Path) -> None:
    """From `make run` to a capability executed over REST, from Python, from Go, and over MCP: apps and agents."""
    need_tools()
    need_go()
    (tmp_path / ".cursor").mkdir()  # they have the client that the page names
    with Walk(tmp_path) as reader:
        reader.follow(READMES[0])

        assert reader.answer == "com.example.shop is withdrawn.\n"


def test_the_terminal_in_the_picture_is_todays(tmp_path: Path) -> None:
    """`make pictures` draws it again."""
    drawn = (pictures.PICTURES / "terminal.svg").read_text(encoding="utf-8")

    assert pictures.terminal(pictures.transcript(tmp_path)) == drawn


def test_the_words_on_the_page_in_the_picture_are_todays(tmp_path: Path) -> None:
    """`make pictures` photographs it again."""

    async def read() -> str:
        async with pictures.question(tmp_path) as page:
            return await pictures.words(page, tmp_path)

    assert asyncio.run(read()) == (pictures.PICTURES / "consent.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(("document", "words"), [*zip(READMES, ("Not yet: agents", "尚未实现：控制平面"), strict=True)])
def test_what_is_missing_is_said_for_as_long_as_it_is(document: Path, words: str) -> None:
    """Agents of a control plane in the gateway: the README says that there are none until there are."""
    offered = subprocess.run([*GATEWAY, "--help"], capture_output=True, encoding="utf-8", check=True).stdout  # noqa: S603 - ours

    assert (words in document.read_text(encoding="utf-8")) == ("--control-plane" not in offered)
