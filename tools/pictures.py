"""The pictures of the README, made of what the programs really print and show: `make pictures`.

`terminal.svg` is a terminal with the commands below. `consent.png` is the page that a real gateway asks on, seen by a
real Chromium, and `consent.txt` the words on it. Tests run the same again and compare the terminal and the words, so a
picture that is out of date fails them.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from playwright.async_api import Page
from tests.gateways import Gateway
from tests.journeys.waiting import wait_until
from tests.prompts.chromium import chromium
from tests.servers import ControlPlane

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs/pictures"
COMMANDS = (
    "switchboard discover",
    "switchboard execute demo-statistician:skill:describe_numbers --input '{\"numbers\": [1, 2, 6]}'",
    "switchboard check examples/stdio_app",
)
CALLER = "Cursor"
APP = "com.example.stdio-notes"
_COLUMN, _LINE, _MARGIN = 7.2, 18, 20
_INK, _SOFT, _PROMPT, _GROUND, _EDGE = "#d6deeb", "#8d9bb3", "#7fd1a0", "#101822", "#2b3848"

_STYLE = (
    f"<style>text {{ font: 12px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: {_INK}; "
    f"white-space: pre }} .prompt {{ fill: {_PROMPT} }} .head {{ fill: {_SOFT} }}</style>"
)


class Step(NamedTuple):
    """One command, and what it printed."""

    command: str
    output: str


def transcript(folder: Path) -> list[Step]:
    """Run the commands beside a control plane with the sample agents."""
    plane = ControlPlane(folder, "--demo")
    try:
        wait_until(lambda: plane.client.get("/health").json()["agents"] == 2)  # noqa: PLR2004 - as many as there are
        return [Step(command, _printed(command, {"AGENTFIELD_SERVER": plane.url})) for command in COMMANDS]
    finally:
        plane.stop()


def _printed(command: str, environment: Mapping[str, str]) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(  # noqa: S603 - our own commands
        ["bash", "-c", command],  # noqa: S607 - wherever bash is
        cwd=ROOT,
        env={"PATH": path, "LANG": "C.UTF-8", "no_proxy": "127.0.0.1", **environment},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout.rstrip("\n")


def terminal(steps: Sequence[Step]) -> str:
    """Draw a terminal in which the commands were typed, as SVG."""
    lines: list[tuple[str, str]] = []
    for step in steps:
        lines += [("prompt", f"$ {step.command}"), *(("output", line) for line in step.output.split("\n")), ("", "")]
    lines.pop()
    width = round(max(len(text) for _, text in lines) * _COLUMN) + 2 * _MARGIN
    height = len(lines) * _LINE + 2 * _MARGIN
    drawn = [_line(kind, text, number) for number, (kind, text) in enumerate(lines) if text]
    size = f'width="{width}" height="{height}"'
    frame = f'width="{width - 1}" height="{height - 1}" rx="8" fill="{_GROUND}" stroke="{_EDGE}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size}>'
    return "\n".join((opening, _STYLE, f'<rect x="0.5" y="0.5" {frame}/>', *drawn, "</svg>\n"))


def _line(kind: str, text: str, number: int) -> str:
    """Draw one line; its length is fixed, so that columns stand under each other in any font."""
    start = len(text) - len(text.lstrip(" "))
    shown = text.strip(" ")
    kind = "head" if shown.isupper() else kind
    left, top = _MARGIN + start * _COLUMN, _MARGIN + number * _LINE + 13
    return (
        f'<text class="{kind}" x="{left:.1f}" y="{top}" textLength="{len(shown) * _COLUMN:.1f}" '
        f'lengthAdjust="spacingAndGlyphs" xml:space="preserve">{escape(shown)}</text>'
    )


@asynccontextmanager
async def question(home: Path, **settings: Any) -> AsyncGenerator[Page]:
    """Let an agent client call an operation nobody has allowed, and open the page that asks the user."""
    shutil.copytree(ROOT / "examples/stdio_app", home / ".aai" / APP)
    with Gateway(home, "--consent", "browser", environment=_key(home)) as gateway:
        gateway.ask("initialize", {**_GREETING, "clientInfo": {"name": CALLER, "version": "1"}})
        call = {"app": APP, "tool": "add_note", "args": {"text": "Buy milk"}}
        refused = gateway.ask("tools/call", {"name": "aai:exec", "arguments": call})
        async with chromium() as browser:
            page = await (await browser.new_context(**settings)).new_page()
            await page.goto(refused["structuredContent"]["consentUrl"])
            yield page


_GREETING: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}}


def _key(home: Path) -> dict[str, str]:
    """Return what makes the gateway keep decisions in a file of this home, so that the page says they are kept."""
    key = home / "key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    return {"SWITCHBOARD_VAULT": "file", "SWITCHBOARD_KEY_FILE": str(key)}


async def words(page: Page, home: Path) -> str:
    """Return what can be read on the page; the home of the user is `~`."""
    text = (await page.inner_text("body")).replace(str(home), "~")
    return "\n".join(line.strip() for line in text.splitlines() if line.strip()) + "\n"


async def _photograph(home: Path) -> None:
    async with question(home, viewport={"width": 720, "height": 900}, color_scheme="light") as page:
        (PICTURES / "consent.txt").write_text(await words(page, home), encoding="utf-8")
        await page.locator("main").screenshot(path=PICTURES / "consent.png")


def main() -> None:
    """Make all of them again."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        (PICTURES / "terminal.svg").write_text(terminal(transcript(Path(folder))), encoding="utf-8")
    home = Path("/tmp/you")  # noqa: S108 - it is in the picture, and says nothing about whose machine this is
    home.mkdir(mode=0o700)
    try:
        asyncio.run(_photograph(home))
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
