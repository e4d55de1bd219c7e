"""What exists, and questions about it: owners, capabilities, names, queries. Pure, no I/O."""
