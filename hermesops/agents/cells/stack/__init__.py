"""Cells' Pulumi stacks: observed, run, repaired by hand."""
