"""Writes docs/reference/commands.md from the parsers of both commands: `python -m tools.command_reference`.

What the parsers do not know (shapes of JSON, variables, completion) stands in command_reference.txt beside this.
"""

import sys
from argparse import Action
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer.main

from switchboard.cli import app
from switchboard.gateway_arguments import EXAMPLES, parser
from switchboard.manners import EXIT_CODES

TEXTS = Path(__file__).with_suffix(".txt")
DOCUMENT = Path(__file__).resolve().parents[1] / "docs/reference/commands.md"
_HIDDEN = ("help", "install_completion", "show_completion")
_INTRO = """# Commands

Written by `python -m tools.command_reference` from the commands themselves; a test fails when it is out of date.

Results go to standard output; progress, questions to scripts and what went wrong go to standard error, the last as one
line that begins with the name of the command. Colours and progress are for terminals only; `NO_COLOR=1` turns colours
off. `--json` is for scripts.
"""


def reference() -> str:
    """Return the whole document."""
    root: Any = typer.main.get_command(app)
    texts = TEXTS.read_text(encoding="utf-8")
    parts = [_INTRO, *_commands(root, "switchboard"), _gateway(), _exit_codes(), texts]
    return "\n".join(parts)


def _commands(command: Any, path: str) -> Iterator[str]:
    yield _section(command, path)
    for name, child in getattr(command, "commands", {}).items():
        yield from _commands(child, f"{path} {name}")


def _section(command: Any, path: str) -> str:
    shown = [parameter for parameter in command.params if parameter.name not in _HIDDEN]
    arguments = " ".join(f"{_name(one)}" for one in shown if one.param_type_name == "argument")
    usage = " ".join(filter(None, [path, "COMMAND" if hasattr(command, "commands") else arguments, "[OPTIONS]"]))
    lines = [f"## {path}", "", *_paragraphs(command.help or ""), f"    {usage}", ""]
    if shown:
        rows = [f"| `{_name(one)}` | {_about(one)} |" for one in shown]
        lines += ["| argument or option | what it does |", "|---|---|", *rows, ""]
    lines += _examples((command.epilog or "").removeprefix("Examples:").split("\n\n"))
    return "\n".join(lines)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        yield " ".join(paragraph.split())
        yield ""


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name).upper()
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} {(parameter.metavar or parameter.name).upper()}"


def _about(parameter: Any) -> str:
    told = " ".join(str(getattr(parameter, "help", "") or "").split()).replace("|", "\\|")
    if parameter.envvar:
        told += f" From `{parameter.envvar}` where it is not given."
    return told or "As the parameter of the endpoint."


def _examples(commands: Sequence[str]) -> list[str]:
    shown = [f"    {command.strip()}" for command in commands if command.strip()]
    return ["Examples:", "", *shown, ""] if shown else []


def _gateway() -> str:
    made = parser()
    options = [f"| `{_flag(action)}` | {_first_upper(action.help or '')}. |" for action in made._actions]  # noqa: SLF001
    told = [f"    {line.strip()}" for line in EXAMPLES.partition("\n\n")[0].splitlines()[1:]]
    lines = ["## aai-gateway", "", made.description or "", "", "    aai-gateway [OPTIONS]", ""]
    return "\n".join([*lines, "| option | what it does |", "|---|---|", *options, "", "Examples:", "", *told, ""])


def _flag(action: Action) -> str:
    value = "\\|".join(action.choices) if action.choices else action.metavar or ""
    return f"{', '.join(action.option_strings)} {value}".strip()


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _exit_codes() -> str:
    rows = [f"| {code} | {_first_upper(meaning)}. |" for code, meaning in EXIT_CODES.items()]
    return "\n".join(["## Exit codes", "", "| code | what it means |", "|---|---|", *rows, ""])


if __name__ == "__main__":
    DOCUMENT.parent.mkdir(parents=True, exist_ok=True)
    DOCUMENT.write_text(reference(), encoding="utf-8")
    sys.stdout.write(f"{DOCUMENT.name} is up to date\n")
