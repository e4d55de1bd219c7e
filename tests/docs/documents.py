"""Documents as tests read them: their headings, links and fenced examples, and what differs from run to run."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(
    r"(?:^<!-- not run: ([^\n]+?) -->\n+)?^```(\w+)(?: ([\w./-]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_OTHERS = {".venv", ".venv-agentfield", ".venv-mcp", "node_modules", ".pytest_cache", ".hypothesis"}
"""Folders in which documents are not ours."""
_VOLATILE = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"), "TIME"),
    (re.compile(r"\breq_[0-9a-f]+"), "REQUEST"),
    (re.compile(r"\b(exec|run)_\d{8}_\d{6}_[0-9a-z]{10,12}\b"), r"\1_ID"),
    (re.compile(r'W/\\?"[^"\\]+\\?"'), "ETAG"),
    (re.compile(r"(?:127\.0\.0\.1|localhost):\d+"), "ADDRESS"),
    (re.compile(r"(?i)^(date|content-length): .*$", re.MULTILINE), r"\1: VOLATILE"),
    (re.compile(r'("duration_ms": ?)[\d.e-]+'), r"\1DURATION"),
    (re.compile(r'("version": ?)"[\d.]+"'), r"\1VERSION"),
    (re.compile(r'("version": ?)\d+'), r"\1NUMBER"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "STORE"),
    (re.compile(r"\b[0-9a-f]{8}-\d+\b"), "PLACE"),
    (re.compile(r'("instance": ?)"[0-9a-f]{8}"'), r"\1INSTANCE"),
    (re.compile(r"The database \S+ does"), "The database FILE does"),
    (re.compile(r"[ \t\r]+$", re.MULTILINE), ""),
)


@dataclass(frozen=True)
class Block:
    """One fenced example; `why` says why it is not run, where it is not."""

    document: str
    line: int
    language: str
    marker: str
    text: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One command of a console example, and what the document says it prints."""

    text: str
    output: str


def documents() -> list[Path]:
    """Return every Markdown document of the repository."""
    found = (path for path in ROOT.rglob("*.md") if not _OTHERS & set(path.relative_to(ROOT).parts))
    return sorted(found)


def blocks(path: Path) -> list[Block]:
    """Return every fenced example of a document, in order."""
    text = path.read_text(encoding="utf-8")
    return [
        Block(path.name, text.count("\n", 0, match.start(2)) + 1, match[2], match[3] or "", match[4], match[1] or "")
        for match in _FENCE.finditer(text)
    ]


def commands(block: Block) -> list[Command]:
    """Return the commands of a console example: `$ ` begins one, `> ` goes on with it, the rest is output."""
    found: list[tuple[list[str], list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1][0].append(line[2:])
        else:
            found[-1][1].append(line)
    return [Command("\n".join(typed), "\n".join(shown)) for typed, shown in found]


def steady(text: str) -> str:
    """Return a text without what differs from run to run: times, ids, ports, sizes."""
    for pattern, replacement in _VOLATILE:
        text = pattern.sub(replacement, text)
    return text.strip()


def steady_json(text: str) -> str:
    """Return a JSON document in one spelling, without what differs from run to run."""
    return steady(json.dumps(json.loads(text), indent=1))


def headings(path: Path) -> list[str]:
    """Return the headings of a document."""
    return _HEADING.findall(prose(path))


def anchors(path: Path) -> set[str]:
    """Return the names that links into a document may use; headings that stand twice are counted, as on GitHub."""
    seen: Counter[str] = Counter()
    names: set[str] = set()
    for heading in headings(path):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        names.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return names


def links(text: str) -> list[str]:
    """Return where the links and pictures of a text lead, in order."""
    return [link or picture for link, picture in _LINK.findall(re.sub(r"`[^`\n]*`", "", text))]


def broken_links(path: Path) -> Iterator[str]:
    """Yield every relative link of a document that leads nowhere."""
    for link in links(prose(path)):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield f"{path.name}: {link}"


def prose(path: Path) -> str:
    """Return a document without its fenced examples."""
    return re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
