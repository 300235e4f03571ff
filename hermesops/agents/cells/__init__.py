"""Cells: where a new machine goes, their Pulumi stacks, the guards before each run, and what machines cost."""
