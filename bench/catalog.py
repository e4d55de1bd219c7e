"""What the catalogue costs: applying one registration, and selecting, at 1,000 and at 100,000 agents."""

import itertools
import random

from bench.figures import Figure, cpu, figure
from switchboard.catalog.bindings import AgentServer, Binding
from switchboard.catalog.model import Agent, Capability
from switchboard.catalog.query import Query
from switchboard.catalog.snapshot import Snapshot

VERBS = ("deep", "web", "fast", "batch", "live", "smart", "bulk", "safe", "raw", "multi")
NOUNS = ("research", "search", "summary", "scrape", "parse", "translate", "classify", "extract", "plan", "report")
TAGS = ("ml", "mlops", "nlp", "web", "search", "data", "vision", "audio", "finance", "legal", "research", "html", "etl")


def agent(number: int, dice: random.Random) -> Agent:
    """Make one agent with 8 reasoners and 12 skills, with names and tags as people give them."""
    binding = Binding(AgentServer(base_url=f"http://agent-{number}.internal:8080"))
    pairs = dice.sample(range(len(VERBS) * len(NOUNS)), 20)
    chosen = [f"{VERBS[pair // len(NOUNS)]}_{NOUNS[pair % len(NOUNS)]}_{dice.randrange(50)}" for pair in pairs]
    items = tuple(
        Capability(kind="reasoner" if i < 8 else "skill", id=name, tags=tuple(dice.sample(TAGS, 3)), binding=binding)
        for i, name in enumerate(chosen)
    )
    return Agent(
        id=f"agent-{number:06}",
        base_url=f"http://agent-{number}.internal:8080",
        capabilities=items,
        reasoner_count=8,
        health="active",
    )


def figures(sizes: tuple[int, int] = (1_000, 100_000), runs: int = 7) -> list[Figure]:
    """Measure a small and a large catalogue; the large one shows what grows."""
    dice = random.Random(4)  # noqa: S311 - the same catalogue every time
    small, large = (Snapshot.of(agent(number, dice) for number in range(size)) for size in sizes)
    newcomers = itertools.cycle([agent(number, dice) for number in range(200_000, 200_050)])
    changes = itertools.cycle([agent(number, dice) for number in range(50)])
    found: list[Figure] = []
    for name, snapshot, most in ((f"{sizes[0]:,}", small, 1.0), (f"{sizes[1]:,}", large, 5.0)):
        new = cpu(lambda snapshot=snapshot: snapshot.with_agent(next(newcomers)), calls=50)
        changed = cpu(lambda snapshot=snapshot: snapshot.with_agent(next(changes)), calls=50)
        found += [
            Figure(f"catalog: new agent at {name} agents", new.median * 1e3, "ms", new.spread * 1e3, target=most),
            Figure(
                f"catalog: changed agent at {name} agents",
                changed.median * 1e3,
                "ms",
                changed.spread * 1e3,
                target=most,
            ),
        ]
    label = f"{sizes[1]:,} against {sizes[0]:,}"
    by_id, exact, wild = (
        Query(agents=("agent-000500",)),
        Query(reasoner="deep_research_7"),
        Query(reasoner="*research*"),
    )
    return [
        *found,
        _growth(f"catalog: selecting one agent, {label}", (small, large), by_id, runs, calls=1000),
        _growth(f"catalog: selecting one reasoner name, per match, {label}", (small, large), exact, runs, calls=20),
        _growth(f"catalog: selecting *research*, per match, {label}", (small, large), wild, runs, calls=1),
    ]


def _growth(name: str, snapshots: tuple[Snapshot, Snapshot], query: Query, runs: int, *, calls: int) -> Figure:
    """Return what one match costs in the second, against the first; both take turns."""
    small, large = snapshots
    matches = [max(1, snapshot.select(query).total_agents) for snapshot in snapshots]
    ratios = [
        (cpu(lambda: large.select(query), 1, calls).median / matches[1])
        / (cpu(lambda: small.select(query), 1, 10 * calls).median / matches[0])
        for _ in range(runs)
    ]
    return figure(name, ratios, "x", 2.0)
