"""The things of the catalogue: owners (App, Agent), their capabilities, and who calls them.

Values only, frozen. The wire's spelling stops in `descriptors/` and in the faces.
"""

from typing import Literal

from msgspec import Struct

from switchboard.catalog.bindings import Auth, Binding, Execution, Json
from switchboard.catalog.text import clean

Platform = Literal["macos", "linux", "windows", "web", "agent"]
"""Where an owner is at home; `agent` is a program that registered with a control plane."""
Health = Literal["active", "inactive", "degraded", "unknown"]
Kind = Literal["tool", "reasoner", "skill"]

_LONGEST_CALLER = 100


class Names(Struct, frozen=True):
    """What a thing is called, by BCP 47 tag, in the order of the descriptor; `default` is one of the tags."""

    texts: tuple[tuple[str, str], ...]
    default: str

    @property
    def primary(self) -> str:
        """The name in the default language."""
        return dict(self.texts)[self.default]

    @property
    def all(self) -> tuple[str, ...]:
        """Every different name, the primary one first: a model may look for any of them."""
        return tuple(dict.fromkeys((self.primary, *(text for _, text in self.texts))))


class Annotations(Struct, frozen=True, kw_only=True):
    """What a capability says it does to the world: hints for the person who is asked, no promise."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


class Capability(Struct, frozen=True, kw_only=True):
    """One thing an owner can do: a tool of an app, a reasoner or a skill of an agent."""

    kind: Kind
    id: str
    binding: Binding
    description: str = ""
    tags: tuple[str, ...] = ()
    input_schema: Json | None = None
    output_schema: Json | None = None
    examples: Json | None = None
    annotations: Annotations | None = None


class Standing(Struct, frozen=True, kw_only=True):
    """How somebody is who lives elsewhere, as far as it is known: since when, why, and since when nobody can say."""

    health: Health = "active"
    since: float | None = None
    reason: str = ""
    stale_since: float | None = None
    planes: tuple[str, ...] = ()
    """The addresses of the control planes that know it: what people are shown, and no part of what they allow."""

    @property
    def is_refused(self) -> bool:
        """Whether calling it is known to be in vain: what was heard long ago may be otherwise by now."""
        return self.health == "inactive" and self.stale_since is None


class App(Struct, frozen=True, kw_only=True):
    """A desktop or web app as its descriptor says, or an agent where agents are shown as apps.

    `origin` is who served it; `standing` is there where somebody watches over it.

    `raw` is that text as published, where it is not left where it was found: hundreds of them are megabytes.
    """

    id: str
    version: str
    platform: Platform
    names: Names
    description: str
    execution: Execution
    aliases: tuple[str, ...] = ()
    icon_url: str | None = None
    auth: Auth | None = None
    capabilities: tuple[Capability, ...] = ()
    origin: str = ""
    raw: bytes = b""
    standing: Standing | None = None

    def capability(self, name: str) -> Capability | None:
        """Return the tool of that name; one of an agent also by its kind and name, as targets have them."""
        found = next((tool for tool in self.capabilities if tool.id == name), None)
        if found is None and self.platform == "agent" and ":" in name:
            kind, _, plain = name.partition(":")
            found = next((tool for tool in self.capabilities if tool.id == plain and tool.kind == kind), None)
        return found


class Agent(Struct, frozen=True, kw_only=True):
    """An agent as it registered, reasoners before skills. Heartbeats are not here: they change no answer."""

    id: str
    base_url: str
    version: str = ""
    group_id: str = ""
    team_id: str = "default"
    deployment_type: str = "long_running"
    description: str = ""
    tags: tuple[str, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    reasoner_count: int = 0
    health: Health = "unknown"
    instance_id: str = ""
    raw: Json = Json(b"{}")

    @property
    def reasoners(self) -> tuple[Capability, ...]:
        """Its reasoners, in the order they were registered."""
        return self.capabilities[: self.reasoner_count]

    @property
    def skills(self) -> tuple[Capability, ...]:
        """Its skills, in the order they were registered."""
        return self.capabilities[self.reasoner_count :]

    def capability(self, name: str, kind: Kind | None = None) -> Capability | None:
        """Return the capability of that name; without a kind the reasoner comes before the skill."""
        return next((item for item in self.capabilities if item.id == name and kind in (None, item.kind)), None)


Owner = App | Agent


class Caller(Struct, frozen=True):
    """Who calls, as it says itself. Told to the user who is asked; not a proof of anything."""

    name: str = "Unknown Client"
    version: str = ""

    @classmethod
    def called(cls, name: str, version: str = "") -> "Caller":
        """Return who gives itself this name, as it is shown and remembered, whoever wrote it down."""
        return cls(clean(name, _LONGEST_CALLER) or cls().name, clean(version, _LONGEST_CALLER))
