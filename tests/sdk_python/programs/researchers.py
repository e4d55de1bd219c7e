"""The agents that the discovery document's examples speak of, written with the SDK and run in one process."""

import signal
import threading

from agentfield import Agent

research = Agent("agent-research-001", version="2.3.1", description="Research")
general = Agent("agent-001")
first = Agent("a1")
second = Agent("a2")


@research.reasoner(
    tags=["research", "ml", "synthesis"],
    examples=[{"name": "Basic research query", "input": {"query": "quantum", "depth": 3}}],
)
async def deep_research(query: str, depth: int = 3, sources: list[str] | None = None) -> dict[str, object]:
    """Perform comprehensive research using multiple sources.

    Args:
        query: Research query or topic
        depth: Research depth level
        sources: Specific sources to search
    """
    return {"findings": [f"{query} in depth {depth}"], "sources": sources or []}


@research.skill(tags=["web", "search", "data"])
def web_search(query: str, num_results: int = 10) -> list[str]:
    """Search the web using multiple search engines."""
    return [f"{query} {number}" for number in range(num_results)]


@research.skill(tags=["status"])
def web_status() -> str:
    """Tell whether the web is there."""
    return "the web is there"


@general.reasoner(tags=["mlops", "deep_learning"])
def web_researcher(query: str) -> str:
    """Look something up."""
    return query.title()


@general.skill(tags=["web", "scraping", "ml_vision"])
def web_scraper(url: str) -> str:
    """Read a page."""
    return url


@first.reasoner(tags=["html"])
def summarise(text: str) -> str:
    """Summarise a text."""
    return text[:10]


@second.skill(tags=["machine_learning"])
def web_parser(text: str) -> str:
    """Parse a text."""
    return text


def main() -> None:
    """Serve all of them until somebody ends us."""
    agents = (research, general, first, second)
    threads = [threading.Thread(target=agent.run, kwargs={"port": 0}) for agent in agents]
    for thread in threads:
        thread.start()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    for agent in agents:
        agent.stop()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main()
