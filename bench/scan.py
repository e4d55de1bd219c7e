"""What finding 500 installed apps costs: per app, against merely parsing their JSON, and as a whole process."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.figures import Figure, cpu, figure
from switchboard.local_apps import scan
from switchboard.sources.places import Surroundings

APPS = 500
SECONDS_OF_THE_ORIGINAL = 1.0


def descriptor(number: int) -> bytes:
    """Write one app as large as a real one: ten tools with three parameters each, two names, three aliases."""
    text = "Searches, sorts and files the things that people put into it, and tells what it found"
    tools = [
        {
            "name": f"operation_{i}",
            "description": f"{text} ({i})",
            "parameters": {
                "type": "object",
                "properties": {
                    name: {"type": "string", "description": text} for name in ("query", "folder", f"option_{i}")
                },
                "required": ["query"],
            },
            "execution": {"path": f"/operations/{i}", "method": "POST"},
        }
        for i in range(10)
    ]
    document = {
        "schemaVersion": "1.0",
        "version": "1.0.0",
        "platform": "web",
        "app": {
            "id": f"com.example.app{number}",
            "name": {"en": f"App {number}", "zh-CN": f"应用 {number}"},
            "defaultLang": "en",
            "description": text,
            "aliases": ["one", "two", "three"],
        },
        "execution": {"type": "http", "baseUrl": f"https://app{number}.example.com"},
        "tools": tools,
    }
    return json.dumps(document, indent=2).encode()


def figures(apps: int = APPS, runs: int = 7) -> list[Figure]:
    """Measure on a home that is made for the purpose."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for number in range(apps):
            file = home / f"com.example.app{number}" / "aai.json"
            file.parent.mkdir()
            file.write_bytes(descriptor(number))
        around = Surroundings(
            system="linux", home=home, working=home, environment={"AAI_HOME": folder}, root=home / "empty"
        )
        files = sorted(home.glob("*/aai.json"))
        whole = cpu(lambda: scan(around=around), runs)
        floor = cpu(lambda: [json.loads(file.read_bytes()) for file in files], runs)
        process = [_process_seconds(folder) / SECONDS_OF_THE_ORIGINAL for _ in range(runs)]
    return [
        Figure("scan: CPU per app", whole.median / apps * 1e6, "µs", whole.spread / apps * 1e6),
        Figure(
            "scan: against reading and json.loads of the same files",
            whole.median / floor.median,
            "x",
            whole.spread / floor.median,
        ),
        figure(f"scan: spawn to {apps} apps printed as JSON, against the original's 1.0 s", process, "x", 0.5),
    ]


def _process_seconds(home: str) -> float:
    begin = time.perf_counter()
    subprocess.run(  # noqa: S603 - our own command
        [str(Path(sys.executable).with_name("aai-gateway")), "--scan", "--json"],
        env={**os.environ, "AAI_HOME": home},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - begin
