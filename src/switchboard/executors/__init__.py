"""How a capability is run: one file for each kind of execution."""
