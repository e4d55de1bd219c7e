"""Secrets in the keychain of the operating system.

One item for each name; where the system's items are short, one that leads to numbered parts. A keychain cannot be
listed, so the names are kept in it as well. No call waits longer than a limit, although a locked keychain may show a
dialog that nobody answers; and none keeps the process from ending.

Whatever moment a process ends at: a name that something is kept under is always listed, and a text is whole.
"""

import secrets
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from hashlib import sha256
from os import O_CREAT, O_WRONLY, close, ftruncate, utime
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Generic, Literal, TypeVar, final

import msgspec
from msgspec import Struct

from switchboard.catalog.errors import VaultUnavailable
from switchboard.vaults.keyring_backends import REMEDY, Backend, is_passing, longest, probe
from switchboard.vaults.locks import LIMIT_S, later, locked, open_own, own_folder, stamp
from switchboard.vaults.vault import Change, Vault

SERVICE = "aai-gateway"
_INDEX = "aai-gateway index"
_PARTS = "aai-gateway parts"
_MARKER = "keychain.version"
_WHOLE, _DIVIDED = "=", "#"
_LONGEST_ACCOUNT = 200
"""Windows takes 513 characters, and what we put around it needs some."""
_HASHED = "sha256:"
_TAG = 16
T = TypeVar("T")


@final
class Keychain(Vault):
    """Keeps each text in the system's keychain; the folder holds the lock, and the time of the last change.

    `find` returns the backend when it is first needed, and is asked again after a failure. `part` is the most that one
    item takes, in units of UTF-16; it is the backend's own unless told.
    """

    def __init__(
        self, folder: Path, find: Callable[[], Backend], *, part: int | None = None, limit_s: float = LIMIT_S
    ) -> None:
        self._folder = folder
        self._find = find
        self._part = part
        self._errands = _Errands(limit_s)
        self._marker = Marker(folder / _MARKER)
        self._backend: Backend | None = None
        self._probe = secrets.token_hex(8)

    def check(self) -> None:
        """Make sure that there is a keychain which keeps what is put into it.

        Raises:
            VaultUnavailable: there is none.
        """
        self._errands.run(self._items)

    def read(self, name: str) -> str | None:
        """Return what is kept under a name."""
        return self._errands.run(lambda deadline: self._texts(deadline).read(SERVICE, _account(name)))

    def names(self) -> list[str]:
        """Return every name; each is looked up, since one that is listed may be gone."""

        def run(deadline: "_Deadline") -> list[str]:
            texts = self._texts(deadline)
            return sorted(name for name in _listed(texts) if texts.has(SERVICE, _account(name)))

        return self._errands.run(run)

    def version(self) -> object:
        """Return the time of the last change; while one is going on, or was cut off, always something new."""
        return self._marker.version()

    def change(self, name: str, change: Change) -> str | None:
        """Replace what is kept, with nobody else in between.

        All of it is one errand, lock included: a write that hangs must still exclude others when it wakes up.
        """

        def run(deadline: "_Deadline") -> str | None:
            texts, account = self._texts(deadline), _account(name)
            with locked(self._folder, deadline.left_s()):
                before = texts.read(SERVICE, account)
                after = change(before)
                if after != before:
                    _require_text(after)
                    deadline.require()  # the caller's part may have taken long
                    with self._marker.changing():
                        _keep(texts, name, before, after)
                return after

        return self._errands.run(run)

    def _texts(self, deadline: "_Deadline") -> "_Texts":
        items = self._items(deadline)
        return _Texts(items, self._part or longest(items.backend))

    def _items(self, deadline: "_Deadline") -> "_Items":
        if self._backend is None:
            own_folder(self._folder)
            self._backend = _done(self._working, deadline)
        return _Items(self._backend, deadline)

    def _working(self) -> Backend:
        backend = self._find()
        probe(backend, self._probe)
        return backend


def _keep(texts: "_Texts", name: str, before: str | None, after: str | None) -> None:
    """Write in the order that never leaves an item which is not listed."""
    if after is None:
        texts.remove(SERVICE, _account(name))
        _list(texts, _listed(texts) - {name})
        return
    if before is None:
        _list(texts, _listed(texts) | {name})
    texts.write(SERVICE, _account(name), after)


def _listed(texts: "_Texts") -> set[str]:
    return msgspec.json.decode(texts.read(_INDEX, "names") or "[]", type=set[str])


def _list(texts: "_Texts", names: set[str]) -> None:
    texts.write(_INDEX, "names", msgspec.json.encode(sorted(names)).decode())


