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
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)


class Count:
    """A number that only grows. Counted by the loop alone, so it needs no lock."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self) -> None:
        """Count one."""
        self.value += 1


class Durations:
    """How often something took how long. Noted by the loop alone, as a count is."""

    __slots__ = ("_counts", "_sum")

    def __init__(self) -> None:
        self._counts = [0] * (len(_BUCKETS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Note one duration."""
        self._counts[bisect_left(_BUCKETS, seconds)] += 1
        self._sum += seconds

    @property
    def count(self) -> int:
        """How often."""
        return sum(self._counts)

    def add_to(self, family: HistogramMetricFamily, labels: list[str]) -> None:
        """Bring this into Prometheus' form, where every bucket holds what is in the smaller ones."""
        bounds = [*map(str, _BUCKETS), "+Inf"]
        family.add_metric(labels, list(zip(bounds, accumulate(self._counts), strict=True)), self._sum)


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
        for name in _FORMATS:
            requests.add_metric([name, "success"], counted.duration[name].count)
            requests.add_metric([name, "error"], counted.failed[name].value)
            counted.duration[name].add_to(duration, [name])
        for name, count in counted.filters.items():
            usage.add_metric([name], count.value)
        yield from (requests, duration, usage)
        for name, said, count in (
            ("agentfield_discovery_cache_hits", "Answers without asking the store.", counted.hits),
            ("agentfield_discovery_cache_misses", "Answers that asked the store first.", counted.misses),
            ("switchboard_heartbeats", "Signs of life taken in.", counted.heartbeats),
        ):
            yield CounterMetricFamily(name, said, value=count.value)


class Metrics:
    """The metrics of one instance, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.failed = {name: Count() for name in _FORMATS}
        self.duration = {name: Durations() for name in _FORMATS}
        """Of those that succeeded."""
        self.filters = {name: Count() for name in ("agent", "reasoner", "skill", "tag")}
        self.hits = Count()
        self.misses = Count()
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
