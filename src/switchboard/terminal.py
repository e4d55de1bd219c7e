"""What the two commands print: tables for people, JSON for scripts.

Text of others is cleaned before it reaches a terminal. Colours only where the terminal shows them. The JSON is stable:
keys are added, never renamed or removed.
"""

import io
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from switchboard.catalog.findings import Finding, Problem
from switchboard.catalog.text import clean

_STATE = len("problem")
_WIDE = 1000
"""Columns where there is no terminal that has a width; what is wider is folded."""


def findings_table(findings: Sequence[Finding]) -> str:
    """Return the apps as a table, and below it every problem with its place."""
    usable = sorted((finding for finding in findings if finding.usable), key=_by_id)
    broken = [finding for finding in findings if not finding.usable]
    rows = [_row(finding) for finding in usable]
    table = _table(("ID", "NAME", "PLATFORM", "TOOLS", "SOURCE", "PROBLEMS"), rows, right="TOOLS") if rows else ""
    summary = f"{_count(len(usable), 'app')}, {_count(len(broken), 'descriptor')} that cannot be used"
    warned = [finding for finding in usable if finding.problems]
    return "\n".join(
        part for part in (table, _section("Cannot be used:", broken), _section("Warnings:", warned), summary) if part
    )


def findings_json(findings: Iterable[Finding]) -> str:
    """Return the same for scripts: `apps` in order of their ids, `unusable` in the order they were found."""
    listed = list(findings)
    document = {
        "apps": [_app_fields(finding) for finding in sorted((f for f in listed if f.usable), key=_by_id)],
        "unusable": [_place_fields(finding) for finding in listed if not finding.usable],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def discovery_table(answer: bytes) -> str:
    """Return a discovery answer as a table: one line per capability."""
    document: dict[str, Any] = msgspec.json.decode(answer)
    rows = [
        (
            clean(item["invocation_target"], 100),
            kind,
            agent["health_status"],
            clean(", ".join(item["tags"]), 40),
            clean(item.get("description", ""), 80),
        )
        for agent in document["capabilities"]
        for kind, key in (("reasoner", "reasoners"), ("skill", "skills"))
        for item in agent[key]
    ]
    table = _table(("TARGET", "KIND", "HEALTH", "TAGS", "DESCRIPTION"), rows) if rows else ""
    counts = (
        f"{_count(document['total_agents'], 'agent')}, {_count(document['total_reasoners'], 'reasoner')}, "
        f"{_count(document['total_skills'], 'skill')}"
    )
    pagination = document["pagination"]
    following = pagination["offset"] + pagination["limit"]
    more = f"; more with --offset {following}" if pagination["has_more"] else ""
    return f"{table}\n{counts}{more}" if table else f"{counts}{more}"


def agents_table(answer: bytes) -> str:
    """Return a list of nodes as a table."""
    document: dict[str, Any] = msgspec.json.decode(answer)
    rows = [
        (
            clean(node["id"], 100),
            node["health_status"],
            clean(node["health_reason"] or "", 60),
            node["health_since"] or "",
            node["last_heartbeat"] or "",
            clean(node["version"], 20),
            str(len(node["reasoners"]) + len(node["skills"])),
        )
        for node in document["nodes"]
    ]
    head = ("AGENT", "HEALTH", "WHY", "SINCE", "LAST SEEN", "VERSION", "CAPABILITIES")
    table = _table(head, rows, right="CAPABILITIES") if rows else ""
    counted = _count(document["count"], "agent")
    return f"{table}\n{counted}" if table else counted


def apps_table(answer: bytes) -> str:
    """Return the apps of a registry as a table."""
    document: dict[str, Any] = msgspec.json.decode(answer)
    rows = [
        (
            clean(app["appId"], 200),
            clean(app["name"], 60),
            clean(app["version"], 40),
            clean(app["description"], 80),
            clean(app["descriptor_url"], 1000),
        )
        for app in document["apps"]
    ]
    table = _table(("APP", "NAME", "VERSION", "DESCRIPTION", "DESCRIPTOR"), rows) if rows else ""
    counted = f"{_count(len(rows), 'app')} published"
    return f"{table}\n{counted}" if table else counted


def publication_text(answer: bytes) -> str:
    """Return what became of a descriptor that was published: warnings, and where it is."""
    document: dict[str, Any] = msgspec.json.decode(answer)
    said = {
        "published": "is published",
        "updated": "is published in its new version",
        "unchanged": "was published before",
    }
    warnings = [f"warning: {clean(warning)}" for warning in document.get("warnings", [])]
    app = f"{clean(document['appId'])} {clean(document['version'])}"
    return "\n".join([*warnings, f"{app} {said[document['status']]}: {clean(document['descriptor_url'], 1000)}"])


def refusal_lines(answer: bytes) -> list[str]:
    """Return why a control plane did not do something: its message, and every problem or change that it names."""
    try:
        document = msgspec.json.decode(answer, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    details: object = document.get("details")
    fields = cast("dict[str, Any]", details) if isinstance(details, dict) else {}
    message = str(document.get("message", ""))
    named = [str(item) for key in ("problems", "changes") for item in fields.get(key, [])]
    return [clean(line, 1000) for line in (message, *(item for item in named if item not in message)) if line]


def as_text(answer: bytes) -> str:
    """Return an answer as it is.

    Raises:
        ValueError: it is no text.
    """
    return answer.decode()


def as_json(answer: bytes) -> str:
    """Return an answer as it is, if it is a JSON object.

    Raises:
        ValueError: it is something else.
    """
    if not is_json_object(answer):
        raise ValueError
    return answer.decode()


def is_json_object(text: bytes) -> bool:
    """Tell whether a text is a JSON object."""
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def result_text(answer: bytes) -> str:
    """Return the result of an execution for people: a text as it is, anything else as indented JSON."""
    result: Any = msgspec.json.decode(answer).get("result")
    return result if isinstance(result, str) else msgspec.json.format(msgspec.json.encode(result), indent=2).decode()


def audit_table(lines: bytes) -> str:
    """Return lines of the audit record as a table."""
    entries: list[dict[str, Any]] = [msgspec.json.decode(line) for line in lines.splitlines()]
    rows = [
        (
            entry["at"],
            clean(entry["caller"], 40),
            clean(f"{entry['owner']}:{entry['capability']}", 80),
            entry["decision"],
            entry["outcome"],
            f"{entry['duration_ms']} ms",
        )
        for entry in entries
    ]
    table = _table(("WHEN", "CALLER", "WHAT", "DECISION", "OUTCOME", "TOOK"), rows, right="TOOK") if rows else ""
    counted = _count(len(rows), "execution")
    return f"{table}\n{counted}" if table else counted


def consents_table(decided: Sequence[dict[str, Any]]) -> str:
    """Return what was decided as a table."""
    rows = [
        (
            clean(row["app"], 60),
            clean(row["caller"], 40),
            "all operations" if row["tool"] == "*" else clean(row["tool"], 60),
            row["decision"],
            row["at"],
            clean(row["origin"], 1000),
        )
        for row in decided
    ]
    table = _table(("APP", "CALLER", "OPERATION", "DECISION", "WHEN", "FROM"), rows) if rows else ""
    counted = _count(len(rows), "decision")
    return f"{table}\n{counted}" if table else f"{counted}: nothing was allowed or denied yet"


def accounts_table(accounts: Sequence[dict[str, Any]]) -> str:
    """Return what the user is signed in to as a table."""
    rows = [
        (
            clean(row["app"], 60),
            row["type"],
            row["since"],
            "refused by the app" if row["refused"] else "renewed by itself" if row["renews"] else row["expires"] or "",
            clean(", ".join(row["scopes"]), 60),
            clean(row["origin"], 1000),
        )
        for row in accounts
    ]
    table = _table(("APP", "SIGN-IN", "SINCE", "UNTIL", "PERMISSIONS", "FROM"), rows) if rows else ""
    counted = _count(len(rows), "sign-in")
    return f"{table}\n{counted}" if table else counted


def clients_table(clients: Sequence[dict[str, Any]]) -> str:
    """Return the known agent clients as a table, and below it files that cannot be read."""
    rows = [
        (
            row["id"],
            row["title"],
            "yes" if row["installed"] else "no",
            clean(", ".join(entry["name"] for entry in row["entries"]), 60) or ("unknown" if row["problem"] else "no"),
            clean(row["file"], 1000),
        )
        for row in clients
    ]
    table = _table(("CLIENT", "NAME", "FOUND", "GATEWAY", "FILE"), rows)
    broken = [f"{clean(row['file'])}: {clean(row['problem'])}" for row in clients if row["problem"]]
    return "\n".join([table, "Cannot be read:", *broken]) if broken else table.rstrip("\n")


def install_text(done: dict[str, Any], title: str, note: str) -> str:
    """Return what was done to the configuration of a client, for people."""
    file, warning = clean(done["file"], 1000), [f"Warning: {clean(done['warning'], 1000)}"] if done["warning"] else []
    match done["action"]:
        case "unchanged":
            said = [f"{title} has it already: {file}"]
        case "absent":
            said = [f"{title} does not have it: {file}"]
        case _ if done["dry_run"]:
            said = [done["diff"].rstrip("\n"), "Nothing was changed: this is what would be."]
        case _:
            verb = {"added": "Added to", "updated": "Updated in", "removed": "Removed from"}[done["action"]]
            copy = [f"The file as it was: {clean(done['backup'], 1000)}"] if done["backup"] else []
            said = [f"{verb} {title}: {file}", *copy, *([note] if done["action"] != "removed" else [])]
    return "\n".join([*said, *warning])


def fields(row: msgspec.Struct) -> dict[str, Any]:
    """Return what a row holds, by name."""
    return msgspec.structs.asdict(row)


def examination_text(findings: Sequence[dict[str, Any]]) -> str:
    """Return what was found on this machine, a line each, with what to do below it."""
    width = max(len(row["check"]) for row in findings)
    lines: list[str] = []
    for row in findings:
        lines.append(f"{_coloured(row['state'])}  {row['check']:{width}}  {clean(row['message'], 1000)}")
        if row["remedy"]:
            lines.append(f"{'':{_STATE + width + 4}}{clean(row['remedy'], 1000)}")
    counts = [sum(row["state"] == state for row in findings) for state in ("ok", "warning", "problem")]
    summary = f"{counts[0]} fine, {_count(counts[1], 'warning')}, {_count(counts[2], 'problem')}"
    return "\n".join([*lines, "", summary])


def examination_json(findings: Sequence[dict[str, Any]]) -> str:
    """Return the same for scripts."""
    well = not any(row["state"] == "problem" for row in findings)
    return row_json({"ok": well, "findings": list(findings)})


def _coloured(state: str) -> str:
    colour = {"ok": 32, "warning": 33, "problem": 31}[state]
    shown = f"{state:{_STATE}}"
    return f"\x1b[{colour}m{shown}\x1b[0m" if is_colourful() else shown


def is_colourful() -> bool:
    """Tell whether standard output is a terminal whose user wants colours: https://no-color.org, and TERM=dumb."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def one_line(text: str) -> str:
    """Return a message as one line that a terminal can be given."""
    return clean(text, 2000)


class Steps:
    """Tells a demonstration: numbered steps, what is sent, what comes back."""

    def __init__(self) -> None:
        self._count = 0

    def step(self, title: str) -> None:
        """Begin a step."""
        self._count += 1
        self._print("1", f"\n{self._count}. {title}")

    def typed(self, text: str) -> None:
        """Show what is sent or typed."""
        self._print("36", f"   → {clean(text, 1000)}")

    def said(self, text: str) -> None:
        """Show what comes back, line by line."""
        for line in text.splitlines():
            self._print("", f"     {clean(line, 400)}" if line.strip() else "")

    def _print(self, style: str, text: str) -> None:
        coloured = style and is_colourful()
        print(f"\x1b[{style}m{text}\x1b[0m" if coloured else text, flush=True)  # noqa: T201 - what it is for


class Person:
    """The person at this terminal; with `aside`, standard output is for a program, and they read standard error."""

    def __init__(self, *, aside: bool = False) -> None:
        self._aside = aside

    def tell(self, message: str) -> None:
        """Print a line, at once: they may wait for it."""
        print(message, flush=True, file=sys.stderr if self._aside else sys.stdout)

    async def ask(self, label: str, *, secret: bool) -> str:
        """Let them type something; a secret is not shown.

        Raises:
            EOFError: they are done.
        """
        from asyncio import get_running_loop  # noqa: PLC0415 - few commands wait for somebody
        from contextlib import suppress  # noqa: PLC0415
        from getpass import getpass  # noqa: PLC0415
        from threading import Thread  # noqa: PLC0415

        loop = get_running_loop()
        typed = loop.create_future()

        def settle(text: str | None) -> None:
            if not typed.done():
                typed.set_exception(EOFError()) if text is None else typed.set_result(text)

        def read() -> None:
            text = None
            with suppress(EOFError):
                text = getpass(f"{label}: ") if secret else input(f"{label}: ")
            with suppress(RuntimeError):  # nobody waits any more
                loop.call_soon_threadsafe(settle, text)

        # Nobody can take back a question at a terminal: the thread must not keep the command from ending.
        Thread(target=read, daemon=True).start()
        return await typed


def rows_json(key: str, rows: Sequence[dict[str, Any]]) -> str:
    """Return rows for scripts, under one key."""
    return msgspec.json.format(msgspec.json.encode({key: rows}), indent=2).decode()


def row_json(row: dict[str, Any]) -> str:
    """Return one row for scripts."""
    return msgspec.json.format(msgspec.json.encode(row), indent=2).decode()


def problem_lines(finding: Finding) -> list[str]:
    """Return one line per problem, as compilers write them: place, severity, path, message."""
    return [
        f"{clean(finding.location)}: {problem.severity}: {clean(problem.path)}: {clean(problem.message)}"
        for problem in sorted(finding.problems, key=lambda problem: problem.severity)
    ]


def verdict(finding: Finding) -> str:
    """Return one line that says whether a descriptor can be used."""
    errors = sum(problem.severity == "error" for problem in finding.problems)
    counted = f"{_count(errors, 'error')}, {_count(len(finding.problems) - errors, 'warning')}"
    app, place = finding.app, clean(finding.location)
    if app is None or not finding.usable:
        return f"{place} is not right: {counted}"
    return f"{place} is usable: {app.id} {app.version} with {_count(len(app.capabilities), 'tool')}; {counted}"


def problems_json(finding: Finding) -> str:
    """Return the problems of one descriptor for scripts."""
    document = {**_place_fields(finding), "usable": finding.usable}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def _row(finding: Finding) -> tuple[str, ...]:
    app = finding.app
    if app is None:
        raise TypeError("only findings with an app have a row")
    warnings = _count(len(finding.problems), "warning") if finding.problems else ""
    tools = str(len(app.capabilities))
    return (app.id, clean(" | ".join(app.names.all), 60), app.platform, tools, finding.source, warnings)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]], right: str = "") -> str:
    from rich.console import Console  # noqa: PLC0415 - 100 ms that JSON output need not pay
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in head:
        table.add_column(title, justify="right" if title == right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    target = io.StringIO()
    width = None if sys.stdout.isatty() else _WIDE
    console = Console(file=target, force_terminal=is_colourful(), width=width)
    console.print(table)
    return "\n".join(line.rstrip() for line in target.getvalue().splitlines()) + "\n"


def _section(title: str, findings: Sequence[Finding]) -> str:
    lines = [title]
    for finding in findings:
        lines.append(f"  {clean(finding.location)} ({finding.source})")
        lines += [f"    {clean(problem.path)}: {clean(problem.message)}" for problem in _worst(finding.problems)]
    return "\n".join(lines) + "\n" if findings else ""


def _worst(problems: Iterable[Problem]) -> list[Problem]:
    """Return the errors where there are any: warnings do not matter then."""
    listed = list(problems)
    return [problem for problem in listed if problem.severity == "error"] or listed


def _app_fields(finding: Finding) -> dict[str, Any]:
    app = finding.app
    if app is None:
        raise TypeError("only findings with an app have app fields")
    return {
        "id": app.id,
        "name": app.names.primary,
        "names": dict(app.names.texts),
        "description": app.description,
        "version": app.version,
        "platform": app.platform,
        "execution": app.execution.kind,
        "auth": app.auth.type if app.auth else None,
        "tools": [tool.id for tool in app.capabilities],
        **_place_fields(finding),
    }


def _place_fields(finding: Finding) -> dict[str, Any]:
    return {
        "source": finding.source,
        "location": finding.location,
        "problems": [
            {"severity": problem.severity, "kind": problem.kind, "path": problem.path, "message": problem.message}
            for problem in finding.problems
        ],
    }


def _by_id(finding: Finding) -> str:
    return finding.app.id if finding.app else ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
