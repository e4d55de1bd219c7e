"""A page and its translation agree: the same sections, examples, links, pictures and figures, in the same order."""

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.docs.documents import ROOT, blocks, links

PAIRS = {
    "README.md": "README.zh-CN.md",
    "docs/tutorial.md": "docs/zh-CN/tutorial.md",
    "docs/guides/APP_DEVELOPER.md": "docs/zh-CN/app-developer.md",
}
ENGLISH = {(ROOT / chinese).resolve(): (ROOT / english).resolve() for english, chinese in PAIRS.items()}
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_FIGURE = re.compile(r"\d+(?:[.,:-]\d+)*")
_HAN = re.compile(r"[\u4e00-\u9fff]")


class Section(NamedTuple):
    """What one heading stands above, as far as languages have to agree about it."""

    level: int
    links: Counter[str]
    figures: Counter[str]
    code: Counter[str]
    rows: int


def sections(document: Path) -> list[Section]:
    """Return the sections of a document, its beginning included; examples are compared elsewhere."""
    text = _FENCE.sub("", document.read_text(encoding="utf-8"))
    starts = [0, *(match.start() for match in _HEADING.finditer(text))]
    parts = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    return [_section(document, part) for part in parts]


def _section(document: Path, text: str) -> Section:
    heading = _HEADING.match(text)
    told = re.sub(r"`[^`\n]*`|\]\([^)]*\)|<[^>]*>", " ", text)
    return Section(
        level=len(heading[1]) if heading else 0,
        links=Counter(_target(document, link) for link in links(text)),
        figures=Counter(_FIGURE.findall(told)),
        code=Counter(re.findall(r"`([^`\n]+)`", text)),
        rows=len(re.findall(r"^\|", text, re.MULTILINE)),
    )


def _target(document: Path, link: str) -> str:
    """Return where a link leads, whichever the language: a page and its translation are the same place."""
    if re.match(r"[a-z]+:", link):
        return link
    file, _, _ = link.partition("#")
    path = (document.parent / file).resolve() if file else document.resolve()
    return str(ENGLISH.get(path, path))


@pytest.mark.parametrize("english", PAIRS)
def test_a_translation_has_the_same_sections_links_figures_and_words_of_code(english: str) -> None:
    """Section by section."""
    ours, theirs = sections(ROOT / english), sections(ROOT / PAIRS[english])

    assert len(ours) == len(theirs)
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        assert one == other, f"section {number}"


@pytest.mark.parametrize("english", PAIRS)
def test_a_translation_has_the_same_examples(english: str) -> None:
    """To the byte, so that what is tested in one is true in the other."""
    ours, theirs = blocks(ROOT / english), blocks(ROOT / PAIRS[english])

    assert [(block.language, block.marker, block.text) for block in theirs] == [
        (block.language, block.marker, block.text) for block in ours
    ]


@pytest.mark.parametrize("english", PAIRS)
def test_a_translation_is_one(english: str) -> None:
    """Every heading but names is in Chinese, and the pages lead to each other."""
    english_page, chinese_page = ROOT / english, ROOT / PAIRS[english]
    text = _FENCE.sub("", chinese_page.read_text(encoding="utf-8"))
    headings = [heading for _, heading in _HEADING.findall(text) if heading != "Switchboard"]

    assert [heading for heading in headings if not _HAN.search(heading)] == []
    assert len(_HAN.findall(text)) > len(text) / 6
    leads = {
        (page.parent / link).resolve()
        for page in (english_page, chinese_page)
        for link in links(page.read_text("utf-8"))
    }
    assert {english_page.resolve(), chinese_page.resolve()} <= leads
