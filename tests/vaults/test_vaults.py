"""What every vault keeps to, and which of them is chosen."""

import gc
import os
import stat
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.executors.grounds import ROOT
from tests.vaults.keyrings import KINDS, LEFT_OPEN, LONG, Keyring, Place, place, secret_service, write_key

from switchboard.catalog.errors import VaultUnavailable
from switchboard.vaults.choice import open_vault
from switchboard.vaults.vault import Vault

pytestmark = LEFT_OPEN

NAMES = ["plain", "with space", "https://a.example:8443/x?y", "../../etc", "😀 ключ", "a\u200db\n", "x" * 900, ""]
SECRET = "correct-horse-battery-staple"  # noqa: S105 - of a test
NOBODY = 65534


@pytest.fixture(params=KINDS)
def ground(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[Place]:
    with place(request.param, monkeypatch) as found:
        yield found


@pytest.fixture
def vault(ground: Place) -> Vault:
    return ground.open()


def put(vault: Vault, name: str, text: str | None) -> None:
    vault.change(name, lambda _: text)


def test_what_was_never_kept_is_absent(vault: Vault) -> None:
    """An empty vault answers, and makes nothing up."""
    assert vault.read("anything") is None
    assert vault.names() == []


@pytest.mark.parametrize("text", ["", "word", "=#", "zwei\nZeilen\0 und 😀 漢字", "é" * 100_000])
def test_a_text_comes_back_as_it_was(ground: Place, text: str) -> None:
    """Whatever is in it and however long it is, also for somebody who opens the vault later."""
    if len(text) > LONG and ground.kind.endswith("parts"):
        text = "😀" * LONG  # a hundred thousand in parts of a thousand take the keyring some seconds
    put(ground.open(), "name", text)

    assert ground.open().read("name") == text


def test_every_name_is_another_place(vault: Vault) -> None:
    """Names are the callers' own: spaces, colons, slashes, characters that cannot be seen, and long ones."""
    for name in NAMES:
        put(vault, name, f"of {name}")

    assert [vault.read(name) for name in NAMES] == [f"of {name}" for name in NAMES]
    assert vault.names() == sorted(NAMES)


def test_what_is_removed_is_gone(ground: Place) -> None:
    """For everybody, and from the list as well."""
    vault = ground.open()
    put(vault, "stays", "1")
    put(vault, "goes", "2" * LONG)
    put(vault, "goes", None)

    assert ground.open().read("goes") is None
    assert ground.open().names() == ["stays"]


def test_a_change_sees_what_is_kept_and_returns_what_is_kept_then(vault: Vault) -> None:
    """From nothing to something, on to something else, and to nothing."""
    seen: list[str | None] = []

    def change(to: str | None) -> str | None:
        def note(kept: str | None) -> str | None:
            seen.append(kept)
            return to

        return vault.change("name", note)

    assert [change("one"), change("two"), change("two"), change(None), change(None)] == [
        "one",
        "two",
        "two",
        None,
        None,
    ]
    assert seen == [None, "one", "two", "two", None]


def test_a_change_that_fails_changes_nothing(vault: Vault) -> None:
    """The caller's own error comes back to it, and the next change is not held up."""
    put(vault, "name", "before")
    version = vault.version()

    def fail(_: str | None) -> str | None:
        raise KeyError("the caller's")

    with pytest.raises(KeyError, match="the caller's"):
        vault.change("name", fail)

    assert (vault.read("name"), vault.version()) == ("before", version)
    put(vault, "name", "after")
    assert vault.read("name") == "after"


def test_the_version_is_another_one_after_each_change_and_only_then(ground: Place) -> None:
    """Also for somebody else, and however quickly the changes follow each other."""
    mine, theirs = ground.open(), ground.open()
    versions = [theirs.version()]
    for number in range(5):
        put(mine, "name", str(number))
        versions.append(theirs.version())

    assert len(set(versions)) == 6
    put(mine, "name", "4")
    assert theirs.read("name") == "4"
    assert theirs.version() == versions[-1]


def test_processes_that_change_at_once_lose_nothing(ground: Place) -> None:
    """Two processes add one fifty times each."""
    here = ground.open()
    put(here, "counter", "0")
    version = here.version()
    with ground.other("count", "50") as one, ground.other("count", "50") as two:
        ended = one.wait(100), two.wait(100)

    assert ended == (0, 0)
    assert here.read("counter") == "100"
    assert here.version() != version


@pytest.mark.parametrize("writes", [1, 2, 3, 4])
def test_a_process_that_is_killed_while_it_writes_leaves_the_old_or_the_new(ground: Place, writes: int) -> None:
    """Never half of one, nothing unlisted, no leftovers, and no lock."""
    put(ground.open(), "it", "b" * LONG)
    with ground.other("replace") as other:
        assert other.stdout is not None
        for _ in range(writes):
            other.stdout.readline()
        other.kill()
    vault = ground.open()

    assert vault.read("it") in ("a" * LONG, "b" * LONG)
    assert vault.names() == ["it"]
    put(vault, "it", "whole")
    assert vault.read("it") == "whole"
    assert vault.version() == vault.version()
    assert not list(ground.folder.glob("*.unfinished"))


def test_nothing_of_a_secret_is_on_the_disk(ground: Place) -> None:
    """Not in our files, nor in the keyring's own."""
    put(ground.open(), f"name {SECRET}", SECRET)
    put(ground.open(), "long", SECRET * 200)
    files = [path for path in ground.home.rglob("*") if path.is_file()]

    found = [path for path in files if any(form in path.read_bytes() for form in forms(SECRET))]

    assert len(files) >= 2
    assert found == []


def forms(text: str) -> list[bytes]:
    return [text.encode(), text.encode("utf-16-le"), text.encode("utf-16-be"), text[:12].encode()]


def test_nothing_of_a_secret_is_in_an_error_or_in_what_is_shown(vault: Vault) -> None:
    """A text that cannot be kept is refused without being quoted, and objects show nothing of what they hold."""
    put(vault, "name", SECRET)

    with pytest.raises(VaultUnavailable) as caught:
        put(vault, "name", f"{SECRET}\ud800")

    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in f"{error!r} {error} {vars(error)}"
        error = error.__cause__
    assert caught.value.__suppress_context__
    assert SECRET not in f"{vault!r} {vault} {vars(vault)}"
    assert vault.read("name") == SECRET


def test_another_user_of_the_machine_reads_nothing(ground: Place) -> None:
    """The folder and every file in it are this user's alone."""
    put(ground.open(), "name", SECRET)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in ground.folder.iterdir()}

    assert stat.S_IMODE(ground.folder.stat().st_mode) == 0o700
    assert len(modes) == 2
    assert set(modes.values()) == {0o600}
    if os.geteuid() == 0:
        ground.home.chmod(0o755)
        (ground.home / "public").write_text("for all")
        assert somebody_reads(ground.home / "public")
        assert not any(somebody_reads(ground.folder / name) for name in modes)
        ground.folder.chmod(0o755)
        assert not any(somebody_reads(ground.folder / name) for name in modes)


