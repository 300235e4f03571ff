"""Cells: placement of new machines, Pulumi stacks, guards before each run, and costs of machines."""
