"""Addresses of capabilities, and every spelling of them that reaches us.

One address has one canonical text, which reads back to exactly that address: `owner:name` for a tool or a reasoner,
`owner:skill:name` for a skill, with `%` and a misleading `:` percent-encoded. Other spellings (`a.b`, `a.skill:b`,
`a:reasoner:b`, dotted owners, the Go SDK's `self.other:name`) say less than an address: `readings` lists what a text
can mean, best first, and whoever knows the owners picks the first that exists.

MCP tool names are here too, in the spelling of the seeds (`app:<id>`) and in the portable one (`app_<id>`).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from hashlib import blake2s

from msgspec import Struct

from switchboard.catalog.errors import AmbiguousName, InvalidTarget, UnknownApp
from switchboard.catalog.model import Capability, Kind

GUIDE_PREFIX = "app:"
DISCOVER = "web:discover"
EXECUTE = "aai:exec"
PORTABLE_DISCOVER = "web_discover"
PORTABLE_EXECUTE = "aai_exec"
PORTABLE_PREFIX = "app_"
PORTABLE_LIMIT = 39
"""Portable names stay under 40 characters: clients put their own prefix before them and refuse more than 64."""

_DIGESTS = (4, 8, 16)
"""Bytes of the hash in a portable name: the first is short to read, the last cannot be met on purpose."""
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_FORBIDDEN_FOLDER = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_MARKED_KINDS: tuple[Kind, ...] = ("skill", "reasoner")
_LONGEST_TARGET = 4000
"""An owner and a name of 500 characters each, every one of them percent-encoded, and a kind between them."""


def is_folder_name(text: str) -> bool:
    """Tell whether a folder may have this name on every system, and cannot lead anywhere else."""
    return bool(_FOLDER.fullmatch(text)) and not text.endswith(".") and not _FORBIDDEN_FOLDER.fullmatch(text)


class Address(Struct, frozen=True):
    """Where one capability is; `kind` is None where the spelling does not say it."""

    owner: str
    name: str
    kind: Kind | None = None

    def __str__(self) -> str:
        return target(self)


def address_of(owner: str, capability: Capability) -> Address:
    """Return the full address of a capability."""
    return Address(owner, capability.id, capability.kind)


def target(address: Address) -> str:
    """Return the canonical text of an address, the one discovery prints as `invocation_target`."""
    owner = address.owner.replace("%", "%25").replace(":", "%3A")
    name = address.name.replace("%", "%25")
    if address.kind == "skill":
        return f"{owner}:skill:{name}"
    if name.startswith(tuple(f"{kind}:" for kind in _MARKED_KINDS)):
        name = name.replace(":", "%3A", 1)
    return f"{owner}:{name}"


def parse_target(text: str) -> Address:
    """Read the canonical text: the inverse of `target`, except that tools and reasoners are not told apart.

    Raises:
        InvalidTarget: there is no `:` with something on both sides.
    """
    if not _is_canonical(text):
        raise InvalidTarget(text[:_LONGEST_TARGET])
    owner, _, rest = text.partition(":")
    kind, name = _split_kind(rest)
    return Address(_decoded(owner), _decoded(name), kind)


def readings(text: str) -> Iterator[Address]:
    """Yield every address the text can mean: canonical first, then by longest owner, then without a leading owner."""
    if len(text) > _LONGEST_TARGET:
        return
    if _is_canonical(text):
        yield parse_target(text)
    yield from _splits(text)
    # The Go SDK puts its own node before a target that it does not understand: `self.other:name`.
    for position, char in enumerate(text):
        if char == "." and _is_canonical(text[position + 1 :]):
            yield parse_target(text[position + 1 :])


def _is_canonical(text: str) -> bool:
    owner, _, rest = text.partition(":")
    return bool(owner and rest) and len(text) <= _LONGEST_TARGET


def _splits(text: str) -> Iterator[Address]:
    for position in range(len(text) - 2, 0, -1):
        if text[position] in ".:":
            kind, name = _split_kind(text[position + 1 :])
            if kind is not None:
                yield Address(text[:position], name, kind)
            yield Address(text[:position], text[position + 1 :])


def _split_kind(rest: str) -> tuple[Kind | None, str]:
    for kind in _MARKED_KINDS:
        if rest.startswith(f"{kind}:") and len(rest) > len(kind) + 1:
            return kind, rest[len(kind) + 1 :]
    return None, rest


def _decoded(text: str) -> str:
    return text.replace("%3A", ":").replace("%3a", ":").replace("%25", "%")


def guide_name(app_id: str) -> str:
    """Return the MCP name of an app's guide, as the seeds spell it."""
    return GUIDE_PREFIX + app_id


class PortableNames:
    """The apps' names as `^[a-zA-Z0-9_-]{1,39}$`, which every model API accepts, and the way back.

    Apps whose names would be equal all get a hash, and a longer one if that is not enough, for ids can be made to fit
    one. The name they would have shared is then ambiguous, and says so: nobody gets it.
    """

    def __init__(self, app_ids: Iterable[str]) -> None:
        level = {app_id: 0 if len(_plain(app_id)) <= PORTABLE_LIMIT else 1 for app_id in app_ids}
        shared: defaultdict[str, set[str]] = defaultdict(set)
        for app_id in level:
            shared[_plain(app_id)].add(app_id)
        contested = {name for name, ids in shared.items() if len(ids) > 1}
        raised = True
        while raised:
            self._names = {app_id: _spelled(app_id, step) for app_id, step in level.items()}
            holders: defaultdict[str, list[str]] = defaultdict(list)
            for app_id, name in self._names.items():
                holders[name].append(app_id)
            raised = False
            for name, ids in holders.items():
                if len(ids) > 1 or name in contested:
                    contested.add(name)
                    shared[name].update(ids)
                    for app_id in ids:
                        if level[app_id] < len(_DIGESTS):
                            level[app_id] += 1
                            raised = True
        self._ids = {name: app_id for app_id, name in self._names.items()}
        self._shared = dict(shared)

    def name_of(self, app_id: str) -> str:
        """Return the portable name of one of the apps."""
        return self._names[app_id]

    def id_of(self, name: str) -> str:
        """Return the app a portable name means.

        Raises:
            AmbiguousName: several apps would share this name.
            UnknownApp: none has it.
        """
        if name in self._ids:
            return self._ids[name]
        candidates = sorted(self._shared.get(name, ()))
        if len(candidates) > 1:
            raise AmbiguousName(name, candidates)
        if not candidates:
            raise UnknownApp(name)
        return candidates[0]


def _plain(app_id: str) -> str:
    return PORTABLE_PREFIX + re.sub(r"[^A-Za-z0-9_-]", "_", app_id)


def _spelled(app_id: str, level: int) -> str:
    """Return the plain name of an app, or at a higher level one with a hash, the longer the higher."""
    plain = _plain(app_id)
    if level == 0:
        return plain
    digest = blake2s(app_id.encode(errors="surrogatepass"), digest_size=_DIGESTS[level - 1]).hexdigest()
    return f"{plain[: PORTABLE_LIMIT - len(digest) - 1]}_{digest}"
