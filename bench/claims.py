"""What the documents claim, held to what was measured: bench/claims.json, both READMEs and docs/performance.md.

`bench/claims.json` lists every figure that a document states: what it says, the figure's name in bench/results.json,
and the command that measures it. `python -m bench claims` brings the values up to date, and writes the tables in the
documents anew. A test fails when a document and the file differ.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
CLAIMS = Path(__file__).with_name("claims.json")
README = _ROOT / "README.md"
CHINESE_README = _ROOT / "README.zh-CN.md"
PERFORMANCE = _ROOT / "docs/performance.md"
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"

Claim = dict[str, Any]


def claims() -> list[Claim]:
    """Return what is claimed."""
    return json.loads(CLAIMS.read_text(encoding="utf-8"))


def update(suites: Mapping[str, Any]) -> None:
    """Bring the file and the documents up to date.

    Raises:
        SystemExit: a figure that is claimed was not measured.
    """
    measured = {one["name"]: one for suite in suites.values() for one in suite["figures"]}
    current = claims()
    missing = [claim["figure"] for claim in current if claim["figure"] not in measured]
    if missing:
        raise SystemExit("not measured, so nothing was changed: " + "; ".join(missing))
    for claim in current:
        one = measured[claim["figure"]]
        claim["value"], claim["shown"] = one["value"], one["shown"]
        claim["target"] = "" if one["target"] is None else f"{one['sense']} {one['target']:g}"
    CLAIMS.write_text(json.dumps(current, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for document, wanted in documents(current).items():
        text = document.read_text(encoding="utf-8")
        document.write_text(with_table(text, wanted), encoding="utf-8")


def documents(current: Sequence[Claim]) -> dict[Path, str]:
    """Return the table that each document has to hold."""
    short = [claim for claim in current if claim["readme"]]
    return {
        README: table(short, ("what", "measured", "target")),
        CHINESE_README: table([_in_chinese(claim) for claim in short], ("内容", "实测", "目标")),
        PERFORMANCE: table(current, ("what", "measured", "target", "command")),
    }


def _in_chinese(claim: Claim) -> Claim:
    target = str(claim["target"]).replace("at least", "至少").replace("at most", "至多")
    return {**claim, "says": claim["says_zh"], "target": target}


def table(rows: Sequence[Claim], head: Sequence[str]) -> str:
    """Lay claims out for people; the command that measures one stands in a fourth column, where there is one."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for claim in rows:
        cells = [claim["says"], claim["shown"], claim["target"], f"`{claim['command']}`"]
        lines.append(f"| {' | '.join(cells[: len(head)])} |")
    return "\n".join(lines)


def with_table(text: str, wanted: str) -> str:
    """Return a document with this table in the place of the one it has."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{wanted}\n{END}{after}"


def table_in(text: str) -> str:
    """Return the table that a document has."""
    return text.partition(BEGIN)[2].partition(END)[0].strip()
