"""What a caller can do, and the protocols that the rooms around fulfil for it."""
