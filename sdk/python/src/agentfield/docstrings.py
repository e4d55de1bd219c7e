"""What a docstring says for a catalogue: its first paragraph, and one sentence for each argument (Google style)."""

import re

_SECTION = re.compile(r"^(Args|Arguments|Parameters):\s*$")
_HEADING = re.compile(r"^[A-Z][A-Za-z ]+:\s*$")
_ARGUMENT = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


def summary(text: str) -> str:
    """Return the first paragraph in one line."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        if not line.strip() or _SECTION.match(line.strip()):
            break
        lines.append(line.strip())
    return " ".join(lines)


def arguments(text: str) -> dict[str, str]:
    """Return what the docstring says of each argument."""
    found: dict[str, str] = {}
    name, depth = "", 0
    for line in _section(text):
        indent = len(line) - len(line.lstrip())
        match = _ARGUMENT.match(line.strip())
        if match and (not name or indent <= depth):
            name, depth = match[1], indent
            found[name] = match[2].strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return {key: value for key, value in found.items() if value}


def _section(text: str) -> list[str]:
    """Return the lines of the section on arguments."""
    lines = iter(text.expandtabs().splitlines())
    for line in lines:
        if _SECTION.match(line.strip()):
            break
    inside: list[str] = []
    for line in lines:
        if _HEADING.match(line.strip()) and (not inside or len(line) - len(line.lstrip()) < _indent(inside[0])):
            break
        if line.strip():
            inside.append(line)
    return inside


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
