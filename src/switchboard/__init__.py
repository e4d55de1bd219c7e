"""Switchboard: what an agent can use right now, and the call put through only if the user said yes."""

__version__ = "0.1.0"
