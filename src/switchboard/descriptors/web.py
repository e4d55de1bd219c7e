"""Descriptors of strangers: what a web site, or a registry, may describe, and what it may not."""

from msgspec.structs import replace

from switchboard.catalog.bindings import Http, McpHttp, Skill
from switchboard.catalog.findings import Problem
from switchboard.catalog.model import Platform
from switchboard.descriptors import aai


def read_web(raw: bytes, *, system: Platform, origin: str, folder: str = "") -> aai.Reading:
    """Read a descriptor that a stranger sent: a site must not make this machine run programs.

    The first drafts have an entry for each system in one file; there the one for the web is meant.
    """
    reading = on_the_web(aai.read(raw, system=system, folder=folder, origin=origin))
    if reading.app is None:
        as_web = on_the_web(aai.read(raw, system="web", folder=folder, origin=origin))
        return reading if as_web.app is None else as_web
    return reading


def on_the_web(reading: aai.Reading) -> aai.Reading:
    """Return a reading without its app where that would run on the machine of whoever reads it."""
    execution = reading.app.execution if reading.app is not None else None
    match execution:
        case None | Http() | McpHttp() | Skill(path=None):
            return reading
        case _:
            message = f"{execution.kind} runs on this machine, which a web site cannot ask for; use http"
            problem = Problem("error", "value", "$.execution.type", message)
            return replace(reading, app=None, problems=(*reading.problems, problem))
