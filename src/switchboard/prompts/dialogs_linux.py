"""Windows on Linux: zenity, and kdialog where there is no zenity.

Their options are texts of ours with a text of the form behind the equals sign, so that no text can be an option; what
they would interpret in it (markup, access keys, backslashes) is escaped.
"""

from collections.abc import Generator
from html import escape

from switchboard.prompts.dialogs_talk import Ended, NotShown, Step, Talk, ask, body, chosen, label_of, title_of
from switchboard.prompts.forms import Choice, Field, Form, Language

_WIDTH = 560
# Zenity says 1 for "closed", for "cancelled" and for "there is no display". These numbers tell them apart.
_OK, _CANCEL, _CLOSED, _EXTRA = 110, 111, 112, 113
_CODES = {
    "ZENITY_OK": str(_OK),
    "ZENITY_CANCEL": str(_CANCEL),
    "ZENITY_ESC": str(_CLOSED),
    "ZENITY_EXTRA": str(_EXTRA),
}
_KDIALOG_OK, _KDIALOG_CANCEL = 0, 1
# The person's own locale may not be installed, and zenity then takes every letter beyond ASCII for an error; all it
# shows is ours anyway. The language decides which shapes Chinese characters have, and kdialog's OK and Cancel.
_LOCALE = {"LC_ALL": "C.UTF-8"}
_LANGUAGES: dict[Language, dict[str, str]] = {
    "en": {"LANGUAGE": "en", "PANGO_LANGUAGE": "en"},
    "zh": {"LANGUAGE": "zh_CN", "PANGO_LANGUAGE": "zh-cn"},
}
# A label that is narrower than its window stands in the middle of it. This makes it as wide.
_FILL = "\u00a0" * 136


def zenity(program: str, form: Form) -> Talk:
    """Show a form with zenity."""
    environment = {**_LOCALE, **_LANGUAGES[form.language], **_CODES}
    usual = (f"--title={title_of(form)}", f"--width={_WIDTH}")

    def pick() -> Generator[Step, Ended, Choice | None]:
        # `--switch` takes away OK and Cancel. Enter presses what has the focus, which is the first choice: the careful.
        text = "\n".join([*body(form), _FILL])
        buttons = [f"--extra-button={_keyless(label_of(choice))}" for choice in form.choices]
        command = (program, "--question", "--switch", "--no-markup", *usual, f"--text={text}", *buttons)
        return _extra(form, (yield Step(command=command, environment=environment)))

    def fill(field: Field, choice: Choice) -> Generator[Step, Ended, str | Choice | None]:
        # The text of an entry knows no markup, but access keys and backslashes.
        text = _keyless("\n".join(body(form, field))).replace("\\", "\\\\")
        beside = [other for other in form.choices if not other.needs_fields]
        hidden = ("--hide-text",) if field.secret else ()
        command = (
            *(program, "--entry", *hidden, *usual, f"--text={text}", f"--ok-label={label_of(choice)}"),
            *(f"--cancel-label={label_of(other)}" for other in beside[:1]),
            *(f"--extra-button={_keyless(label_of(other))}" for other in beside[1:]),
        )
        ended = yield Step(command=command, environment=environment)
        if ended.code == _OK:
            return ended.text
        if ended.code == _CANCEL:
            return beside[0] if beside else None
        return _extra(form, ended)

    return ask(form, pick, fill)


def _extra(form: Form, ended: Ended) -> Choice | None:
    """Read which extra button was pressed: zenity prints its label, and ends as if the window had been closed."""
    if ended.code not in (_CLOSED, _EXTRA):
        raise NotShown
    return chosen(form, ended.text, lambda choice: _keyless(label_of(choice)))


def _keyless(text: str) -> str:
    """GTK takes an underscore for the mark of an access key."""
    return text.replace("_", "__")


def kdialog(program: str, form: Form) -> Talk:
    """Show a form with kdialog, whose message boxes have too few buttons: the choices are a list."""
    environment = {**_LOCALE, **_LANGUAGES[form.language]}
    labels = {str(number): label_of(choice) for number, choice in enumerate(form.choices)}

    def pick() -> Generator[Step, Ended, Choice | None]:
        items = [text for tag, label in labels.items() for text in (tag, _no_option(label))]
        command = (
            *(program, f"--title={title_of(form)}", f"--default={_no_option(labels['0'])}"),
            *("--menu", _html(body(form)), *items),
        )
        ended = yield Step(command=command, environment=environment)
        tag = _kdialog_answer(ended)
        return form.choices[int(tag)] if tag in labels else None

    def fill(field: Field, choice: Choice) -> Generator[Step, Ended, str | Choice | None]:
        del choice
        kind = "--password" if field.secret else "--inputbox"
        command = (program, f"--title={title_of(form)}", kind, _html(body(form, field)))
        return _kdialog_answer((yield Step(command=command, environment=environment)))

    return ask(form, pick, fill, pick_first=True)


def _kdialog_answer(ended: Ended) -> str | None:
    if ended.code not in (_KDIALOG_OK, _KDIALOG_CANCEL):
        raise NotShown
    return ended.text if ended.code == _KDIALOG_OK else None


def _html(rows: list[str]) -> str:
    """Qt guesses whether a text is HTML, and kdialog reads backslashes: say that it is, and leave neither a chance."""
    text = "<br>".join(escape(row).replace("\\", "&#92;").replace("    ", "&nbsp;" * 4) for row in rows)
    return f"<html><body>{text}</body></html>"


def _no_option(label: str) -> str:
    """Items of a list stand by themselves: one that begins with a dash would be an option."""
    return f" {label}" if label.startswith("-") else label
