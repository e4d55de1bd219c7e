"""What is remembered: one file per database, one shared test suite over all of them."""
