"""What the outside says about this run: the system, and the settings of the control plane.

Settings come from flags, then the environment, then a file, then defaults. Reads the process and its environment, and
decides nothing else.
"""

import os
import re
import sys
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

from msgspec import Meta, Struct, ValidationError, convert

from switchboard.named import is_loopback

LogLevel = Literal["debug", "info", "warning", "error"]
Caching = Literal["on", "one", "off"]
CONFIG_VARIABLE = "SWITCHBOARD_CONFIG"
CACHES_VARIABLE = "SWITCHBOARD_CACHES"
_VARIABLES = {
    "host": ("SWITCHBOARD_HOST",),
    "port": ("SWITCHBOARD_PORT", "AGENTFIELD_PORT"),
    "database_url": ("SWITCHBOARD_DATABASE_URL",),
    "api_key": ("SWITCHBOARD_API_KEY", "AGENTFIELD_API_KEY"),
    "log_level": ("SWITCHBOARD_LOG_LEVEL",),
    "cache_ttl": ("SWITCHBOARD_CACHE_TTL",),
    "caches": (CACHES_VARIABLE,),
    "agent_concurrency": ("SWITCHBOARD_AGENT_CONCURRENCY",),
    "agent_timeout": ("SWITCHBOARD_AGENT_TIMEOUT",),
    "execution_timeout": ("SWITCHBOARD_EXECUTION_TIMEOUT",),
    "report_timeout": ("SWITCHBOARD_REPORT_TIMEOUT",),
    "agent_lost_after": ("SWITCHBOARD_AGENT_LOST_AFTER",),
    "drain_seconds": ("SWITCHBOARD_DRAIN_SECONDS",),
    "instance_lease": ("SWITCHBOARD_INSTANCE_LEASE",),
    "database_timeout": ("SWITCHBOARD_DATABASE_TIMEOUT",),
    "mcp_enabled": ("SWITCHBOARD_MCP_ENABLED", "AGENTFIELD_MCP_ENABLED"),
    "mcp_origins": ("SWITCHBOARD_MCP_ORIGINS",),
    "public_registry": ("SWITCHBOARD_PUBLIC_REGISTRY",),
    "public_url": ("SWITCHBOARD_PUBLIC_URL",),
}


