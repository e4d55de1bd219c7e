"""What may be wrong with this installation and this machine, and what to do about it."""
