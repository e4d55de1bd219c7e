"""What Prometheus may ask: the names of seed 004, section 7.1, and the state of the instance.

What every request counts is counted in plain numbers, and brought into Prometheus' form when it asks: its own counters
take a lock each, which together cost as much as finding an agent.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import final

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

_FORMATS = ("json", "xml", "compact")
_FILTERS = ("agent", "reasoner", "skill", "tag")
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
_SHORTEST = _BUCKETS[0]
_NO_COUNTS = [0] * (len(_BUCKETS) + 1)

Kind = tuple[str, tuple[str, ...]]
"""What is told apart when questions are counted: their format, and the filters that they use."""


class Count:
    """A number that only grows. Counted by the loop alone, so it needs no lock."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self) -> None:
        """Count one."""
        self.value += 1


class Tally:
    """How often questions of one kind were answered, and how long that took. Noted by the loop alone, as a count is."""

    __slots__ = ("counts", "misses", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS) + 1)
        """One for each bucket, and one for everything above."""
        self.seconds = 0.0
        self.misses = 0
        """Those for which the store was asked first."""

    def note(self, seconds: float) -> None:
        """Note one answer."""
        self.counts[0 if seconds <= _SHORTEST else bisect_left(_BUCKETS, seconds)] += 1
        self.seconds += seconds


class Tallies(dict[Kind, Tally]):
    """A tally for each kind of question, made when the first of its kind is answered."""

    def __missing__(self, kind: Kind) -> Tally:
        """Begin a tally."""
        return self.setdefault(kind, Tally())

    def answered(self, name: str) -> tuple[list[int], float]:
        """Return how many answers of a format fell into each bucket, and how long they took together."""
        tallies = [tally for (format_, _), tally in self.items() if format_ == name]
        counts = [sum(counts) for counts in zip(_NO_COUNTS, *(tally.counts for tally in tallies), strict=True)]
        return counts, sum(tally.seconds for tally in tallies)

    def using(self, name: str) -> int:
        """Return how many answered questions used a filter."""
        return sum(sum(tally.counts) for (_, used), tally in self.items() if name in used)

    @property
    def misses(self) -> int:
        """How many answers asked the store first."""
        return sum(tally.misses for tally in self.values())

    @property
    def hits(self) -> int:
        """How many did not."""
        return sum(sum(tally.counts) for tally in self.values()) - self.misses


@final
class _Often(Collector):
    """What is counted with every request of discovery and every heartbeat, as Prometheus wants to see it."""

    def __init__(self, metrics: "Metrics") -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield everything."""
        counted = self._metrics
        requests = CounterMetricFamily(
            "agentfield_discovery_requests", "Discovery requests.", labels=["format", "status"]
        )
        duration = HistogramMetricFamily(
            "agentfield_discovery_request_duration_seconds", "Time to answer a discovery request.", labels=["format"]
        )
        # A gauge, because the seed's name has no _total and the client adds one to every counter.
        usage = GaugeMetricFamily(
            "agentfield_discovery_filter_usage", "Requests that used a filter.", labels=["filter_type"]
        )
        bounds = [*map(str, _BUCKETS), "+Inf"]
        for name in _FORMATS:
            counts, seconds = counted.tallies.answered(name)
            requests.add_metric([name, "success"], sum(counts))
            requests.add_metric([name, "error"], counted.failed[name].value)
            # In Prometheus' form, every bucket holds what is in the smaller ones.
            duration.add_metric([name], list(zip(bounds, accumulate(counts), strict=True)), seconds)
        for name in _FILTERS:
            usage.add_metric([name], counted.tallies.using(name))
        yield from (requests, duration, usage)
        for name, said, value in (
            ("agentfield_discovery_cache_hits", "Answers without asking the store.", counted.tallies.hits),
            ("agentfield_discovery_cache_misses", "Answers that asked the store first.", counted.tallies.misses),
            ("switchboard_heartbeats", "Signs of life taken in.", counted.heartbeats.value),
        ):
            yield CounterMetricFamily(name, said, value=value)


class Metrics:
    """The metrics of one instance, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.failed = {name: Count() for name in _FORMATS}
        self.tallies = Tallies()
        """Of those that succeeded."""
        self.registry.register(_Often(self))
        self.cache_bytes = Gauge(
            "agentfield_discovery_cache_size_bytes",
            "Bytes of remembered answers and fragments.",
            registry=self.registry,
        )
        self.store_up = Gauge("switchboard_store_up", "1 while the store answers.", registry=self.registry)
        self.heartbeats = Count()
        self.agents = Gauge("switchboard_agents", "Agents by health.", ["health"], registry=self.registry)

        self.watchers = Gauge("switchboard_watchers", "Who watch the catalogue.", registry=self.registry)
        self.watch_events = Counter("switchboard_watch_events", "Events sent to watchers.", registry=self.registry)
        self.mcp_requests = Counter(
            "switchboard_mcp_requests", "Messages taken over MCP.", ["method", "status"], registry=self.registry
        )
        self.mcp_streams = Gauge("switchboard_mcp_streams", "Open streams of MCP clients.", registry=self.registry)

    def text(self) -> bytes:
        """Return everything in the format Prometheus reads."""
        return generate_latest(self.registry)
