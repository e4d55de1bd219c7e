"""Text of others: made safe to show, and compared when somebody may have mistyped it."""

import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

_MOST_COMPARED = 500
_REMOVED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and marks that nobody sees (Unicode's Default_Ignorable_Code_Point), and a Braille sign without a dot.
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0").union(
    map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
)


def clean(text: str, limit: int = 500) -> str:
    """Return `text` as one line of visible characters, cut with an ellipsis past `limit`.

    Control characters would steer a terminal, bidirectional and zero-width ones a reader; white space is folded.
    """
    if text.isascii() and text.isprintable():
        visible = text
    else:
        spaced = "".join(" " if char in "\t\n\r\v\f\x85\u2028\u2029" else char for char in text)
        seen = (char for char in spaced if char not in _UNSEEN)
        visible = "".join(char for char in seen if unicodedata.category(char) not in _REMOVED)
    folded = " ".join(visible.split())
    return folded if len(folded) <= limit else folded[: limit - 1] + "…"


def nearest(name: str, among: Iterable[str], most: int = 3) -> list[str]:
    """Return the texts that look most like `name`, best first.

    Comparing is slow, so only the first 500 texts that begin alike are compared where there are many.
    """
    known = list(among)
    if len(known) > _MOST_COMPARED:
        start = name[:2].lower()
        known = list(islice((text for text in known if text[:2].lower() == start), _MOST_COMPARED))
    return get_close_matches(name[:200], known, most)
