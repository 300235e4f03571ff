"""TODO: what this package is."""