def _account(name: str) -> str:
    """Return the account of a name: itself, where every keychain takes it."""
    _require_text(name)
    if name.isprintable() and 0 < _units(name) <= _LONGEST_ACCOUNT and not name.startswith(_HASHED):
        return name
    return _HASHED + sha256(name.encode()).hexdigest()


def _require_text(text: str | None) -> None:
    try:
        (text or "").encode()
    except UnicodeEncodeError:  # which holds the text
        raise VaultUnavailable("This is no text that can be kept: half a character is in it.") from None


@final
class Marker:
    """A file whose time tells everybody that something changed, and whose size that something is changing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def version(self) -> object:
        """Return what is equal only while nothing changes."""
        found = stamp(self._path)
        return object() if found and found[2] else found

    def exists(self) -> bool:
        """Tell whether anything was ever changed."""
        return stamp(self._path) is not None

    @contextmanager
    def changing(self) -> Generator[None]:
        """Mark a change before it begins and when it is over, in whichever way; under the lock.

        One mark after it were lost with the process that ends in between, and others would go on with what they know.
        """
        self._mark(1)
        try:
            yield
        finally:
            self._mark(0)

    def _mark(self, size: int) -> None:
        moment = later(self._path)
        try:
            descriptor = open_own(self._path, O_WRONLY | O_CREAT)
            try:
                ftruncate(descriptor, size)
            finally:
                close(descriptor)
            utime(self._path, ns=(moment, moment))
        except OSError as error:
            raise VaultUnavailable(
                f"{self._path} cannot be written: {error.strerror}. Make room, or make it yours."
            ) from error


def marker(folder: Path) -> Marker:
    """Return the marker of the keychain that has its lock in a folder."""
    return Marker(folder / _MARKER)


class _Divided(Struct, frozen=True):
    """What stands in an item whose text is in parts: which of two sets, how many, and how each of them begins."""

    generation: Literal["a", "b"]
    parts: int
    tag: str

    def __str__(self) -> str:
        return f"{_DIVIDED}{self.generation}{self.tag}{self.parts}"


def _divided(head: str) -> _Divided | None:
    generation, tag, count = head[1:2], head[2 : 2 + _TAG], head[2 + _TAG :]
    if head[:1] != _DIVIDED or generation not in ("a", "b") or not count.isdecimal():
        return None
    return _Divided("a" if generation == "a" else "b", int(count), tag)


@final
class _Texts:
    """Texts of any length in items of a certain one.

    New parts go into the set that is not in use; then the head is replaced, which makes them valid at once; then the
    old ones are removed. Whatever a crash leaves lies in the other set, without a gap, and goes with the next write.
    """

    def __init__(self, items: "_Items", part: int | None) -> None:
        self._items = items
        self._part = part

    def has(self, service: str, account: str) -> bool:
        return self._items.get(service, account) is not None

    def read(self, service: str, account: str) -> str | None:
        """Return a text. Readers take no lock: where a part is not the head's, there must be a new head by now."""
        head = self._items.get(service, account)
        while head is not None and head[:1] != _WHOLE:
            text = self._joined(service, account, _divided(head))
            if text is not None:
                return text
            before, head = head, self._items.get(service, account)
            if head == before:
                raise VaultUnavailable(
                    f"The item {account!r} of {service!r} in the keychain is damaged. Remove it there, and try again.",
                    name=account,
                )
        return None if head is None else head[1:]

    def write(self, service: str, account: str, text: str) -> None:
        old = self._items.get(service, account) or ""
        if self._part is None or _units(text) < self._part:
            used, head = None, _WHOLE + text
        else:
            used = self._write_parts(service, account, text, _divided(old))
            head = str(used)
        self._items.set(service, account, head)
        if self._part is not None or old[:1] == _DIVIDED:
            self._remove_parts(service, account, used)

    def remove(self, service: str, account: str) -> None:
        old = self._items.get(service, account) or ""
        self._items.delete(service, account)
        if self._part is not None or old[:1] == _DIVIDED:
            self._remove_parts(service, account, None)

    def _joined(self, service: str, account: str, head: _Divided | None) -> str | None:
        if head is None:
            return None
        pieces: list[str] = []
        for number in range(head.parts):
            piece = self._items.get(_PARTS, _part(service, account, head.generation, number))
            if piece is None or piece[:_TAG] != head.tag:
                return None
            pieces.append(piece[_TAG:])
        return "".join(pieces)

    def _write_parts(self, service: str, account: str, text: str, old: _Divided | None) -> _Divided:
        generation = "b" if old and old.generation == "a" else "a"
        tag = secrets.token_hex(_TAG // 2)
        pieces = list(_cut(text, (self._part or 0) - _TAG))
        for number, piece in enumerate(pieces):
            self._items.set(_PARTS, _part(service, account, generation, number), tag + piece)
        return _Divided(generation, len(pieces), tag)

    def _remove_parts(self, service: str, account: str, used: _Divided | None) -> None:
        """Remove all parts but those in use, the last first, so that a crash leaves no gap before any."""
        for generation in ("a", "b"):
            first = used.parts if used and used.generation == generation else 0
            end = first
            while self._items.get(_PARTS, _part(service, account, generation, end)) is not None:
                end += 1
            for number in reversed(range(first, end)):
                self._items.delete(_PARTS, _part(service, account, generation, number))


def _part(service: str, account: str, generation: str, number: int) -> str:
    return f"{service}/{account}/{generation}{number}"


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _cut(text: str, longest: int) -> Iterator[str]:
    """Yield a text in pieces of so many units of UTF-16, of which a character has one or two."""
    start = units = 0
    for at, character in enumerate(text):
        width = 2 if character > "\uffff" else 1
        if units + width > longest:
            yield text[start:at]
            start, units = at, 0
        units += width
    yield text[start:]


@final
class _Items:
    """The border to the backend: each call within the limit, each error one of ours."""

    def __init__(self, backend: Backend, deadline: "_Deadline") -> None:
        self.backend = backend
        self._deadline = deadline

    def get(self, service: str, account: str) -> str | None:
        return _done(lambda: self.backend.get_password(service, account), self._deadline)

    def set(self, service: str, account: str, text: str) -> None:
        _done(lambda: self.backend.set_password(service, account, text), self._deadline)

    def delete(self, service: str, account: str) -> None:
        try:
            _done(lambda: self.backend.delete_password(service, account), self._deadline)
        except VaultUnavailable:
            if self.get(service, account) is not None:  # else it was gone already, which backends call an error
                raise


def _done(work: Callable[[], T], deadline: "_Deadline") -> T:
    """Do something that may be done twice; once more where the keychain fell over, and is back by now."""
    deadline.require()
    try:
        return _translated(work)
    except VaultUnavailable as error:
        if not is_passing(error.__cause__):
            raise
    deadline.require()
    return _translated(work)


def _translated(work: Callable[[], T]) -> T:
    try:
        return work()
    except VaultUnavailable:
        raise
    except Exception as error:  # backends are somebody else's code, and raise what they like
        raise _refused(error) from error


def _refused(error: Exception) -> VaultUnavailable:
    """Say it without the error's own words: who knows what a backend puts into them."""
    from keyring.errors import KeyringLocked  # noqa: PLC0415 - on first use

    if isinstance(error, KeyringLocked):
        return VaultUnavailable("The keychain is locked. Unlock it, and try again.")
    return VaultUnavailable(f"The keychain does not work here ({type(error).__name__}). {REMEDY}")


@final
class _Deadline:
    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._end = time.monotonic() + limit_s

    def left_s(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def require(self) -> None:
        """Stop here when nobody waits any more: what the caller was told has failed must not happen later on."""
        if not self.left_s():
            raise self.missed()

    def missed(self) -> VaultUnavailable:
        return VaultUnavailable(
            f"The keychain did not answer within {self._limit_s:.0f} s. It may be showing a dialog: unlock it, and try "
            "again."
        )


@final
class _Errands:
    """Runs one thing at a time in a thread of its own, which nobody waits for longer than a limit, nor at the end."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._turn = Lock()
        self._late: Event | None = None

    def run(self, work: Callable[[_Deadline], T]) -> T:
        deadline = _Deadline(self._limit_s)
        if (self._late and not self._late.is_set()) or not self._turn.acquire(timeout=deadline.left_s()):
            raise deadline.missed()
        errand = _Errand(work, deadline, self._turn)
        # A daemon, unlike the threads of an executor: the interpreter does not wait for it when it ends.
        Thread(target=errand.run, name="keychain", daemon=True).start()
        if not errand.over.wait(deadline.left_s()):
            self._late = errand.over
            raise deadline.missed()
        return errand.result()


@final
class _Errand(Generic[T]):
    def __init__(self, work: Callable[[_Deadline], T], deadline: _Deadline, turn: Lock) -> None:
        self.over = Event()
        self._work = work
        self._deadline = deadline
        self._turn = turn
        self._results: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._results.append(self._work(self._deadline))
        except BaseException as error:  # noqa: BLE001 - the thread ends here; whoever waits gets it
            self._error = error
        finally:
            self._turn.release()
            self.over.set()

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._results[0]
