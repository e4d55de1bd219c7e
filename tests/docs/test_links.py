"""Links lead somewhere: to files and headings that are there, or to https addresses that are well formed."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.docs.documents import ROOT, broken_links, documents, links, prose

HOST = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+")
HERE = re.compile(r"http://(?:localhost|127\.0\.0\.1):\d+")
"""Addresses that a reader opens on their own machine."""


def _is_well_formed(link: str) -> bool:
    parts = urlsplit(link)
    return parts.scheme == "https" and HOST.fullmatch(parts.netloc) is not None and not re.search(r"[\s<>\"]", link)


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    """Relative ones to a file, and a heading where they name one; the others to https. No network is asked."""
    outside = [link for link in links(prose(document)) if re.match(r"[a-z]+:", link)]

    assert list(broken_links(document)) == []
    assert [link for link in outside if not _is_well_formed(link) and not HERE.match(link)] == []


def test_every_page_is_on_the_map() -> None:
    """A page under docs/ can be reached from docs/index.md; decisions by their folder."""
    index = ROOT / "docs/index.md"
    on_it = {(index.parent / link.partition("#")[0]).resolve() for link in links(prose(index))}
    pages = [page for page in documents() if page.is_relative_to(ROOT / "docs") and page != index]

    assert [page for page in pages if page not in on_it and page.parent not in on_it] == []


@pytest.mark.parametrize(
    ("link", "well"),
    [
        ("https://example.org/a?b#c", True),
        ("https://example", False),
        ("http://example.org", False),
        ("https://exa mple.org", False),
        ("mailto:a@example.org", False),
        ("https://-example.org", False),
    ],
)
def test_an_address_is_told_from_something_else(link: str, *, well: bool) -> None:
    """So that the test above can fail."""
    assert _is_well_formed(link) is well
