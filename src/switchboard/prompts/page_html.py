"""The pages as text: a form, and the few that come after it. Pure.

Every text that comes in is escaped, and kept from reordering what stands beside it; nothing a person typed is ever put
back into a page. There is no script and nothing to load.
"""

from functools import cache
from html import escape
from importlib.resources import files
from typing import Literal

from msgspec import Struct

from switchboard.prompts.forms import Choice, Field, Form, Language, Line, Style
from switchboard.prompts.loopback import Response

FIELD = "field."
"""What stands before a field's name on the wire: a form may call its field `choice`."""

Complaint = Literal["fields", "choice"]
End = Literal["decided", "withdrawn"]


class _Words(Struct, frozen=True, kw_only=True):
    lang: str
    place: str
    theirs: str
    note: str
    fields: str
    choice: str
    foot: str
    done: str
    chosen: str
    leave: str
    decided: str
    decided_why: str
    withdrawn: str
    withdrawn_why: str


_WORDS: dict[Language, _Words] = {
    "en": _Words(
        lang="en",
        place="On this computer",
        theirs="These are the app's own words. Switchboard has not checked them.",
        note="Before you decide",
        fields="Fill in every field first. What you had typed was not kept.",
        choice="Choose one of the buttons below.",
        foot="This page comes from Switchboard on your computer, not from a web site. "
        "Nothing happens until you choose.",
        done="Your answer has arrived",
        chosen="You chose:",
        leave="You can close this tab and go back to your agent.",
        decided="This has already been decided",
        decided_why="The first answer counts; opening or sending this page again changes nothing.",
        withdrawn="This question is no longer open",
        withdrawn_why="It was taken back, or nobody answered in time. Nothing was allowed. If it is still needed, "
        "your agent will ask again.",
    ),
    "zh": _Words(
        lang="zh-Hans",
        place="来自本机",
        theirs="以上是应用自己的说明，Switchboard 未作核实。",
        note="决定之前请注意",
        fields="请先填写所有字段。之前输入的内容没有保留。",
        choice="请选择下方的一个按钮。",
        foot="此页面由您电脑上的 Switchboard 提供，并非来自网站。在您作出选择之前，不会执行任何操作。",
        done="已收到您的回答",
        chosen="您的选择：",
        leave="您可以关闭此标签页，回到您的智能体。",
        decided="此问题已有决定",
        decided_why="以第一次的回答为准；再次打开或提交此页面不会改变任何内容。",
        withdrawn="此问题已不再有效",
        withdrawn_why="问题已被撤回，或未在规定时间内回答。没有授予任何权限。如仍有需要，您的智能体会再次询问。",
    ),
}

_MARK = (
    '<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" '
    'aria-hidden="true"><rect x="2.5" y="2.5" width="19" height="19" rx="5"/>'
    '<circle cx="8" cy="8.5" r="1.5"/><circle cx="16" cy="15.5" r="1.5"/><path d="M8 10v1.5a2 2 0 0 0 2 2h4"/></svg>'
)
_CAUTION = (
    '<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" '
    'stroke-linejoin="round" aria-hidden="true"><path d="M12 3.5 22 20.5H2Z"/><path d="M12 10v4.5M12 17.5v.01"/></svg>'
)
_CHECK = (
    '<svg class="sign" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.8" '
    'stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><circle cx="12" cy="12" r="10"/>'
    '<path d="m7.5 12.5 3 3 6-6.5"/></svg>'
)
_CLASSES: dict[Style, str] = {"plain": "", "primary": ' class="primary"', "danger": ' class="danger"'}


def question(form: Form, complaint: Complaint | None = None) -> Response:
    """Return the page that asks, with a word on what was wrong with the last answer."""
    words = _WORDS[form.language]
    parts = [
        _complaint(words.fields if complaint == "fields" else words.choice) if complaint else "",
        f"<h1>{_text(form.title)}</h1>",
        f'<p class="question">{_text(form.question)}</p>' if form.question else "",
        _facts(form.lines, words),
        _warnings(form.warnings, words),
        '<form method="post">',
        _enter(form),
        *(_field(field, index) for index, field in enumerate(form.fields)),
        f'<div class="choices">{"".join(map(_button, form.choices))}</div>',
        "</form>",
    ]
    status = {None: 200, "fields": 422, "choice": 400}[complaint]
    return _page(status, words, form.title, "\n".join(filter(None, parts)), foot=words.foot)


