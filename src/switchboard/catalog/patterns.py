"""Wildcard patterns: `*` stands for any run of characters, everything else for itself, case-sensitive (seed 004, 3.3).

No regular expressions: a pattern from outside must not be able to make matching slow.
"""

from collections.abc import Callable, Iterable


def is_exact(pattern: str) -> bool:
    """Tell whether the pattern can match one text only."""
    return "*" not in pattern


def matching(pattern: str, texts: Iterable[str]) -> list[str]:
    """Return the texts that a pattern matches; the commonest shape without a call for each text."""
    needle = pattern.strip("*")
    if pattern[:1] == pattern[-1:] == "*" and needle and "*" not in needle:
        return [text for text in texts if needle in text]
    return list(filter(matcher(pattern), texts))


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return the test for one pattern; the common shapes cost one string method each."""
    head, *middle, tail = pattern.split("*") if "*" in pattern else (pattern, pattern)
    needles = [part for part in middle if part]
    match is_exact(pattern), bool(head), len(needles), bool(tail):
        case True, _, _, _:
            return pattern.__eq__
        case False, False, 0, False:
            return _anything
        case False, False, 1, False:
            needle = needles[0]
            return lambda text: needle in text
        case False, True, 0, False:
            return lambda text: text.startswith(head)
        case False, False, 0, True:
            return lambda text: text.endswith(tail)
        case _:
            return lambda text: _matches(text, head, needles, tail)


def _anything(_: str) -> bool:
    return True


def _matches(text: str, head: str, needles: list[str], tail: str) -> bool:
    end = len(text) - len(tail)
    if len(head) > end or not text.startswith(head) or not text.endswith(tail):
        return False
    position = len(head)
    for needle in needles:
        found = text.find(needle, position, end)
        if found < 0:
            return False
        position = found + len(needle)
    return True
