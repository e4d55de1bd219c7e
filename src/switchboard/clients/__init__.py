"""Agent clients that this program knows: where their configuration is, how it is written, and one entry in it."""
