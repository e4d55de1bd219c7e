"""How a command behaves, whichever it is: one line for what went wrong, exit codes, and quiet ends.

Exit codes: 0 it is so. 1 it is not, or it did not work. 2 the command was not understood. 130 interrupted by Ctrl-C.
141 whoever read the output went away. Results go to standard output, everything else to standard error.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

OK, FAILED, MISUSED, INTERRUPTED, UNREAD = 0, 1, 2, 130, 141
EXIT_CODES = {
    OK: "it is so: it worked, or nothing is wrong",
    FAILED: "it is not so: it did not work, or problems were found",
    MISUSED: "the command was not understood, or a file that was named cannot be read",
    INTERRUPTED: "interrupted by Ctrl-C",
    UNREAD: "whoever read the output went away, as with `| head`",
}


class Failure(Exception):
    """A command cannot go on; the message is one line that says what to do, `code` how it ends."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def misused(message: str) -> "NoReturn":
    """End because the command was not understood.

    Raises:
        Failure: always.
    """
    raise Failure(message, MISUSED)


def failed(message: str) -> "NoReturn":
    """End because it did not work.

    Raises:
        Failure: always.
    """
    raise Failure(message)


def examples(*commands: str) -> str:
    """Return examples as the last part of a help text, a line each."""
    return "\n\n".join(["Examples:", *(f"  {command}" for command in commands)])


def finish(program: str, work: "Callable[[], object]") -> "NoReturn":
    """Do what a command does, and end the process: with its exit code, and never with a traceback.

    Somebody who looks for a fault of ours sees it with SWITCHBOARD_LOG_LEVEL=debug.

    Raises:
        SystemExit: always.
    """
    _let_everything_be_printed()
    code: object = FAILED
    try:
        code = work()
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = _unread()
    except Failure as failure:
        code = failure.code
        say(program, str(failure))
    except OSError as error:
        about = f"{error.filename}: " if error.filename else ""
        say(program, f"{about}{error.strerror or error}. Look at that file, or choose another place.")
    except Exception as error:
        if os.environ.get("SWITCHBOARD_LOG_LEVEL") == "debug":
            raise
        say(program, f"This is a fault of ours: {_where(error)}. SWITCHBOARD_LOG_LEVEL=debug shows more; report it.")
    sys.exit(code if isinstance(code, int) else OK)


def say(program: str, message: str) -> None:
    """Print one line about what went wrong."""
    shown = " ".join(message.split())
    try:
        print(f"{program}: {shown}", file=sys.stderr, flush=True)  # noqa: T201 - that is what it is for
    except BrokenPipeError:
        _unread()


def nearest(word: str, known: "Sequence[str]") -> str:
    """Return the question whether something else was meant, where something looks like it."""
    from difflib import get_close_matches

    near = get_close_matches(word, known, 1)
    return f" Did you mean {near[0]}?" if near else ""


def _let_everything_be_printed() -> None:
    """Speak UTF-8 where a program reads, and on a terminal whatever it shows, with codes for the rest."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started this
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - until the process ends
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace", **({} if stream.isatty() else {"encoding": "utf-8"}))


def _unread() -> int:
    """Let the interpreter end quietly: what it would still write goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())
    return UNREAD


def _where(error: Exception) -> str:
    """Return the kind of an error and its place; not its words, which may hold anything."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    at = "" if place is None else f" at {os.path.basename(place.tb_frame.f_code.co_filename)}:{place.tb_lineno}"  # noqa: PTH119
    return f"{type(error).__name__}{at}"
