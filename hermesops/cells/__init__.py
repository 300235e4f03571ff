"""Cells: where a new machine goes, their Pulumi stacks, what stands before each run, and what machines cost."""
