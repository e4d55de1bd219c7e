"""Tools of this repository's own checks; not part of the product."""
