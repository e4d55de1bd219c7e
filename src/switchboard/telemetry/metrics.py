"""What Prometheus may ask: the names of seed 004, section 7.1, and the state of the instance.

Counters are bound to their labels once, because binding costs more than counting.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_FORMATS = ("json", "xml", "compact")
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)


class Metrics:
    """The metrics of one instance, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        requests = Counter(
            "agentfield_discovery_requests", "Discovery requests.", ["format", "status"], registry=self.registry
        )
        duration = Histogram(
            "agentfield_discovery_request_duration_seconds",
            "Time to answer a discovery request.",
            ["format"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        # A gauge, because the seed's name has no _total and the client adds one to every counter.
        usage = Gauge(
            "agentfield_discovery_filter_usage", "Requests that used a filter.", ["filter_type"], registry=self.registry
        )
        self.succeeded = {name: requests.labels(name, "success") for name in _FORMATS}
        self.failed = {name: requests.labels(name, "error") for name in _FORMATS}
        self.duration = {name: duration.labels(name) for name in _FORMATS}
        self.filters = {name: usage.labels(name) for name in ("agent", "reasoner", "skill", "tag")}
        self.hits = Counter(
            "agentfield_discovery_cache_hits", "Answers without asking the store.", registry=self.registry
        )
        self.misses = Counter(
            "agentfield_discovery_cache_misses", "Answers that asked the store first.", registry=self.registry
        )
        self.cache_bytes = Gauge(
            "agentfield_discovery_cache_size_bytes",
            "Bytes of remembered answers and fragments.",
            registry=self.registry,
        )
        self.store_up = Gauge("switchboard_store_up", "1 while the store answers.", registry=self.registry)
        self.heartbeats = Counter("switchboard_heartbeats", "Signs of life taken in.", registry=self.registry)
        self.agents = Gauge("switchboard_agents", "Agents by health.", ["health"], registry=self.registry)

        self.watchers = Gauge("switchboard_watchers", "Who watch the catalogue.", registry=self.registry)
        self.watch_events = Counter("switchboard_watch_events", "Events sent to watchers.", registry=self.registry)

    def text(self) -> bytes:
        """Return everything in the format Prometheus reads."""
        return generate_latest(self.registry)