_ORIGIN = re.compile(r"https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
_PUBLIC_URL = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+(/[A-Za-z0-9._~/-]*)?")
_EVERYBODY = ("anonymous", "*")
"""Names in rules that are nobody's: who comes to a server without keys, and whoever comes."""
_WANTED = {"log_level": "It can be debug, info, warning or error."}
"""What to do about a setting, where the reason alone does not say it."""


class SettingsError(Exception):
    """A setting cannot be used; the message says which one, where it came from, and what to do."""


class ServeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the control plane runs."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8080
    database_url: str = ""
    api_key: str | None = None
    log_level: LogLevel = "info"
    cache_ttl: Annotated[float, Meta(ge=0, le=30)] = 30.0
    """Seconds after which a reader asks the store for news, even if none came."""
    caches: Caching = "on"
    """Whether work is saved by remembering: as usual, one thing at a time, or not at all. Answers are the same."""
    demo: bool = False
    keys: dict[str, str] = {}
    """More keys, by the name of whoever has one; `api_key` is the key of `default`."""
    allow: dict[str, list[str]] = {}
    """Who may execute: agent patterns, each with the names of the callers it is for; others are open to every key."""
    agent_concurrency: Annotated[int, Meta(ge=1)] = 64
    """How many executions one agent works on at once."""
    agent_timeout: Annotated[float, Meta(gt=0)] = 90.0
    """Seconds an agent may take to answer."""
    execution_timeout: Annotated[float, Meta(gt=0)] = 3600.0
    """Seconds an agent may work on one execution."""
    report_timeout: Annotated[float, Meta(gt=0)] = 20.0
    """Seconds after a restart in which an agent may still report what nobody knows it has."""
    agent_lost_after: Annotated[float, Meta(ge=0)] = 30.0
    """Seconds an agent may be gone before what it was working on has failed."""

    drain_seconds: Annotated[float, Meta(ge=0, le=600)] = 0.0
    """Seconds to go on serving after being told to stop, while `/ready` says no: so long others may take to notice."""
    instance_lease: Annotated[float, Meta(ge=2, le=600)] = 5.0
    """Seconds an instance may be silent before others on the same database take over what it had to do."""
    database_timeout: Annotated[float, Meta(gt=0, le=60)] = 5.0
    """Seconds a statement may take in PostgreSQL."""
    public_registry: bool = False
    """Whether published apps may be read without a key."""
    public_url: str = ""
    """What addresses of this server begin with, where that is not what it is asked under, as behind a proxy."""
    mcp_enabled: bool = True
    """Whether there is MCP at `/mcp`."""
    mcp_origins: list[str] = []
    """Origins of web pages that may speak MCP here, beside pages of this server itself."""
    mcp_allow: dict[str, list[str]] = {}
    """What may run over MCP beyond what only reads: rules `owner pattern:capability pattern`, by the caller's name."""

    @property
    def callers(self) -> dict[str, str]:
        """Every key by the name of its owner."""
        return ({"default": self.api_key} if self.api_key else {}) | self.keys

    @property
    def is_for_this_machine(self) -> bool:
        """Whether nobody else comes: it listens here, and no proxy is said to pass others on.

        Only then is an address of this machine as good as any other: what others publish must not reach inside it.
        """
        others = urlsplit(self.public_url).hostname or "localhost"
        return is_loopback(self.host) and is_loopback(others)

    def __repr__(self) -> str:
        key = "set" if self.callers else "none"
        return f"ServeSettings({self.host}:{self.port}, {without_password(self.database_url)}, api_key {key})"


def system() -> Literal["macos", "linux", "windows"]:
    """Return the operating system; every Unix that is not macOS keeps its apps where Linux does."""
    if sys.platform == "darwin":
        return "macos"
    return "windows" if sys.platform == "win32" else "linux"


def serve_settings(flags: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> ServeSettings:
    """Gather the settings: a flag wins over the environment, which wins over the file.

    Raises:
        SettingsError: one of them cannot be used, or they do not fit together.
    """
    config = flags.get("config") or environment.get(CONFIG_VARIABLE)
    given = _from_file(Path(config)) if config else {}
    for name, variables in _VARIABLES.items():
        value = next((environment[variable] for variable in variables if environment.get(variable)), None)
        if value is not None:
            given[name] = value.split() if name == "mcp_origins" else value
    given.update({name: value for name, value in flags.items() if value is not None and name != "config"})
    try:
        settings = convert(given, ServeSettings, strict=False)
    except ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        named = where.strip("`.") or "of that name"
        do = _WANTED.get(named, "Correct or remove it.")
        raise SettingsError(f"The setting {named} cannot be used: {what}. {do}") from error
    _check_keys(settings)
    _check_rules(settings)
    _check_mcp(settings)
    _check_public_url(settings)
    if not settings.callers and not is_loopback(settings.host):
        raise SettingsError(
            f"{settings.host} can be reached from other machines, so an API key is needed. Set SWITCHBOARD_API_KEY, "
            "or listen on 127.0.0.1."
        )
    return settings


def caching(environment: Mapping[str, str]) -> Caching | None:
    """Return how much a gateway or a command may remember to save work; None where that is said in an unknown word."""
    wanted = environment.get(CACHES_VARIABLE, "").strip().lower() or "on"
    return next((known for known in get_args(Caching) if known == wanted), None)


def is_postgres(url: str) -> bool:
    """Tell whether a database address is one of PostgreSQL."""
    return url.startswith(("postgresql://", "postgres://"))


def without_password(url: str) -> str:
    """Return a database address as it may be shown."""
    if not is_postgres(url):
        return url
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


def database_path(url: str) -> str:
    """Return the SQLite file of a database address, by default one in the user's data folder.

    Raises:
        SettingsError: it is some other kind of database.
    """
    if not url:
        return str(data_folder() / "control-plane.db")
    if url.startswith("sqlite:///") and url != "sqlite:///":
        return url.removeprefix("sqlite:///")
    kind = url.partition(":")[0]
    raise SettingsError(f"{kind} databases are not supported. Use sqlite:///FILE or postgresql://USER@HOST/NAME.")


Half = Literal["gateway", "control-plane"]
AUDITED: tuple[Half, ...] = ("gateway", "control-plane")


def audit_file(half: Half) -> Path:
    """Return where one half of the product keeps its audit record."""
    return data_folder() / "audit" / f"{half}.jsonl"


def data_folder() -> Path:
    """Return where everything of this user is kept that is not given a place of its own."""
    import platformdirs  # noqa: PLC0415 - not every command needs it

    return Path(platformdirs.user_data_dir("switchboard", appauthor=False))


def _check_keys(settings: ServeSettings) -> None:
    """Refuse keys that would let anybody in, or leave open whose they are; a key itself is never shown."""
    if settings.api_key is not None and not settings.api_key.strip():
        raise SettingsError("The setting api_key is empty. Give it a key, or leave it out.")
    if settings.api_key is not None and "default" in settings.keys:
        raise SettingsError("Both api_key and keys have a key for default. Leave one of them out.")
    owners: dict[str, str] = {}
    for name, key in settings.callers.items():
        if name in _EVERYBODY:
            raise SettingsError(f"A key in keys is called {name!r}, which means everybody elsewhere. Rename it.")
        if not key.strip():
            raise SettingsError(f"The key of {name!r} in keys is empty. Give it a key, or leave it out.")
        if key in owners:
            raise SettingsError(f"{owners[key]!r} and {name!r} have the same key. Give each caller a key of its own.")
        owners[key] = name


def _check_rules(settings: ServeSettings) -> None:
    """Refuse names in rules that nobody can have: such a rule would close an agent to whom it was meant for."""
    known = [*settings.callers, *_EVERYBODY]
    for pattern, names in settings.allow.items():
        for name in names:
            if name not in known:
                near = get_close_matches(name, list(settings.callers) or ["anonymous"], 1, 0)[0]
                raise SettingsError(
                    f"The rule for {pattern!r} in allow names {name!r}, which has no key. Did you mean {near!r}?"
                )


def _check_mcp(settings: ServeSettings) -> None:
    """Refuse what would allow nothing, or not what was meant."""
    for name, rules in settings.mcp_allow.items():
        if name not in (*settings.callers, *_EVERYBODY):
            near = get_close_matches(name, list(settings.callers) or ["anonymous"], 1, 0)[0]
            raise SettingsError(f"mcp_allow has rules for {name!r}, which has no key. Did you mean {near!r}?")
        for rule in rules:
            owner, _, capability = rule.partition(":")
            if not owner or not capability:
                raise SettingsError(
                    f"The rule {rule!r} for {name!r} in mcp_allow is none. Write owner:capability; both may contain *."
                )
    for origin in settings.mcp_origins:
        if not _ORIGIN.fullmatch(origin):
            raise SettingsError(f"{origin!r} in mcp_origins is not an origin. Write https://host, or http://host:port.")


def _check_public_url(settings: ServeSettings) -> None:
    """Refuse what others could not use as the beginning of an address; the value is not repeated."""
    if settings.public_url and not (_PUBLIC_URL.fullmatch(settings.public_url) and _has_host(settings.public_url)):
        raise SettingsError("The setting public_url must be https://HOST, or https://HOST/PATH, without a query.")


def _has_host(url: str) -> bool:
    try:
        return bool(urlsplit(url).hostname)
    except ValueError:
        return False


def _from_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"The settings file {path} cannot be read: {error.strerror}. Name another one.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"The settings file {path} is not TOML: {error}. Correct it.") from error
