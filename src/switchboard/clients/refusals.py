"""Why a configuration was not changed. Nothing was touched when one of these is raised.

Refusal
├── Misuse        the words of the command make no sense
├── Broken        the file is not what its client reads, with the place
├── Unfit         the file is right, and has something else where the entry belongs
├── NotOurs       an entry of that name starts some other program
├── NotFound      the client is not on this machine
├── Unusable      the file cannot be read or written
└── Raced         somebody else has written the file meanwhile
"""


class Refusal(Exception):
    """Nothing was changed; the message says why, and what to do."""

    code = 1


class Misuse(Refusal):
    """The command was not understood."""

    code = 2


class Broken(Refusal):
    """A file cannot be read as what it is."""

    code = 2

    def __init__(self, problem: str, text: str, at: int) -> None:
        self.problem = problem
        self.line = text.count("\n", 0, at) + 1
        self.column = at - text.rfind("\n", 0, at)
        super().__init__(f"line {self.line}, column {self.column}: {problem}")


class Unfit(Refusal):
    """The place of the entry is taken by something that is no table of servers."""


class NotOurs(Refusal):
    """An entry of that name is somebody else's."""


class NotFound(Refusal):
    """The client is not here, or has no such file."""


class Unusable(Refusal):
    """The system does not let us read or write the file."""

    code = 2


class Raced(Refusal):
    """The file changed while we looked at it."""
