"""Where descriptors come from: each source finds them in its place and reports the broken ones."""
