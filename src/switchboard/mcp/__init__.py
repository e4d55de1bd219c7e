"""The MCP face: both generations of the protocol on stdio, one line per app, guides on demand."""
