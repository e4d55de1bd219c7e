"""How a text is laid out: its line ends and its indentation, so that what is added looks like what is there."""

_BLANK = " \t"


def newline_of(text: str) -> str:
    """Return the line end of a text: that of its first line."""
    at = text.find("\n")
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def line_start(text: str, at: int) -> int:
    """Return where the line begins that a place is in; the mark of the byte order is no part of it."""
    start = text.rfind("\n", 0, at) + 1
    return 1 if start == 0 and text.startswith("\ufeff") else start


def indent_at(text: str, at: int) -> str:
    """Return the white space that the line of a place begins with."""
    start = line_start(text, at)
    end = start
    while end < at and text[end] in _BLANK:
        end += 1
    return text[start:end]


def begins_line(text: str, at: int) -> bool:
    """Tell whether nothing but white space stands before a place in its line."""
    return line_start(text, at) + len(indent_at(text, at)) == at


def whole_lines(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span with the rest of its lines, where nothing else stands in them."""
    after = end
    while after < len(text) and text[after] in _BLANK:
        after += 1
    if not begins_line(text, start):
        return start, end
    if text.startswith("\r\n", after):
        return line_start(text, start), after + 2
    if text.startswith("\n", after):
        return line_start(text, start), after + 1
    return start, end
