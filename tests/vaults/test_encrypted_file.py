"""The encrypted file: who may have written it, whose key opens it, and what is left of it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.vaults.keyrings import write_key

from switchboard.catalog.errors import VaultUnavailable
from switchboard.vaults.encrypted_file import EncryptedFile, Key, credential, key_file, passphrase

HEADER = 29
NONCE = slice(HEADER, HEADER + 12)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vault" / "vault"


@pytest.fixture
def key(tmp_path: Path) -> Key:
    return key_file(write_key(tmp_path / "key"))


def put(vault: EncryptedFile, text: str | None) -> None:
    vault.change("name", lambda _: text)


def refused(path: Path, key: Key) -> str:
    """Return what is said when it is read; a change says the same, and leaves the file as it is."""
    before = path.read_bytes()
    with pytest.raises(VaultUnavailable) as read:
        EncryptedFile(path, key).read("name")
    with pytest.raises(VaultUnavailable) as changed:
        put(EncryptedFile(path, key), "mine now")
    assert path.read_bytes() == before
    assert changed.value.message == read.value.message
    return read.value.message


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(st.data())
def test_a_file_with_any_byte_changed_is_refused(path: Path, key: Key, data: st.DataObject) -> None:
    """Header, nonce, text and tag: nothing of it can be another one."""
    path.unlink(missing_ok=True)
    put(EncryptedFile(path, key), "text")
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)

    said = refused(path, key)

    assert str(at) not in said.replace(str(path), "")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.data())
def test_a_file_that_is_shorter_or_longer_is_refused(path: Path, key: Key, data: st.DataObject) -> None:
    """An empty one too: it was never written by us, and is no empty vault."""
    path.unlink(missing_ok=True)
    put(EncryptedFile(path, key), "text")
    content = path.read_bytes()
    path.write_bytes(
        content[: data.draw(st.integers(0, len(content) - 1))] if data.draw(st.booleans()) else content + b"x"
    )

    assert "does not open" in refused(path, key)


@pytest.mark.parametrize("at", [10, 11, 12])
def test_a_file_that_asks_for_another_cost_is_refused_before_it_is_paid(path: Path, at: int) -> None:
    """Else whoever can write the file decides how much of our memory scrypt takes: here 2**255 bytes."""
    put(EncryptedFile(path, passphrase(lambda: "open sesame")), "text")
    content = bytearray(path.read_bytes())
    content[at] = 255
    path.write_bytes(content)

    assert "does not open" in refused(path, passphrase(lambda: "open sesame"))


def test_another_key_opens_nothing_and_overwrites_nothing(path: Path, key: Key, tmp_path: Path) -> None:
    """Neither another file nor another passphrase; and one for the other is told apart."""
    put(EncryptedFile(path, key), "text")

    assert "does not open" in refused(path, key_file(write_key(tmp_path / "other", b"x" * 32)))
    assert "made with a key file" in refused(path, passphrase(lambda: "open sesame"))

    path.unlink()
    put(EncryptedFile(path, passphrase(lambda: "open sesame")), "text")

    assert "does not open" in refused(path, passphrase(lambda: "open says me"))
    assert "made with a passphrase" in refused(path, key)
    assert "is empty" in refused(path, passphrase(lambda: ""))


def test_a_wrong_passphrase_is_asked_for_again_and_the_right_one_only_once(path: Path) -> None:
    """A person mistypes; scrypt is slow."""
    put(EncryptedFile(path, passphrase(lambda: "right")), "text")
    answers = ["wrong", "right"]
    vault = EncryptedFile(path, passphrase(lambda: answers.pop(0)))

    with pytest.raises(VaultUnavailable):
        vault.read("name")

    assert [vault.read("name") for _ in range(3)] == ["text"] * 3


def test_the_same_text_is_never_encrypted_the_same_way(path: Path, key: Key) -> None:
    """A nonce is used once; the salt stays, so that the key is derived once."""
    vault = EncryptedFile(path, key)
    contents: list[bytes] = []
    for number in range(20):
        put(vault, str(number % 2))
        contents.append(path.read_bytes())

    assert len({content[NONCE] for content in contents}) == 20
    assert len({content[:HEADER] for content in contents}) == 1


def test_what_a_crash_left_is_removed_with_the_next_change(path: Path, key: Key) -> None:
    """And only that: other files in the folder are not ours."""
    put(EncryptedFile(path, key), "text")
    (path.parent / "vault.0123.unfinished").write_bytes(b"half")
    (path.parent / "notes").write_bytes(b"the user's")

    put(EncryptedFile(path, key), "other")

    assert sorted(file.name for file in path.parent.iterdir()) == ["notes", "vault", "vault.lock"]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(path: Path, key: Key) -> None:
    """As on a full disk; here nothing longer than a few bytes can be written."""
    import resource  # noqa: PLC0415
    import signal  # noqa: PLC0415

    put(EncryptedFile(path, key), "text")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        with pytest.raises(VaultUnavailable, match="cannot be written"):
            put(EncryptedFile(path, key), "long" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)

    assert EncryptedFile(path, key).read("name") == "text"
    assert sorted(file.name for file in path.parent.iterdir()) == ["vault", "vault.lock"]


def opened(path: Path) -> None:
    path.chmod(0o644)


def linked(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def replaced_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir(mode=0o700)


def given_away(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(path, 65534, -1)


def folder_opened(path: Path) -> None:
    path.parent.chmod(0o755)


@pytest.mark.parametrize(
    ("harm", "remedy"),
    [
        (opened, "chmod 600 "),
        (linked, "is a link"),
        (piped, "is no file"),
        (replaced_by_a_folder, "is no file"),
        (given_away, "chown 0 "),
    ],
)
def test_a_file_that_is_not_this_users_alone_is_refused(
    path: Path, key: Key, harm: Callable[[Path], None], remedy: str
) -> None:
    """With the command that puts it right; nobody waits for a pipe."""
    put(EncryptedFile(path, key), "text")
    harm(path)

    for ask in (lambda: EncryptedFile(path, key).read("name"), lambda: put(EncryptedFile(path, key), "x")):
        with pytest.raises(VaultUnavailable, match=remedy):
            ask()


def test_a_folder_that_others_look_into_is_not_written_to(path: Path, key: Key) -> None:
    """Whoever can write into it could put another file in its place."""
    put(EncryptedFile(path, key), "text")
    folder_opened(path)

    with pytest.raises(VaultUnavailable, match="chmod 700 "):
        put(EncryptedFile(path, key), "other")


def test_a_lock_that_is_a_link_is_refused(path: Path, key: Key, tmp_path: Path) -> None:
    """It is opened for writing, and could lead to any file."""
    path.parent.mkdir(mode=0o700)
    (path.parent / "vault.lock").symlink_to(tmp_path / "victim")

    with pytest.raises(VaultUnavailable, match="is a link"):
        put(EncryptedFile(path, key), "text")
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize(
    ("content", "mode", "remedy"),
    [
        (b"x" * 32, 0o644, "chmod 600 "),
        (b"x" * 32, 0o640, "chmod 600 "),
        (b"x" * 32, 0o700, "chmod 600 "),
        (b"x" * 31, 0o600, "32 bytes"),
        (b"", 0o400, "32 bytes"),
        (b"x" * 2_000_000, 0o600, "at most"),
        (None, 0, r"umask 077; head -c 32 /dev/urandom > .*/mine'\)"),
    ],
)
def test_a_key_file_that_cannot_be_one_is_refused(
    path: Path, tmp_path: Path, content: bytes | None, mode: int, remedy: str
) -> None:
    """Too short, open to others, or not there."""
    (tmp_path / "of a key").mkdir()
    mine = tmp_path / "of a key" / "mine"
    if content is not None:
        write_key(mine, content, mode)

    with pytest.raises(VaultUnavailable, match=remedy):
        put(EncryptedFile(path, key_file(mine)), "text")
    assert not path.exists()


@pytest.mark.parametrize(("harm", "said"), [(linked, "is a link"), (piped, "is no file"), (given_away, "another user")])
def test_a_key_file_of_somebody_else_is_refused(
    path: Path, tmp_path: Path, harm: Callable[[Path], None], said: str
) -> None:
    """A key that others know is none."""
    mine = write_key(tmp_path / "mine")
    harm(mine)

    with pytest.raises(VaultUnavailable, match=said):
        put(EncryptedFile(path, key_file(mine)), "text")


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_key_file_of_this_user_alone_is_taken(path: Path, tmp_path: Path, mode: int) -> None:
    """Also one that cannot be written."""
    key = key_file(write_key(tmp_path / "mine", os.urandom(64), mode))
    put(EncryptedFile(path, key), "text")

    assert EncryptedFile(path, key).read("name") == "text"


def test_a_credential_of_systemd_is_taken_as_systemd_makes_it(path: Path, tmp_path: Path) -> None:
    """Mode 0440 is the mask of an access list; readable by all is not how systemd makes one."""
    mine = write_key(tmp_path / "switchboard-key", mode=0o440)
    put(EncryptedFile(path, credential(mine)), "text")

    assert EncryptedFile(path, credential(mine)).read("name") == "text"

    mine.chmod(0o444)
    with pytest.raises(VaultUnavailable, match="LoadCredential="):
        EncryptedFile(path, credential(mine)).read("name")


def test_a_vault_that_somebody_holds_is_not_waited_for_without_end(path: Path, key: Key) -> None:
    """Who changes something in the middle of a change is refused, and not stuck."""
    vault = EncryptedFile(path, key)

    def change_again(_: str | None) -> str | None:
        return EncryptedFile(path, key, limit_s=0.05).change("name", lambda _: "inner")

    with pytest.raises(VaultUnavailable, match="Another process"):
        vault.change("name", change_again)

    assert vault.read("name") is None
