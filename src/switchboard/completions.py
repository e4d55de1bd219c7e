"""What lets a shell complete both commands: for `switchboard` by asking it, for `aai-gateway` by a list."""

from argparse import Action
from typing import Literal

from switchboard.gateway_arguments import parser

Shell = Literal["bash", "zsh", "fish"]
_VARIABLE = "_SWITCHBOARD_COMPLETE"


def script(shell: Shell) -> str:
    """Return a script that a shell reads once."""
    from typer.completion import (  # noqa: PLC0415 - once in the life of a terminal
        get_completion_script,  # pyright: ignore[reportPrivateImportUsage] - what --show-completion prints
    )

    ours = get_completion_script(prog_name="switchboard", complete_var=_VARIABLE, shell=shell)
    return f"{ours}\n\n{_GATEWAY[shell](_options())}\n"


def _options() -> list[Action]:
    return [action for action in parser()._actions if action.option_strings]  # noqa: SLF001 - argparse has no other way


def _bash(options: list[Action]) -> str:
    names = " ".join(name for action in options for name in action.option_strings)
    cases = "\n".join(
        f'        {"|".join(action.option_strings)}) COMPREPLY=($(compgen -W "{" ".join(action.choices)}" -- "$2")) ;;'
        for action in options
        if action.choices
    )
    return f"""_aai_gateway_completion() {{
    case "$3" in
{cases}
        *) COMPREPLY=($(compgen -W "{names}" -- "$2")) ;;
    esac
}}
complete -F _aai_gateway_completion aai-gateway"""


def _zsh(options: list[Action]) -> str:
    lines = [_zsh_option(action) for action in options]
    body = " \\\n    ".join(lines)
    return f"""_aai_gateway_completion() {{
  _arguments -s \\
    {body}
}}
compdef _aai_gateway_completion aai-gateway"""


def _zsh_option(action: Action) -> str:
    told = _quoted((action.help or "").translate(str.maketrans({"[": "(", "]": ")", ":": "\\:"})))
    value = f":value:({' '.join(action.choices)})" if action.choices else ":value:" if action.metavar else ""
    names = action.option_strings
    spelled = "{" + ",".join(names) + "}" if len(names) > 1 else names[0]
    return f"{spelled}'[{told}]{value}'"


def _fish(options: list[Action]) -> str:
    return "\n".join(
        "complete -c aai-gateway -f"
        + "".join(f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}" for name in action.option_strings)
        + (f" -x -a '{' '.join(action.choices)}'" if action.choices else " -x" if action.metavar else "")
        + f" -d '{_quoted(action.help or '', fish=True)}'"
        for action in options
    )


def _quoted(text: str, *, fish: bool = False) -> str:
    return text.replace("%%", "%").replace("'", "\\'" if fish else "'\\''")


_GATEWAY = {"bash": _bash, "zsh": _zsh, "fish": _fish}
