"""Logs and metrics, cheap enough for every request."""
