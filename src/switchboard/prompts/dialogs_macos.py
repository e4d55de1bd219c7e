"""Windows on macOS: `display dialog`, shown by `osascript`.

The script is fixed, and every text is an argument of it. The first argument is a word of ours, so that no text can be
an option.
"""

from collections.abc import Generator

from switchboard.prompts.dialogs_talk import Ended, NotShown, Step, Talk, ask, body, chosen, label_of, title_of
from switchboard.prompts.forms import Choice, Field, Form

# There is no cancel button, which Escape would press. A window that is closed all the same is error -128: an empty
# answer, while every other error means that nothing was shown. What Return presses is given as a number. The window
# belongs to osascript, which has to come to the front for it.
_SCRIPT = """
on run argv
  set {kind, pressed, heading, message} to items 1 thru 4 of argv
  set pressed to pressed as integer
  set choices to items 5 thru -1 of argv
  try
    activate
  end try
  try
    if kind is "choose" then
      set answer to display dialog message with title heading buttons choices default button pressed
      return button returned of answer
    else if kind is "secret" then
      set answer to display dialog message default answer "" with title heading buttons choices ¬
        default button pressed with hidden answer
    else
      set answer to display dialog message default answer "" with title heading buttons choices default button pressed
    end if
    return (button returned of answer) & linefeed & (text returned of answer)
  on error number -128
    return ""
  end try
end run
"""
_MOST_BUTTONS = 3


def osascript(program: str, form: Form) -> Talk:
    """Show a form with osascript.

    `display dialog` has three buttons. Where a form has more, "once" is left out: it can be had by allowing, and by
    taking that back, while nothing stands in for the others.
    """
    choices = [choice for choice in form.choices if len(form.choices) <= _MOST_BUTTONS or choice.id != "once"]
    labels = [_label(choice) for choice in choices]

    def run(kind: str, pressed: Choice, field: Field | None = None) -> Generator[Step, Ended, str]:
        if len(choices) > _MOST_BUTTONS:
            raise NotShown
        number = str(choices.index(pressed) + 1)
        texts = (kind, number, title_of(form), "\n".join(body(form, field)))
        ended = yield Step(command=(program, "-e", _SCRIPT, *texts, *labels))
        if ended.code != 0:
            raise NotShown
        return ended.text

    def pick() -> Generator[Step, Ended, Choice | None]:
        return chosen(form, (yield from run("choose", choices[0])), _label)

    def fill(field: Field, choice: Choice) -> Generator[Step, Ended, str | Choice | None]:
        said = yield from run("secret" if field.secret else "text", choice, field)
        label, _, value = said.partition("\n")
        pressed = chosen(form, label, _label)
        return value if pressed == choice else pressed

    return ask(form, pick, fill)


def _label(choice: Choice) -> str:
    """A button called Cancel is a cancel button even where none is wanted; with another space it is not."""
    label = label_of(choice)
    return f"{label}\u00a0" if label == "Cancel" else label
