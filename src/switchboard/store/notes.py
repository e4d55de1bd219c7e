"""How much of what agents say is remembered: the same for every store."""

import msgspec
from msgspec.structs import replace

from switchboard.actions.store_ports import Note
from switchboard.catalog.bindings import Json

MOST_NOTES = 1000
"""How many notes of one execution are kept; the newest."""
LARGEST_NOTE = 64 * 1024
"""How many bytes of one note are kept."""

# As a string inside another document, each byte of a JSON text can become two.
_BEGINNING = LARGEST_NOTE // 2 - 100


def fitting(note: Note) -> Note:
    """Return the note, or its beginning with the mark `truncated` where it is too large."""
    size = len(note.content)
    if size <= LARGEST_NOTE:
        return note
    beginning = note.content[:_BEGINNING].decode(errors="ignore")
    return replace(note, content=Json(msgspec.json.encode({"truncated": True, "bytes": size, "beginning": beginning})))
