"""Texts and numbers for examples, made from what a schema says of them and from what they are called.

Prefers what reads well for a person and a model. A stranger's regular expression is read here to make a text that may
match it, and never run: whoever asked has the text checked.
"""

import re
from collections.abc import Iterator
from typing import Any, cast

Part = dict[str, Any]

_LONGEST, _BIGGEST, _MOST_REPEATED = 1_000, 10**15, 20


def _by_word(table: dict[Any, str]) -> dict[str, Any]:
    return {word: value for value, words in table.items() for word in words.split()}


_FORMATS = _by_word(
    {
        "2030-01-15T09:30:00Z": "date-time",
        "2030-01-15": "date",
        "09:30:00Z": "time",
        "PT30M": "duration",
        "alice@example.com": "email idn-email",
        "https://example.com": "uri url iri uri-reference iri-reference",
        "https://example.com/{id}": "uri-template",
        "example.com": "hostname idn-hostname",
        "192.0.2.1": "ipv4",
        "2001:db8::1": "ipv6",
        "3f2b8c1e-5d4a-4f6b-9c7d-8e9f0a1b2c3d": "uuid",
        "/example": "json-pointer",
        "0": "relative-json-pointer",
        "^example$": "regex",
        "ZXhhbXBsZQ==": "byte base64",
    }
)
_TEXTS = _by_word(
    {
        "Example title": "title subject",
        "Example name": "name",
        "Example text": "text body content message description comment prompt",
        "example query": "query",
        "example-id": "id",
        "alice@example.com": "email mail to recipient cc bcc",
        "bob@example.com": "from sender",
        "https://example.com": "url uri link",
        "/path/to/example.txt": "path file",
        "/path/to": "directory folder",
        "example.txt": "filename",
        "en": "language lang locale",
        "Berlin": "city",
        "Europe/Berlin": "timezone",
        "EUR": "currency",
        "2030-01-15": "date day due deadline",
        "2030-01-15T09:30:00Z": "start since time",
        "2030-01-15T10:30:00Z": "end until",
    }
)
_AMOUNTS = _by_word({10: "limit count size max most", 30: "minutes", 52.52: "latitude lat", 13.41: "longitude lon lng"})
_SHAPES = (
    *("a", "A", "1", "10", "123", "abc123", "ABC-123", "EUR", "en-US", "1.0.0", "v1.0.0", "09:30", "09:30:00"),
    *("#3366ff", "/example", "@example", "example.txt", "+14155550123", "65a4f0c2e1b3d4a5f6c7b8e9", *_FORMATS.values()),
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_GROUP = re.compile(r"\((?:\?:)?([^()|]*)(?:\|[^()]*)?\)([*+?]?)")
_ATOM = re.compile(
    r"(?:\[(?P<set>(?:\\.|[^\]\\])+)\]|\\(?P<escaped>.)|(?P<plain>[^\\\[\](){}|*+?]))"
    r"(?:\{(?P<least>\d{1,4})(?P<open>,?)\d*\}|(?P<sign>[*+?]))?"
)


def strings(part: Part, name: str) -> Iterator[str]:
    """Yield texts for a part of that name, the best first."""
    least, most = count_of(part, "minLength", 0), count_of(part, "maxLength", _LONGEST)
    if least > _LONGEST:
        return
    formatted = _FORMATS.get(str(part.get("format", part.get("contentEncoding"))).lower())
    made = [formatted or _sized(_worded(name, _TEXTS, "example"), least, most)]
    if isinstance(pattern := part.get("pattern"), str):
        made += [*_patterned(pattern, least), *_SHAPES]
    yield from made
    text = made[0]
    for n in range(2, _MOST_REPEATED):
        yield from (f"{text} {n}", f"{text}{n}", f"{text[:-1]}{n}", f"{n}{text[1:]}", _sized(str(n), least, most))


def _sized(text: str, least: int, most: int) -> str:
    return (text + " example" * (max(0, least - len(text)) // 8 + 1))[: max(least, len(text))][:most]


def _worded(name: str, table: dict[str, Any], otherwise: Any) -> Any:
    """Return what reads well under the name: its last word that the table knows decides (`reply_to`, `startDate`)."""
    words = [word.lower() for word in _WORD.findall(name[:100])]
    known = (table.get(word, table.get(word.removesuffix("s"))) for word in ("".join(words), *reversed(words)))
    return next((value for value in known if value is not None), otherwise)


def _patterned(pattern: str, least: int) -> Iterator[str]:
    """Yield strings for a simple regular expression, read rather than run; groups become their first choice."""
    simple = pattern[:200]
    for _ in range(4):
        simple = _GROUP.sub(lambda group: "" if group[2] in {"*", "?"} else group[1], simple)
    for spread in (1, least):
        yield "".join(_repeated(atom, spread) for atom in _ATOM.finditer(simple.strip("^$")))[:_LONGEST]


def _repeated(atom: re.Match[str], spread: int) -> str:
    inside, escaped, plain = atom["set"], atom["escaped"], atom["plain"]
    classes = {"d": "1", "w": "a", "s": " ", "b": "", "S": "a"}
    if inside:
        escaped = inside[1] if inside[0] == "\\" else None
        plain = "1" if inside.startswith("0-9") else "~" if inside[0] == "^" else inside[0]
    one = classes.get(escaped, escaped) if escaped else "a" if plain == "." and not inside else plain
    times = int(atom["least"]) if atom["least"] else 0 if atom["sign"] in {"*", "?"} else 1
    return one * (max(times, spread) if atom["open"] or atom["sign"] == "+" else times)


def numbers(part: Part, name: str, *, whole: bool) -> Iterator[float]:
    """Yield numbers for a part of that name, the best first."""
    low, high, above, below, step = (
        number(part, key) for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
    )
    step = step if step and step > 0 else 1 if whole else None
    ends = [(low, 0), (high, 0), (above, 1), (below, -1), (above, 0.01), (below, -0.01)]
    usual = (1, 1) if whole else (1.5, 0.5)
    points = [_worded(name, _AMOUNTS, usual[0]), usual[1], *(end + by for end, by in ends if end is not None)]
    for offset in (0, 1, -1, *range(2, _MOST_REPEATED)):
        for point in points:
            value = round((point // step + offset) * step if step else point + offset, 10)
            exact = int(value) if whole else value
            if _within(exact, low, high, above, below):
                yield exact


def _within(value: float, low: float | None, high: float | None, above: float | None, below: float | None) -> bool:
    fits_low = (low is None or value >= low) and (above is None or value > above)
    return fits_low and (high is None or value <= high) and (below is None or value < below)


def number(part: Part, key: str) -> float | None:
    """Return what a schema says under a key, if that is a number of a sensible size."""
    value = part.get(key)
    return value if type(value) in {int, float} and abs(cast("float", value)) <= _BIGGEST else None


def count_of(part: Part, key: str, otherwise: int) -> int:
    """Return what a schema says under a key, if that is a count."""
    value = number(part, key)
    return otherwise if value is None or value < 0 else int(value)
