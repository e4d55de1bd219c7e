"""Where the time goes: the functions that take most of it themselves, in a server under load, and as a gateway starts.

    q1, q6, q7   a control plane with 1000 agents, from its first byte to its last, under load
    start        what is imported before a gateway answers the handshake
    scan         a gateway finding 500 apps

The profile slows down what it looks at, small functions most; it says where to look, `python -m bench` what it costs.
"""

import cProfile
import io
import os
import pstats
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType

from bench import agents
from bench.gateway import before_the_handshake
from bench.http_servers import control_plane, post, running
from bench.load import Job, LoadGenerator
from bench.queries import COUNTS, Questions
from bench.scan import APPS, descriptor

PARTS = ("q1", "q6", "q7", "start", "scan")
_LINES = 12


def main(parts: list[str], count: int = agents.AGENTS, share: float = 1.0) -> int:
    """Print the profile of each part."""
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        print(f"no part {', '.join(unknown)}; there are: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    for part in parts or PARTS:
        print(f"\n== {part}")
        match part:
            case "start":
                _print_imports()
            case "scan":
                print(_profile_of_a_scan(round(APPS * share)))
            case _:
                print(_profile_of_a_server(part, count, round(COUNTS[part] * 4 * share)))
    return 0


def _print_imports() -> None:
    taken = sorted(before_the_handshake().items(), key=lambda item: -item[1])
    for name, microseconds in taken[:_LINES]:
        print(f"{microseconds:8} µs  {name}")


def _profile_of_a_scan(apps: int) -> str:
    from switchboard.local_apps import scan  # noqa: PLC0415 - the others need not load it
    from switchboard.sources.places import Surroundings  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for number in range(apps):
            file = home / f"com.example.app{number}" / "aai.json"
            file.parent.mkdir()
            file.write_bytes(descriptor(number))
        around = Surroundings(
            system="linux", home=home, working=home, environment={"AAI_HOME": folder}, root=home / "empty"
        )
        profile = cProfile.Profile()
        profile.runcall(scan, around=around)
    return _shown(profile)


def _profile_of_a_server(name: str, count: int, requests: int) -> str:
    with tempfile.TemporaryDirectory() as name_of_folder, LoadGenerator() as load:
        folder, questions = Path(name_of_folder), Questions(count)
        with control_plane(folder) as plane:
            documents = [post("/api/v1/nodes/register", _body(one)) for one in agents.registrations(count=count)]
            load.run(Job(port=plane.port, requests=documents, connections=8, count=len(documents), expected=(201,)))
        file = folder / "profile"
        command = [sys.executable, "-m", "bench.profiles", str(file), f"sqlite:///{folder}/plane.db"]
        with running(
            command, lambda line: int(line.rpartition(":")[2]), folder / "log", XDG_DATA_HOME=str(folder)
        ) as it:
            for begin in (False, True):  # the first time everything is made that stays
                if begin:
                    os.kill(it.pid, signal.SIGUSR1)
                load.run(Job(port=it.port, requests=questions.some(name, requests), count=requests, seconds=60))
        return _shown(str(file))


def _body(document: object) -> bytes:
    import msgspec  # noqa: PLC0415 - the profiled process need not load it before it does itself

    return msgspec.json.encode(document)


def _shown(profile: cProfile.Profile | str) -> str:
    """Return the first lines, by the time that functions take themselves."""
    written = io.StringIO()
    pstats.Stats(profile, stream=written).sort_stats("tottime").print_stats(_LINES)
    root = str(Path(__file__).parents[1])
    return written.getvalue().partition("ncalls")[2].replace(root + "/", "").rstrip()


def _serve(file: str, database_url: str) -> None:
    """Be a control plane that is profiled from a signal on, and writes the profile when it is told to stop."""
    from switchboard.serving import serve  # noqa: PLC0415 - only the profiled process needs it
    from switchboard.settings import ServeSettings  # noqa: PLC0415

    profile = cProfile.Profile()

    def begin(_number: int, _frame: FrameType | None) -> None:
        profile.enable()

    signal.signal(signal.SIGUSR1, begin)
    serve(ServeSettings(port=0, database_url=database_url))
    profile.disable()
    profile.dump_stats(file)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
