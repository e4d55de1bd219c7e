"""The same app on a bus, in a process of its own, with methods of its own besides; says `ready` when it is there."""

import asyncio
import os
import sys

from dbus_fast import DBusError
from dbus_fast.aio import MessageBus
from dbus_fast.annotations import DBusBool, DBusDouble, DBusInt32, DBusStr
from dbus_fast.service import ServiceInterface, dbus_method
from tests.executors.app import behave, take

SERVICE, PATH, INTERFACE = "com.example.habits", "/com/aai/handler", "com.aai.Executor"


class Habits(ServiceInterface):
    """What stands on the bus."""

    def __init__(self, folder: str) -> None:
        super().__init__(INTERFACE)
        self._folder = folder

    @dbus_method("Execute")
    async def execute(self, request: DBusStr) -> DBusStr:
        """Answer one request, or never."""
        if '"tool":"hang"' in request:
            take(self._folder, "hang", "")
            await asyncio.Event().wait()
        return behave(self._folder, request)

    @dbus_method("Describe")
    def describe(self, name: DBusStr, size: DBusInt32, weight: DBusDouble, old: DBusBool) -> DBusStr:
        """Say what came."""
        return f"{name}/{size}/{weight}/{old}"

    @dbus_method("Nothing")
    def nothing(self) -> None:
        """Return nothing."""
        take(self._folder, "Nothing", "")

    @dbus_method("Refuse")
    def refuse(self, error: DBusStr) -> None:
        """Fail with an error of that name."""
        raise DBusError(error, "the app says so")

    @dbus_method("Count")
    def count(self) -> DBusInt32:
        """Return a number."""
        return 7


async def main(folder: str) -> None:
    bus = await MessageBus().connect()
    bus.export(PATH, Habits(folder))
    await bus.request_name(SERVICE)
    os.write(1, b"ready\n")
    await bus.wait_for_disconnect()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
