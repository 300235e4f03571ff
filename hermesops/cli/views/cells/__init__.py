"""Output about cells and their stacks."""
