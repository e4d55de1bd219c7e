"""A process that wants tokens which are over, at the same moment as another one: `refresher.py <settings.json>`."""

import asyncio
import json
import sys
from pathlib import Path

from tests.accounts.provider import Provider
from tests.accounts.sign_in_ground import Ground, Trust, app_of, call_of, oauth

from switchboard.actions.ports import Secret
from switchboard.vaults.encrypted_file import EncryptedFile, key_file


class _Far(Provider):
    """The address of a server in another process."""

    def __init__(self, url: str) -> None:
        self._url = url

    @property
    def url(self) -> str:
        """Where it is."""
        return self._url


class _Known(Trust):
    def __init__(self, certificate: Path) -> None:
        self.certificate = certificate


async def _main(settings: dict[str, str], me: str) -> None:
    ground = Ground(_Known(Path(settings["certificate"])))
    ground.vault = EncryptedFile(Path(settings["vault"]), key_file(Path(settings["key"])))
    provider = _Far(settings["provider"])
    call = call_of(app_of(oauth(provider), base_url=f"{provider.url}/api"))
    sign_in = ground.sign_in()
    for turn in range(1, int(settings["turns"]) + 1):
        ground.time.later = 4000.0 * turn
        await _together(Path(settings["folder"]), turn, me)
        secret = await sign_in.secret_for(call, ground.client)
        assert secret is not None
        _note(Path(settings["folder"], f"got.{turn}.{me}"), secret)
    await ground.fetch.close()


def _note(file: Path, secret: Secret) -> None:
    file.write_text(secret.headers[0][1])


async def _together(folder: Path, turn: int, me: str) -> None:
    (folder / f"ready.{turn}.{me}").touch()
    async with asyncio.timeout(60):
        while len(list(folder.glob(f"ready.{turn}.*"))) < 2:  # noqa: ASYNC110, ASYNC240 - files tell nobody
            await asyncio.sleep(0.001)


if __name__ == "__main__":
    asyncio.run(_main(json.loads(Path(sys.argv[1]).read_text()), sys.argv[2]))
