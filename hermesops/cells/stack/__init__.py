"""Cells' Pulumi stacks: run, observed, repaired by hand."""
