"""Processes that the gateway is measured against: each answers every line of its input, and does nothing else.

`bare` sends the line back, read with asyncio: what a process in Python costs at least. `protocol` is an echo tool on
the gateway's own protocol layer. `bytes FILE` sends what is in the file: what travelling costs.
"""

import asyncio
import os
import sys


async def bare() -> None:
    """Send every line back."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        os.write(1, line)


async def protocol() -> None:
    """Answer `tools/call` with the text that it brings."""
    from msgspec import Struct  # noqa: PLC0415

    from switchboard.mcp.greeting import Greeting  # noqa: PLC0415 - the others must not pay for it
    from switchboard.mcp.messages import Result  # noqa: PLC0415
    from switchboard.mcp.protocol import Connection, Exchange  # noqa: PLC0415
    from switchboard.mcp.stdio import Input, Lines, Output, until_quiet  # noqa: PLC0415
    from switchboard.telemetry.logs import Log  # noqa: PLC0415

    class _Text(Struct):
        text: str

    class _Call(Struct):
        arguments: _Text

    async def echo(exchange: Exchange) -> Result:
        return {"content": [{"type": "text", "text": exchange.read(_Call).arguments.text}]}

    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    output = Output(1, loop, gone.set)
    greeting = Greeting({"name": "echo", "version": "1"}, {"tools": {}}, "")
    connection = Connection({"tools/call": echo}, greeting, output.send, log=Log())
    source = Input(0, loop, Lines(connection.receive, lambda: None).feed, output)
    source.start()
    await until_quiet(source, gone)


def same(answer: bytes) -> None:
    """Answer every line with the same bytes, without looking at it."""
    while os.read(0, 65536):
        view = memoryview(answer)
        while view:
            view = view[os.write(1, view) :]


def main(mode: str, *arguments: str) -> None:
    """Answer until the input ends."""
    if mode == "bytes":
        with open(arguments[0], "rb") as file:  # noqa: PTH123 - pathlib need not be imported for it
            same(file.read())
    else:
        asyncio.run(bare() if mode == "bare" else protocol())


if __name__ == "__main__":
    main(*sys.argv[1:])
