"""Wires and runs `aai-gateway`: what this machine offers to an agent.

The command starts with every chat, so each path below imports only what it needs.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from switchboard import __version__

if TYPE_CHECKING:
    from switchboard.catalog.findings import Finding
    from switchboard.sources.places import Surroundings

_EXAMPLES = """\
examples:
  aai-gateway --scan             show the apps on this machine, and what is wrong with broken descriptors
  aai-gateway --scan --json      the same for scripts
  aai-gateway --scan --dev       also the descriptors of the build in this folder

folders:
  AAI_HOME (default ~/.aai)      <app id>/aai.json for your own apps, web/<app id>/aai.json for registry copies
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        print(f"aai-gateway {__version__}")
        return 0
    import argparse

    parser = argparse.ArgumentParser(
        prog="aai-gateway",
        description="Tells an AI agent which apps it can use on this machine.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--scan", action="store_true", help="print the discovered apps and exit")
    parser.add_argument("--json", action="store_true", help="with --scan: print JSON, for scripts")
    parser.add_argument("--dev", action="store_true", help="also scan development build folders")
    parser.add_argument("--version", action="version", version=f"aai-gateway {__version__}")
    options = parser.parse_args(arguments)
    if not options.scan:
        parser.error("this version can only list apps: add --scan. The MCP server is not part of it yet.")
    findings = scan(dev=options.dev)
    from switchboard.terminal import findings_json, findings_table

    _print(findings_json(findings) if options.json else findings_table(findings))
    return 0


def _print(text: str) -> None:
    """Print in UTF-8, whatever the system thinks a pipe speaks: scripts read JSON, and names have every script."""
    sys.stdout.flush()
    sys.stdout.buffer.write(f"{text}\n".encode())
    sys.stdout.buffer.flush()


def scan(*, dev: bool = False, around: "Surroundings | None" = None) -> "tuple[Finding, ...]":
    """Find every descriptor on this machine, with conflicts settled."""
    from switchboard.catalog.findings import settle
    from switchboard.sources.desktop import Desktop
    from switchboard.sources.places import places

    here = around or surroundings()
    return settle(Desktop(places(here, dev=dev), here.system).scan())


def surroundings() -> "Surroundings":
    """Return what this process sees of its machine."""
    import os

    from switchboard.settings import system
    from switchboard.sources.places import Surroundings

    return Surroundings(system=system(), home=_home(), working=_working(), environment=os.environ)


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user without a home, as in some containers
        return Path("/")


def _working() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # the folder was deleted under us
        return Path("/")


def check(path: Path) -> "tuple[Finding, bytes | None]":
    """Read one descriptor as strictly as a publisher wants it; also return its canonical form where it has one.

    Raises:
        OSError: the file cannot be read.
    """
    from switchboard.catalog.findings import Finding
    from switchboard.descriptors import aai
    from switchboard.descriptors.check import schema_problems
    from switchboard.descriptors.document import LARGEST
    from switchboard.settings import system
    from switchboard.sources.desktop import read_regular, shown

    raw, _ = read_regular(path, LARGEST)
    reading = aai.read(raw, system=system(), folder=path.resolve().parent.name, origin=path.resolve().as_uri())
    problems = (*reading.problems, *schema_problems(reading))
    finding = Finding(source="file", location=shown(path), app=reading.app, problems=problems)
    return finding, aai.write(reading.app) if reading.app else None
