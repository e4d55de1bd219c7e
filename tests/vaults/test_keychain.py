"""The keychain: which backends are trusted, what happens when one fails half-way, and when one does not answer."""

import gc
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from signal import SIGSTOP
from threading import Event, Thread
from typing import final

import pytest
from tests.executors.grounds import ROOT
from tests.vaults.keyrings import LEFT_OPEN, Keyring, secret_service

from switchboard.catalog.errors import VaultUnavailable
from switchboard.vaults.keychain import Keychain
from switchboard.vaults.keyring_backends import Backend, choose, is_passing

pytestmark = LEFT_OPEN

OLD, NEW = "o" * 2500, "n" * 3500
SERVICES = ("aai-gateway", "aai-gateway index", "aai-gateway parts", "aai-gateway probe")


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> Generator[Keyring]:
    with secret_service() as running:
        for variable in ("DBUS_SESSION_BUS_ADDRESS", "XDG_CONFIG_HOME"):
            monkeypatch.setenv(variable, running.environment[variable])
        yield running


@final
class Memory(Backend):
    """A keychain like Windows': 2560 bytes an item."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str, /) -> str | None:
        """Return it."""
        return self.items.get((service, username))

    def set_password(self, service: str, username: str, password: str, /) -> None:
        """Keep it, or refuse what is too long."""
        if len(password.encode("utf-16-le")) > 2560 or len(username.encode("utf-16-le")) > 2 * 513:
            raise OSError(1783, "The stub received bad data")
        self.items[service, username] = password

    def delete_password(self, service: str, username: str, /) -> None:
        """Remove it."""
        del self.items[service, username]


class Crash(BaseException):
    """The process ends here."""


@final
class Crashing(Backend):
    """Passes so many writes on to another backend, and then is no more."""

    def __init__(self, behind: Backend, writes: int) -> None:
        self._behind = behind
        self._left = writes + 2  # the probe's
        self.crashed = False

    def get_password(self, service: str, username: str, /) -> str | None:
        """Return it."""
        return self._behind.get_password(service, username)

    def set_password(self, service: str, username: str, password: str, /) -> None:
        """Keep it."""
        self._count()
        self._behind.set_password(service, username, password)

    def delete_password(self, service: str, username: str, /) -> None:
        """Remove it."""
        self._count()
        self._behind.delete_password(service, username)

    def _count(self) -> None:
        if not self._left:
            self.crashed = True
            raise Crash
        self._left -= 1


@final
class Hanging(Backend):
    """Shows a dialog, as it were, until somebody answers it."""

    def __init__(self, behind: Backend) -> None:
        self._behind = behind
        self.answered = Event()
        self.answered.set()

    def get_password(self, service: str, username: str, /) -> str | None:
        """Return it."""
        self.answered.wait()
        return self._behind.get_password(service, username)

    def set_password(self, service: str, username: str, password: str, /) -> None:
        """Keep it."""
        self.answered.wait()
        self._behind.set_password(service, username, password)

    def delete_password(self, service: str, username: str, /) -> None:
        """Remove it."""
        self.answered.wait()
        self._behind.delete_password(service, username)


def put(vault: Keychain, text: str | None, name: str = "name") -> None:
    vault.change(name, lambda _: text)


@pytest.mark.parametrize(
    "name",
    [
        "keyring.backends.fail.Keyring",
        "keyring.backends.null.Keyring",
        "keyrings.alt.file.PlaintextKeyring",
        "keyring.backends.libsecret.Keyring",
        "plain.Keyring",
    ],
)
@pytest.mark.parametrize("way", ["variable", "settings"])
def test_a_backend_that_is_not_on_the_list_is_refused_by_name(
    name: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it was named; and it is not even imported."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    environment = {"PYTHON_KEYRING_BACKEND": name} if way == "variable" else {}
    if way == "settings":
        (tmp_path / "python_keyring").mkdir()
        settings = f"[backend]\ndefault-keyring={name}\nkeyring-path={tmp_path}\n"
        (tmp_path / "python_keyring" / "keyringrc.cfg").write_text(settings)

    with pytest.raises(VaultUnavailable, match=rf"{name} is not used.*Remove PYTHON_KEYRING_BACKEND"):
        Keychain(tmp_path / "vault", lambda: choose(environment)).read("name")
    assert "plain" not in sys.modules
    assert str(tmp_path) not in sys.path


def test_a_plain_text_backend_never_gets_anything(keyring: Keyring, tmp_path: Path) -> None:
    """Also where it is installed, and the keychain would work."""
    (tmp_path / "plain.py").write_text(
        "from pathlib import Path\nfrom keyring.backend import KeyringBackend\n"
        "Path(__file__).with_name('ran').touch()\n"
        "class Keyring(KeyringBackend):\n    priority = 9\n    def get_password(self, *_): return None\n"
        "    def set_password(self, *words): Path(__file__).with_name('text').write_text(str(words))\n"
    )
    program = (
        "import os; from pathlib import Path; from switchboard.vaults.choice import open_vault\n"
        f"try: open_vault(os.environ, Path({str(tmp_path / 'vault')!r})).change('name', lambda _: 'secret')\n"
        "except Exception as error: print(error)"
    )
    environment = keyring.environment | {"PYTHON_KEYRING_BACKEND": "plain.Keyring", "PYTHONPATH": str(tmp_path)}

    shown = subprocess.check_output([sys.executable, "-c", program], env=environment, cwd=ROOT, text=True)  # noqa: S603

    assert "plain.Keyring is not used" in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain.py", "vault"]


def test_the_chainer_means_the_best_on_the_list(keyring: Keyring, tmp_path: Path) -> None:
    """Not the chain: a read from it goes on to backends that we do not trust."""
    backend = choose({"PYTHON_KEYRING_BACKEND": "keyring.backends.chainer.ChainerBackend"})
    put(Keychain(tmp_path / "vault", lambda: backend), "text")

    assert type(backend).__module__ == "keyring.backends.SecretService"
    assert keyring.accounts("aai-gateway") == ["name"]


@pytest.mark.parametrize("settings", ["no section", "[backend]\nother=1\n", ""])
def test_settings_of_keyring_that_name_nothing_or_are_broken(
    settings: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken ones are refused, others are passed over."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={tmp_path}/nowhere")
    (tmp_path / "python_keyring").mkdir()
    (tmp_path / "python_keyring" / "keyringrc.cfg").write_text(settings)

    with pytest.raises(VaultUnavailable, match="Correct or remove it" if settings[:2] == "no" else "no keychain here"):
        choose({})


def test_a_locked_keyring_says_so(keyring: Keyring, tmp_path: Path) -> None:
    """Before anything was kept, and afterwards; nothing here can show a dialog."""
    used = Keychain(tmp_path / "vault", lambda: choose({}))
    put(used, "text")
    keyring.lock()

    for vault in (used, Keychain(tmp_path / "vault", lambda: choose({}))):
        with pytest.raises(VaultUnavailable, match=r"locked\. Unlock it"):
            vault.read("name")
    gc.collect()  # see LEFT_OPEN


def test_a_keyring_that_forgets_is_refused(keyring: Keyring, tmp_path: Path) -> None:
    """With a default collection that ends with the session, sign-ins are gone at the next login (codex#34943)."""
    keyring.forget_by_default()

    with pytest.raises(VaultUnavailable, match="only until the next login"):
        put(Keychain(tmp_path / "vault", lambda: choose({})), "text")
    assert [keyring.accounts(service) for service in SERVICES] == [[], [], [], []]


def test_a_backend_that_keeps_nothing_is_found_out(tmp_path: Path) -> None:
    """It is tried before it is trusted."""

    @final
    class Forgetful(Backend):
        def get_password(self, service: str, username: str, /) -> str | None:
            del service, username

        def set_password(self, service: str, username: str, password: str, /) -> None:
            del service, username, password

        def delete_password(self, service: str, username: str, /) -> None:
            del service, username

    with pytest.raises(VaultUnavailable, match="does not keep what is put into it"):
        put(Keychain(tmp_path / "vault", Forgetful), "text")


def test_nothing_is_left_in_the_keyring_but_what_is_kept(keyring: Keyring, tmp_path: Path) -> None:
    """No probes, and no parts of what was replaced or removed."""
    vault = Keychain(tmp_path / "vault", lambda: choose({}), part=1000)
    for text in (OLD, NEW, "short", OLD, None):
        put(vault, text)
    put(vault, NEW, "other")

    assert [keyring.accounts(service) for service in SERVICES] == [
        ["other"],
        ["names"],
        [f"aai-gateway/other/a{number}" for number in range(4)],
        [],
    ]


@pytest.mark.parametrize("change", [(None, NEW), (OLD, NEW), (OLD, "short"), ("short", NEW), (OLD, None)])
def test_a_crash_between_any_two_writes_leaves_the_old_or_the_new(
    keyring: Keyring, tmp_path: Path, change: tuple[str | None, str | None]
) -> None:
    """Whole, listed if it is there; and the next change sweeps up what was left."""
    before, after = change
    real = choose({})
    seen: set[str | None] = set()
    writes = 0
    while True:
        vault = Keychain(tmp_path / "vault", lambda: real, part=1000)
        put(vault, before)
        crashing = Crashing(real, writes)
        try:
            put(Keychain(tmp_path / "vault", lambda crashing=crashing: crashing, part=1000), after)
        except Crash:
            assert crashing.crashed
        kept = vault.read("name")
        assert kept in (before, after)
        assert vault.names() == ([] if kept is None else ["name"])
        seen.add(kept)
        if not crashing.crashed:
            break
        writes += 1
    put(vault, "end")

    assert seen == {before, after}
    assert keyring.accounts("aai-gateway parts") == []


@pytest.mark.parametrize("text", ["x" * 10_000, "😀" * 10_000, "é" * 999, "é" * 1000, "x😀" * 999])
def test_a_long_text_fits_into_short_items(tmp_path: Path, text: str) -> None:
    """Whatever characters it has: some take two units of UTF-16. A long list of names is in parts as well."""
    vault = Keychain(tmp_path / "vault", Memory, part=1000)
    put(vault, text)
    for number in range(100):
        put(vault, "text", f"https://example.com/{number}" + "/é" * 100)

    assert vault.read("name") == text
    assert len(vault.names()) == 101


def test_a_reader_in_the_middle_of_changes_never_gets_a_mixture(tmp_path: Path) -> None:
    """Readers take no lock, and the parts are replaced under them."""
    memory = Memory()
    writer = Keychain(tmp_path / "vault", lambda: memory, part=200)
    reader = Keychain(tmp_path / "vault", lambda: memory, part=200)
    texts = [letter * 2000 for letter in "abc"]
    put(writer, texts[0])
    over = Event()

    def write() -> None:
        for number in range(300):
            put(writer, texts[number % 3])
        over.set()

    thread = Thread(target=write)
    thread.start()
    found: set[str | None] = set()
    while not over.is_set():
        found.add(reader.read("name"))
    thread.join()

    assert found <= set(texts)
    assert len(found) > 1


def test_a_damaged_item_is_reported_and_not_guessed(tmp_path: Path) -> None:
    """Somebody removed a part, or put something else there."""
    memory = Memory()
    vault = Keychain(tmp_path / "vault", lambda: memory, part=1000)
    put(vault, OLD)
    del memory.items["aai-gateway parts", "aai-gateway/name/a1"]

    with pytest.raises(VaultUnavailable, match=r"'name' of 'aai-gateway' in the keychain is damaged\."):
        vault.read("name")

    memory.items["aai-gateway", "name"] = "not ours"
    with pytest.raises(VaultUnavailable, match="damaged"):
        put(vault, "text")


def test_a_keychain_that_does_not_answer_is_given_up_and_used_again_when_it_does(tmp_path: Path) -> None:
    """The first caller waits up to the limit, the next ones not at all; what was given up does not happen later."""
    hanging = Hanging(memory := Memory())
    vault = Keychain(tmp_path / "vault", lambda: hanging, limit_s=0.2)
    put(vault, "before")
    hanging.answered.clear()

    for _ in range(3):
        with pytest.raises(VaultUnavailable, match="unlock it"):
            put(vault, "after")
    hanging.answered.set()
    patient = Keychain(tmp_path / "vault", lambda: hanging)

    assert patient.change("other", lambda _: "text") == "text"
    assert patient.read("name") == "before"
    assert vault.read("other") == "text"
    assert not [account for service, account in memory.items if service == "aai-gateway probe"]


def test_a_keychain_that_hangs_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    """The dialog may stay open for the rest of the day."""
    program = (
        "from pathlib import Path; from switchboard.vaults.keychain import Keychain\n"
        "from tests.vaults.test_keychain import Hanging, Memory\n"
        "hanging = Hanging(Memory()); hanging.answered.clear()\n"
        f"try: Keychain(Path({str(tmp_path / 'vault')!r}), lambda: hanging, limit_s=0.1).read('name')\n"
        "except Exception as error: print(error)"
    )

    ran = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )

    assert "unlock it" in ran.stdout


