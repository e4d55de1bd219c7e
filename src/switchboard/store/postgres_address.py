"""The address of a PostgreSQL database: where to try, and what to check when nobody lets us in.

What is said here names hosts, database and user, never the password, and never quotes what a server or a library says.
An address that cannot be read is not shown at all: what looks like a host may be half of a password.
"""

import getpass
import os
import ssl
from collections.abc import Callable
from socket import gaierror
from typing import final
from urllib.parse import parse_qs, unquote, urlsplit

from msgspec import Struct

Host = tuple[str, int]
_PORT = "5432"


@final
class Address(Struct, frozen=True, kw_only=True):
    """What an address says, without its password."""

    hosts: tuple[Host, ...] = ()
    """In the order they are tried; none where the address leaves that to the library."""
    database: str = ""
    user: str = ""
    is_readable: bool = True
    names_a_role: bool = False
    """Whether it says itself what a server has to be."""

    @property
    def place(self) -> str:
        """Where it is, as errors and logs may say it."""
        return f"{', '.join(map(_shown, self.hosts)) or 'this machine'}/{self.database}" if self.is_readable else "?"

    @property
    def server(self) -> str:
        """Name the servers in a sentence."""
        return f"PostgreSQL at {' or '.join(map(_shown, self.hosts)) or 'its usual place on this machine'}"


def read(url: str) -> Address:
    """Read an address, as far as it can be shown."""
    try:
        parts = urlsplit(url)
        asked = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        sign_in, _, place = parts.netloc.rpartition("@")
        hosts = _hosts(place or asked.get("host", ""), asked.get("port", ""))
    except ValueError:
        return Address(is_readable=False)
    user = unquote(sign_in.partition(":")[0]) or asked.get("user") or os.environ.get("PGUSER") or _whoever_runs_this()
    database = unquote(parts.path[1:]) or asked.get("dbname") or asked.get("database") or user
    if "@" in sign_in or any(sign in parts.path[1:] for sign in "@/:"):
        return Address(is_readable=False)
    return Address(hosts=hosts, database=database, user=user, names_a_role="target_session_attrs" in asked)


def why(error: BaseException, address: Address, code: str) -> str:
    """Say why a database cannot be opened, and what to check.

    `code` is what PostgreSQL calls the error, where it is one of its own.
    """
    if not address.is_readable:
        return f"The database address cannot be read. {_SPELLING}"
    say = _SAID.get(code) or _SAID.get(code[:2]) or _of_the_network(error)
    return say(address) if say is not None else f"{address.server} cannot be used: {code or type(error).__name__}."


def _of_the_network(error: BaseException) -> Callable[[Address], str] | None:
    # The order counts: the last of them is what all the others are.
    for kind, say in _KINDS:
        if isinstance(error, kind):
            return say
    return None


def _hosts(names: str, ports: str) -> tuple[Host, ...]:
    if not names:
        return ()
    apart = [_apart(name) for name in names.split(",")]
    given = (ports or os.environ.get("PGPORT") or _PORT).split(",")
    given = given * len(apart) if len(given) == 1 else given
    return tuple((host, int(port or default)) for (host, port), default in zip(apart, given, strict=True))


def _apart(name: str) -> tuple[str, str]:
    name = unquote(name)
    if name.startswith("/"):
        return name, ""
    if name.startswith("["):
        host, _, port = name[1:].partition("]")
        return host, port.removeprefix(":")
    host, _, port = name.partition(":")
    return host, port


def _shown(host: Host) -> str:
    name, port = host
    if name.startswith("/"):
        return f"{name}/.s.PGSQL.{port}"
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def _whoever_runs_this() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


_SPELLING = (
    "It looks like postgresql://user:password@host:5432/name; in user and password, write signs such as @ : / ? #"
    " as %40 %3A %2F %3F %23."
)
_SAID: dict[str, Callable[[Address], str]] = {
    "28": lambda to: (
        f"{to.server} does not let {to.user} into the database {to.database}. Check user and password in database_url,"
        " and that pg_hba.conf of the server lets this machine in."
    ),
    "3D000": lambda to: (
        f"{to.server} has no database {to.database}. Check the name in database_url, or make it: createdb {to.database}"
    ),
    "42501": lambda to: (
        f"{to.server} does not let {to.user} make or use the schema switchboard in the database {to.database}."
        f" Let it: GRANT CREATE ON DATABASE {to.database} TO {to.user}; a schema that is there already must be its own."
    ),
    "25006": lambda to: (
        f"{to.server} takes no changes: is it a standby? Name the server that leads in database_url, or all of them,"
        " one after the other, with commas."
    ),
    "53300": lambda to: (
        f"{to.server} has no connection left. An instance needs up to 12: raise max_connections, or end what uses them."
    ),
    "53": lambda to: f"{to.server} has no room left. Look at its disk and memory, and at its log.",
    "58": lambda to: f"{to.server} cannot use its disk. Look at its log.",
    "57P03": lambda to: f"{to.server} is starting or stopping. Try again in a moment.",
}
_KINDS: tuple[tuple[type[BaseException], Callable[[Address], str]], ...] = (
    (
        gaierror,
        lambda to: (
            f"The host of the database is not known: {', '.join(map(_shown, to.hosts))}. Check its name in"
            " database_url, and that this machine can resolve it."
        ),
    ),
    (
        ssl.SSLError,
        lambda to: (
            f"{to.server} cannot be trusted. Check its certificate, and sslmode and sslrootcert in database_url."
        ),
    ),
    (
        ValueError,
        lambda to: f"The database address cannot be used for {to.place}. {_SPELLING}",
    ),
    (
        TimeoutError,
        lambda to: (
            f"{to.server} does not answer in time. Check host and port in database_url, and firewalls in between."
        ),
    ),
    (
        FileNotFoundError,
        lambda to: f"{to.server} does not run, or has its socket elsewhere. Start it, or check host in database_url.",
    ),
    (
        OSError,
        lambda to: (
            f"{to.server} cannot be reached. Check host and port in database_url, that it runs, and that it listens"
            " on that address (listen_addresses)."
        ),
    ),
)
