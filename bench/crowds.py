"""A thousand callers at once: everybody connects and asks, and when all have their answers, everybody asks again.

For small answers, latency is promised; for pages the limit is how fast bytes travel, so they are compared with the same
bytes from memory.
"""

from bench.figures import Figure, figure
from bench.http_servers import Process, get
from bench.load import Job, LoadGenerator, Result
from bench.queries import Questions

P95_MS = 100.0
OF_THE_FLOOR = 0.85
_SMALL = ("q6", "q7", "304")
_PAGES = ("q1", "q2", "q3", "q4", "q5")


def crowds(  # noqa: PLR0913, PLR0917 - who asks whom, and how often
    load: LoadGenerator, server: Process, floor: Process, questions: Questions, crowd: int, rounds: int
) -> list[Figure]:
    """Measure small answers by latency, and pages against the floor."""
    found: list[Figure] = []
    errors = 0
    etag = next(value.decode() for key, value in server.ask().headers if key == b"etag")

    def wave(process: Process, name: str) -> tuple[Result, Result]:
        nonlocal errors
        requests = [get("", If_None_Match=etag)] if name == "304" else questions.some(name, 2 * crowd)
        expected = (304,) if name == "304" and process is server else (200,)
        job = Job(port=process.port, requests=requests, kind="waves", connections=crowd, expected=expected)
        load.begin(job)
        first, second = load.results()
        errors += first.errors + second.errors
        return first, second

    for name in (*_SMALL, *_PAGES):
        waves: list[tuple[Result, Result]] = []
        ratios: list[float] = []
        for _ in range(rounds):
            waves.append(wave(server, name))
            if name in _PAGES:
                ratios.append(waves[-1][1].rate / wave(floor, name)[1].rate)
        label = f"discovery: 1000 at once, {name}"
        limit = P95_MS if name in _SMALL else None
        found.append(figure(f"{label}, p95", [second.p95 for _, second in waves], "ms", limit, scale=1e3))
        if name in _SMALL:
            found.append(figure(f"{label}, p95 with connecting", [first.p95 for first, _ in waves], "ms", scale=1e3))
        if ratios:
            found.append(figure(f"{label}, requests/s against the floor", ratios, "x", OF_THE_FLOOR, "at least"))
    return [*found, Figure("discovery: 1000 at once, errors", errors, "", target=0.0)]
