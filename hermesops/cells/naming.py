"""What a cell is called where it is no cell: its Pulumi stack, its lease. Pure."""

from hermesops.model.ids import CellName
from hermesops.model.stack import StackRef

PROJECT = "fleet"
"""Pulumi project of all cells; its folder is ``pulumi/fleet``."""


def stack_of(cell: CellName) -> StackRef:
    """The stack that holds a cell."""
    return StackRef(PROJECT, cell)


def lease_of(cell: CellName) -> str:
    """What is leased while a cell's stack is changed."""
    return f"stack/{PROJECT}/{cell}"
