"""Measurements. Machines are noisy: every figure is a ratio within one run, or a count; seconds are for orientation."""
