"""Output about instances."""
