"""The agents of the benchmarks: 1000 with 8 reasoners and 12 skills each, the same ones every time."""

import random
from typing import Any

AGENTS = 1000
REASONERS = 8
SKILLS = 12

_VERBS = ("deep", "web", "fast", "batch", "live", "smart", "bulk", "safe", "raw", "multi", "cross", "guided", "daily")
_NOUNS = (
    "research",
    "search",
    "summary",
    "scraper",
    "parser",
    "translation",
    "classifier",
    "extraction",
    "planner",
    "report",
    "forecast",
    "review",
    "ranking",
)
_OBJECTS = ("invoices", "contracts", "papers", "tickets", "images", "calls", "emails", "logs", "tables", "claims")
_TAGS = (
    *("ml", "mlops", "ml_vision", "nlp", "web", "search", "data", "vision", "audio", "finance", "legal", "research"),
    *("html", "etl", "support", "sales", "search_index", "synthesis", "images", "text", "code", "security", "ops"),
)
_SENTENCES = (
    "Performs comprehensive {noun} over {objects} and synthesizes what it finds",
    "Takes {objects} in, runs a {verb} {noun} and returns a list with a score for each",
    "Searches several sources for {objects}, removes duplicates and gives a {noun} of the rest",
    "Keeps a {noun} of {objects} up to date and answers questions about it",
)


def agent_id(number: int) -> str:
    """Return the id of one agent."""
    return f"agent-{number:04}"


def registrations(seed: int = 4, count: int = AGENTS) -> list[dict[str, Any]]:
    """Return the registrations of all agents, as an SDK sends them."""
    dice = random.Random(seed)  # noqa: S311 - the same catalogue every time
    return [registration(number, dice) for number in range(count)]


def registration(number: int, dice: random.Random) -> dict[str, Any]:
    """Return the registration of one agent, of about 20 KB; it promises so few heartbeats that silence is normal."""
    names = [f"{verb}_{noun}_{objects}" for verb in _VERBS for noun in _NOUNS for objects in _OBJECTS]
    chosen = [_capability(name, dice) for name in dice.sample(names, REASONERS + SKILLS)]
    return {
        "id": agent_id(number),
        "base_url": f"http://127.0.0.1:{20000 + number}",
        "version": f"{dice.randrange(1, 4)}.{dice.randrange(10)}.{dice.randrange(10)}",
        "deployment_type": "long_running",
        "lifecycle_status": "ready",
        "communication_config": {"heartbeat_interval": "30m"},
        "reasoners": chosen[:REASONERS],
        "skills": chosen[REASONERS:],
    }


def _capability(name: str, dice: random.Random) -> dict[str, Any]:
    verb, noun, objects = name.split("_")
    return {
        "id": name,
        "description": dice.choice(_SENTENCES).format(verb=verb, noun=noun, objects=objects),
        "tags": dice.sample(_TAGS, 3),
        "input_schema": _schema(noun, objects, dice),
    }


def _schema(noun: str, objects: str, dice: random.Random) -> dict[str, Any]:
    """Return a schema of about 600 bytes."""
    return {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": f"What to look for in the {objects}", "minLength": 1},
            "depth": {
                "type": "integer",
                "minimum": 1,
                "maximum": dice.randrange(3, 10),
                "default": 3,
                "description": f"How deep the {noun} goes before it gives up",
            },
            "sources": {
                "type": "array",
                "items": {"type": "string", "format": "uri"},
                "maxItems": dice.randrange(5, 50),
                "description": f"Where the {objects} come from, if not from everywhere",
            },
            "language": {"type": "string", "enum": ["en", "de", "fr", "zh"], "default": "en"},
            "dry_run": {"type": "boolean", "default": False, "description": "Say what would be done"},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
