"""Lights that an agent can switch: an app on the session bus that answers `Execute(s) → s`.

Needs dbus-fast (`pip install dbus-fast`). It runs until it is ended or the bus goes away.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from dbus_fast.aio import MessageBus
from dbus_fast.annotations import DBusStr
from dbus_fast.service import ServiceInterface, dbus_method

SERVICE, PATH, INTERFACE = "com.example.lights", "/com/aai/handler", "com.aai.Executor"

lights = {"kitchen": False, "hall": False, "客厅": True}


class Refused(Exception):
    """Something the app cannot do, with a code of its own."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def list_lights() -> dict[str, bool]:
    """Return which lights are on."""
    return lights


def switch_light(name: str, on: bool) -> str:
    """Switch one light."""
    if name not in lights:
        raise Refused("LIGHT_NOT_FOUND", f"There is no light {name}.")
    lights[name] = on
    return f"{name} is {'on' if on else 'off'}."


def unknown(**_: object) -> None:
    """Refuse what no tool is there for."""
    raise Refused("UNKNOWN_TOOL", "There is no such tool.")


TOOLS: dict[str, Callable[..., Any]] = {"list_lights": list_lights, "switch_light": switch_light}


def answer(text: str) -> dict[str, Any]:
    """Do what one request asks for."""
    request_id = ""
    try:
        request = json.loads(text)
        request_id = request["request_id"]
        result = TOOLS.get(request["tool"], unknown)(**request["params"])
    except Refused as error:
        said = {"code": error.code, "message": str(error)}
    except (ValueError, KeyError, TypeError) as error:
        said = {"code": "INVALID_REQUEST", "message": f"That is not a request: {error}"}
    else:
        return {"version": "1.0", "request_id": request_id, "status": "success", "result": result}
    return {"version": "1.0", "request_id": request_id, "status": "error", "error": said}


class Lights(ServiceInterface):
    """What stands on the bus."""

    def __init__(self) -> None:
        super().__init__(INTERFACE)

    @dbus_method("Execute")
    def execute(self, request: DBusStr) -> DBusStr:
        """Answer one request."""
        return json.dumps(answer(request), ensure_ascii=False)


async def main() -> None:
    """Stand on the bus until it goes away."""
    bus = await MessageBus().connect()
    bus.export(PATH, Lights())
    await bus.request_name(SERVICE)
    await bus.wait_for_disconnect()


if __name__ == "__main__":
    asyncio.run(main())