def somebody_reads(path: Path) -> bool:
    ran = subprocess.run(["/bin/cat", path], user=NOBODY, group=NOBODY, capture_output=True, check=False)  # noqa: S603
    return ran.returncode == 0


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> Generator[Keyring]:
    with secret_service() as running:
        for variable in ("DBUS_SESSION_BUS_ADDRESS", "XDG_CONFIG_HOME"):
            monkeypatch.setenv(variable, running.environment[variable])
        yield running


@pytest.fixture
def no_keyring(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """Return an environment without a bus."""
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return {"XDG_RUNTIME_DIR": str(tmp_path)}


def test_the_keychain_is_chosen_where_one_works(keyring: Keyring, tmp_path: Path) -> None:
    """Also where there is a key for a file."""
    environment = {"SWITCHBOARD_KEY_FILE": str(write_key(tmp_path / "key"))}

    put(open_vault(environment, tmp_path / "vault"), "name", "text")

    assert keyring.accounts("aai-gateway") == ["name"]
    assert not (tmp_path / "vault" / "vault").exists()


def test_the_bus_is_found_where_the_client_did_not_say(
    keyring: Keyring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients start servers with little of their environment; the bus has its place all the same."""
    address = keyring.environment["DBUS_SESSION_BUS_ADDRESS"].partition("path=")[2].partition(",")[0]
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "")

    put(open_vault({"XDG_RUNTIME_DIR": str(Path(address).parent)}, tmp_path / "vault"), "name", "text")

    assert keyring.accounts("aai-gateway") == ["name"]


def test_without_a_keychain_the_file_is_chosen_where_there_is_a_key(no_keyring: dict[str, str], tmp_path: Path) -> None:
    """A key file, a credential of systemd, or a passphrase in the environment."""
    write_key(tmp_path / "switchboard-key", mode=0o400)
    for number, key in enumerate(
        (
            {"SWITCHBOARD_KEY_FILE": str(write_key(tmp_path / "key"))},
            {"CREDENTIALS_DIRECTORY": str(tmp_path)},
            {"SWITCHBOARD_PASSPHRASE": "open sesame"},
        )
    ):
        folder = tmp_path / str(number)
        put(open_vault(no_keyring | key, folder), "name", "text")

        assert (folder / "vault").exists()
        assert open_vault(no_keyring | key, folder).read("name") == "text"


def test_with_neither_every_question_is_answered_with_what_to_do(no_keyring: dict[str, str], tmp_path: Path) -> None:
    """Unlock or install a keyring, or make a key. A person is not asked for a passphrase unless the file was chosen."""
    vault = open_vault(no_keyring, tmp_path / "vault", passphrase=lambda: pytest.fail("nobody chose the file"))

    for ask in (lambda: vault.read("a"), vault.names, lambda: vault.change("a", lambda _: "b")):
        with pytest.raises(VaultUnavailable, match=r"install one.*head -c 32 /dev/urandom.*SWITCHBOARD_KEY_FILE"):
            ask()
    assert vault.version() == (None, None)


def test_a_keychain_that_appears_is_used_without_a_restart(
    no_keyring: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was said to help must help."""
    vault = open_vault(no_keyring, tmp_path / "vault")
    with pytest.raises(VaultUnavailable):
        vault.read("name")

    with secret_service() as running:
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", running.environment["DBUS_SESSION_BUS_ADDRESS"])
        put(vault, "name", "text")

        assert running.accounts("aai-gateway") == ["name"]


def test_the_file_asks_a_person_only_where_it_was_chosen(no_keyring: dict[str, str], tmp_path: Path) -> None:
    """Once, and again by nobody in this process."""
    asked: list[int] = []

    def ask() -> str:
        asked.append(1)
        return "open sesame"

    vault = open_vault(no_keyring | {"SWITCHBOARD_VAULT": "file"}, tmp_path / "vault", passphrase=ask)
    put(vault, "name", "text")
    put(vault, "name", "other")

    assert vault.read("name") == "other"
    assert len(asked) == 1


def test_what_is_in_a_file_stays_there_when_a_keychain_appears(keyring: Keyring, tmp_path: Path) -> None:
    """Else a sign-in would be gone; and without the key it says where things are."""
    key = {"SWITCHBOARD_KEY_FILE": str(write_key(tmp_path / "key"))}
    put(open_vault(key | {"SWITCHBOARD_VAULT": "file"}, tmp_path / "vault"), "name", "text")

    assert open_vault(key, tmp_path / "vault").read("name") == "text"
    with pytest.raises(VaultUnavailable, match=r"there is no key for it.*SWITCHBOARD_VAULT=keychain"):
        open_vault({}, tmp_path / "vault").read("name")
    assert open_vault({"SWITCHBOARD_VAULT": "keychain"}, tmp_path / "vault").read("name") is None
    assert keyring.accounts("aai-gateway") == []


def test_what_is_in_the_keychain_is_not_given_up_because_it_is_locked(keyring: Keyring, tmp_path: Path) -> None:
    """The file does not take its place silently: a denial kept in the keychain would be forgotten."""
    key = {"SWITCHBOARD_KEY_FILE": str(write_key(tmp_path / "key"))}
    put(open_vault({}, tmp_path / "vault"), "name", "text")
    keyring.lock()

    with pytest.raises(VaultUnavailable, match=r"locked.*SWITCHBOARD_VAULT=file"):
        open_vault(key, tmp_path / "vault").read("name")
    assert not (tmp_path / "vault" / "vault").exists()
    gc.collect()  # see LEFT_OPEN


def test_a_choice_stays_for_the_life_of_a_process(
    no_keyring: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keychain that appears later does not move what is asked for."""
    vault = open_vault(no_keyring | {"SWITCHBOARD_PASSPHRASE": "open sesame"}, tmp_path / "vault")
    put(vault, "name", "text")
    (tmp_path / "vault" / "vault").unlink()

    with secret_service() as running:
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", running.environment["DBUS_SESSION_BUS_ADDRESS"])
        put(vault, "name", "text")

        assert running.accounts("aai-gateway") == []


def test_an_unknown_choice_is_refused(tmp_path: Path) -> None:
    """With what can be chosen."""
    with pytest.raises(VaultUnavailable, match="keychain or file"):
        open_vault({"SWITCHBOARD_VAULT": "plain"}, tmp_path).read("name")


def test_opening_imports_and_asks_nothing(tmp_path: Path) -> None:
    """The gateway starts with every chat, and most chats need no secret."""
    program = (
        "import sys; from pathlib import Path; from switchboard.vaults.choice import open_vault\n"
        f"open_vault({{'SWITCHBOARD_KEY_FILE': '/nowhere'}}, Path({str(tmp_path / 'vault')!r})).version()\n"
        "print([name for name in ('keyring', 'cryptography', 'secretstorage', 'asyncio') if name in sys.modules])"
    )

    shown = subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, text=True)  # noqa: S603

    assert shown == "[]\n"
    assert not (tmp_path / "vault").exists()