def test_an_interrupted_change_is_no_version_to_rely_on(tmp_path: Path) -> None:
    """Whoever was killed may have written or not: until the next change, nobody may go on with what they know."""
    memory = Memory()
    vault = Keychain(tmp_path / "vault", lambda: memory)
    put(vault, "text")
    (tmp_path / "vault" / "keychain.version").write_bytes(b"\0")  # as it is while somebody changes something

    assert vault.version() != vault.version()

    put(vault, "other")
    assert vault.version() == vault.version()


def test_a_keychain_that_ends_is_used_again_when_the_bus_has_started_another(keyring: Keyring, tmp_path: Path) -> None:
    """Between two calls, and in the middle of one: whoever asks gets an answer, not the news."""
    vault = Keychain(tmp_path / "vault", lambda: choose(keyring.environment))
    put(vault, "text")
    keyring.end()

    assert vault.read("name") == "text"

    asleep = keyring.process
    keyring.end(SIGSTOP)
    read: list[str | None] = []
    asking = Thread(target=lambda: read.append(vault.read("name")))
    asking.start()
    asking.join(0.3)  # asked by then, or a moment later: either is right
    keyring.end()
    asking.join(20)

    assert read == ["text"]
    assert keyring.process != asleep


def test_a_keychain_that_falls_over_each_time_is_asked_twice_and_no_more(tmp_path: Path) -> None:
    """It may fall over because of what it is asked."""
    from jeepney.wrappers import DBusErrorResponse  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]

    class Falling(Backend):
        """A keychain whose daemon ends with every question."""

        asked = 0

        def get_password(self, service: str, username: str, /) -> str | None:
            """End."""
            del service, username
            self.asked += 1
            raise gone

        def set_password(self, service: str, username: str, password: str, /) -> None:
            """Keep nothing."""

        def delete_password(self, service: str, username: str, /) -> None:
            """Remove nothing."""

    gone = DBusErrorResponse.__new__(DBusErrorResponse)
    gone.name, gone.data = "org.freedesktop.DBus.Error.NoReply", ()
    falling = Falling()
    with pytest.raises(VaultUnavailable, match="DBusErrorResponse"):
        Keychain(tmp_path / "vault", lambda: falling).read("name")

    assert falling.asked == 2
    gone.name = "org.freedesktop.DBus.Error.AccessDenied"
    with pytest.raises(VaultUnavailable, match="DBusErrorResponse"):
        Keychain(tmp_path / "vault", lambda: falling).read("name")

    assert falling.asked == 3


def test_a_refusal_of_ours_is_passed_on_as_it_is(tmp_path: Path) -> None:
    """Whoever looks for its cause finds the end of it."""
    refusal = VaultUnavailable("There is no keychain here.")

    def find() -> Backend:
        raise refusal

    with pytest.raises(VaultUnavailable) as raised:
        Keychain(tmp_path / "vault", find).read("name")

    assert raised.value is refusal
    assert refusal.__cause__ is None


def test_a_user_who_says_no_is_not_asked_again() -> None:
    """For the library that is an item which does not exist."""
    from keyring.errors import InitError  # noqa: PLC0415
    from secretstorage import ItemNotFoundException, PromptDismissedException  # noqa: PLC0415

    def wrapped(cause: Exception) -> InitError:
        error = InitError("Failed to create the collection.")
        error.__cause__ = cause
        return error

    causes = (PromptDismissedException("no"), ItemNotFoundException("gone"))
    assert [is_passing(error) for cause in causes for error in (cause, wrapped(cause))] == [False, False, True, True]
    assert not is_passing(OSError())
