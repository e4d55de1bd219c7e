"""`switchboard discover`, `agents` and `execute`: what agents on a control plane can do, and having it done."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated

import typer

from switchboard import terminal
from switchboard.cli_permissions import AsJson
from switchboard.manners import examples, failed, misused
from switchboard.progress import waiting

app = typer.Typer()


class Format(StrEnum):
    """Formats of the discovery endpoint."""

    json = "json"
    xml = "xml"
    compact = "compact"


def _first(context: typer.Context, parameter: typer.CallbackParam, value: str | None) -> str | None:
    """Return the first of several: the environment names all control planes for a gateway, and a command asks one."""
    source = context.get_parameter_source(parameter.name or "")
    if value is None or source is None or source.name != "ENVIRONMENT":
        return value
    return next(iter(value.split()), value)


def _first_key(context: typer.Context, parameter: typer.CallbackParam, value: str | None) -> str | None:
    key = _first(context, parameter, value)
    return None if key == "-" else key


Server = Annotated[
    str,
    typer.Option(
        "--server",
        envvar="AGENTFIELD_SERVER",
        help="Address of the control plane; where the variable has several, the first.",
        metavar="URL",
        callback=_first,
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        envvar="AGENTFIELD_API_KEY",
        help="API key of the control plane.",
        metavar="KEY",
        callback=_first_key,
    ),
]
LOCAL = "http://localhost:8080"


@app.command(
    epilog=examples(
        "switchboard discover",
        "switchboard discover --reasoner '*research*' --tags 'ml*'",
        "switchboard discover --format xml --include-input-schema",
    )
)
def discover(  # noqa: PLR0913 - one per parameter of the endpoint
    *,
    agent: Annotated[list[str] | None, typer.Option(help="Agent id, may contain *; may be repeated.")] = None,
    reasoner: Annotated[str | None, typer.Option(help="Pattern for reasoner ids.")] = None,
    skill: Annotated[str | None, typer.Option(help="Pattern for skill ids.")] = None,
    tags: Annotated[str | None, typer.Option(help="Tags, separated by commas; each may contain *.")] = None,
    health_status: Annotated[str | None, typer.Option(help="active, inactive, degraded or unknown.")] = None,
    include_input_schema: Annotated[bool, typer.Option("--include-input-schema", help="With what each takes.")] = False,
    include_output_schema: Annotated[
        bool, typer.Option("--include-output-schema", help="With what each returns.")
    ] = False,
    include_descriptions: Annotated[bool | None, typer.Option(help="With or without what each is for.")] = None,
    include_examples: Annotated[bool, typer.Option("--include-examples", help="With examples.")] = False,
    limit: Annotated[int | None, typer.Option(help="Most agents on a page.")] = None,
    offset: Annotated[int | None, typer.Option(help="Agents to skip.")] = None,
    format: Annotated[  # noqa: A002 - the name of the parameter
        Format | None, typer.Option(help="Print the raw answer in this format instead of a table.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    server: Server = LOCAL,
    api_key: Key = None,
) -> None:
    """Show what agents can do, as a table or raw."""
    raw = Format.json if json and format is None else format
    given = {
        "agent_ids": ",".join(agent or []),
        "reasoner": reasoner,
        "skill": skill,
        "tags": tags,
        "health_status": health_status,
        "include_input_schema": "true" if include_input_schema else None,
        "include_output_schema": "true" if include_output_schema else None,
        "include_descriptions": None if include_descriptions is None else str(include_descriptions).lower(),
        "include_examples": "true" if include_examples else None,
        "limit": limit,
        "offset": offset,
        "format": raw.value if raw else "json",
    }
    body = _ask(server, "/api/v1/discovery/capabilities", given, api_key)
    shown = terminal.as_text if raw else terminal.discovery_table
    typer.echo(_shown(shown if raw != Format.json else terminal.as_json, body, server))


@app.command(epilog=examples("switchboard agents", "switchboard agents --json"))
def agents(
    *,
    json: AsJson = False,
    server: Server = LOCAL,
    api_key: Key = None,
) -> None:
    """Show every registered agent with its health, why, and since when."""
    body = _ask(server, "/api/v1/nodes", {"show_all": "true"}, api_key)
    typer.echo(_shown(terminal.as_json if json else terminal.agents_table, body, server))


@app.command(
    epilog=examples(
        'switchboard execute demo-writer:summarise --input \'{"text": "One. Two."}\'',
        "echo '{\"numbers\": [1, 2]}' | switchboard execute demo-statistician:skill:describe_numbers --input -",
    )
)
def execute(
    target: Annotated[str, typer.Argument(help="What to run, as `discover` prints it.", show_default=False)],
    *,
    given: Annotated[
        str, typer.Option("--input", help="The input, a JSON object; - reads it from standard input.", metavar="JSON")
    ] = "{}",
    json: Annotated[bool, typer.Option("--json", help="Print the whole execution, for scripts.")] = False,
    server: Server = LOCAL,
    api_key: Key = None,
) -> None:
    """Run one capability of an agent and show its result.

    Exit code 0: it succeeded. 1: it did not, or no control plane answers. 2: the input is not a JSON object.
    """
    import sys  # noqa: PLC0415 - only here

    from switchboard import asking  # noqa: PLC0415 - other commands need no client

    if not target.strip():
        misused("Name what to run, as `switchboard discover` prints it, for example demo-writer:summarise.")
    text = sys.stdin.buffer.read() if given == "-" else given.encode(errors="surrogateescape")
    if not terminal.is_json_object(text):
        misused('--input must be a JSON object, for example \'{"text": "hello"}\'')
    try:
        with waiting(f"Waiting for {terminal.one_line(target)}"):
            body = asking.execute(server, target, text, api_key)
    except asking.NoAddress as error:
        misused(str(error))
    except asking.AskError as error:
        failed(str(error))
    typer.echo(_shown(terminal.as_json if json else terminal.result_text, body, server))


def _ask(server: str, path: str, given: Mapping[str, object], api_key: str | None) -> bytes:
    from switchboard import asking  # noqa: PLC0415 - other commands need no client

    parameters = [(name, str(value)) for name, value in given.items() if value not in (None, "")]
    try:
        with waiting(f"Asking {server}"):
            return asking.ask(server, path, parameters, api_key)
    except asking.NoAddress as error:
        misused(str(error))
    except asking.AskError as error:
        failed(str(error))


def _shown(show: Callable[[bytes], str], answer: bytes, server: str) -> str:
    """Return an answer as people read it; somebody else's server may have sent anything."""
    from switchboard import asking  # noqa: PLC0415 - as above

    try:
        return show(answer)
    except (KeyError, TypeError, AttributeError, ValueError):
        failed(str(asking.stranger(server)))
