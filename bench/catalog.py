"""What the catalogue costs: applying one registration, and selecting, at 1,000 and at 100,000 agents."""

import itertools
import random

from bench.figures import Figure, cpu
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
    names = [f"{verb}_{noun}_{dice.randrange(50)}" for verb, noun in itertools.product(VERBS, NOUNS)]
    chosen = dice.sample(names, 20)
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


def figures() -> list[Figure]:
    """Measure a small and a large catalogue; the large one shows what grows."""
    dice = random.Random(4)  # noqa: S311 - the same catalogue every time
    small = Snapshot.of(agent(number, dice) for number in range(1_000))
    large = Snapshot.of(agent(number, dice) for number in range(100_000))
    newcomers = itertools.cycle([agent(number, dice) for number in range(200_000, 200_050)])
    changes = itertools.cycle([agent(number, dice) for number in range(50)])
    found: list[Figure] = []
    for name, snapshot, most in (("1,000", small, 1.0), ("100,000", large, 5.0)):
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
    by_id = Query(agents=("agent-000500",))
    q6_small, q6_large = cpu(lambda: small.select(by_id), calls=1000), cpu(lambda: large.select(by_id), calls=1000)
    exact, wild = Query(reasoner="deep_research_7"), Query(reasoner="*research*")
    q2_small, q2_large = cpu(lambda: small.select(exact), calls=20), cpu(lambda: large.select(exact), calls=20)
    per_match_small = q2_small.median / max(1, small.select(exact).total_agents)
    per_match_large = q2_large.median / max(1, large.select(exact).total_agents)
    wild_small, wild_large = cpu(lambda: small.select(wild), calls=3), cpu(lambda: large.select(wild))
    per_wild_small = wild_small.median / small.select(wild).total_agents
    per_wild_large = wild_large.median / large.select(wild).total_agents
    return [
        *found,
        Figure(
            "catalog: selecting one agent, 100,000 against 1,000", q6_large.median / q6_small.median, "x", target=2.0
        ),
        Figure(
            "catalog: selecting one reasoner name, per match, 100,000 against 1,000",
            per_match_large / per_match_small,
            "x",
            target=2.0,
        ),
        Figure(
            "catalog: selecting *research*, per match, 100,000 against 1,000",
            per_wild_large / per_wild_small,
            "x",
            target=2.0,
        ),
    ]