def thanks(form: Form, choice: Choice) -> Response:
    """Return the page after a choice."""
    words = _WORDS[form.language]
    inner = f"<p>{words.chosen} <strong>{_text(choice.label)}</strong></p>"
    return _end_page(200, words, words.done, inner, sign=_CHECK)


def over(end: End, language: Language) -> Response:
    """Return the page of a question that is no longer open."""
    words = _WORDS[language]
    title, why = (words.decided, words.decided_why) if end == "decided" else (words.withdrawn, words.withdrawn_why)
    return _end_page(410, words, title, f"<p>{why}</p>")


def notice(status: int, title: str, text: str, language: Language, *, good: bool = False) -> Response:
    """Return a page that only says something, as after a sign-in."""
    return _end_page(status, _WORDS[language], title, f"<p>{_text(text)}</p>", sign=_CHECK if good else "")


@cache
def style() -> str:
    """Return the style sheet."""
    return files("switchboard.prompts").joinpath("page.css").read_text("utf-8")


def _text(text: str) -> str:
    return f"<bdi>{escape(text)}</bdi>"


def _complaint(text: str) -> str:
    return f'<p class="box error" role="alert">{text}</p>'


def _facts(lines: tuple[Line, ...], words: _Words) -> str:
    return f"<dl>{''.join(_fact(line, words) for line in lines)}</dl>" if lines else ""


def _fact(line: Line, words: _Words) -> str:
    said = _quotation(line.text, words) if line.theirs else _text(line.text)
    return f"<div><dt>{_text(line.label)}</dt><dd>{said}</dd></div>"


def _quotation(text: str, words: _Words) -> str:
    return f'<blockquote dir="auto">{_text(text)}</blockquote><p class="whose">{words.theirs}</p>'


def _warnings(warnings: tuple[str, ...], words: _Words) -> str:
    if not warnings:
        return ""
    items = "".join(f"<li>{_text(warning)}</li>" for warning in warnings)
    heading = f'<h2 id="note">{_CAUTION}{words.note}</h2>'
    return f'<section class="box note" aria-labelledby="note">{heading}<ul>{items}</ul></section>'


def _enter(form: Form) -> str:
    """Return what Enter in a field presses: a browser takes a form's first button, which would be the careful one.

    Without it, whoever typed a key and pressed Enter would have cancelled.
    """
    choice = next((choice for choice in form.choices if choice.needs_fields), None)
    if choice is None or not form.fields:
        return ""
    return f'<button class="enter" name="choice" value="{escape(choice.id)}" tabindex="-1" aria-hidden="true"></button>'


def _field(field: Field, index: int) -> str:
    kind = "password" if field.secret else "text"
    return (
        f'<div class="field"><label for="f{index}">{_text(field.label)}</label>'
        f'<input id="f{index}" type="{kind}" name="{FIELD}{escape(field.name)}" required autocomplete="off" '
        'autocapitalize="off" spellcheck="false"></div>'
    )


def _button(choice: Choice) -> str:
    unchecked = "" if choice.needs_fields else " formnovalidate"
    return (
        f'<button name="choice" value="{escape(choice.id)}"{_CLASSES[choice.style]}{unchecked}>'
        f"{_text(choice.label)}</button>"
    )


def _end_page(status: int, words: _Words, title: str, inner: str, sign: str = "") -> Response:
    content = f'<div class="end">{sign}<h1>{_text(title)}</h1>{inner}<p class="then">{words.leave}</p></div>'
    return _page(status, words, title, content)


def _page(status: int, words: _Words, title: str, content: str, foot: str = "") -> Response:
    body = f"""<!doctype html>
<html lang="{words.lang}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)} · Switchboard</title>
<style>{style()}</style>
</head>
<body>
<main>
<header>{_MARK}<b>Switchboard</b><span class="place">{words.place}</span></header>
<div class="body">
{content}
</div>
{f"<footer><p>{foot}</p></footer>" if foot else ""}
</main>
</body>
</html>
"""
    return Response(status, body, style=style())
