"""The program of the project ``fleet``: one stack a cell."""

from collections.abc import Collection
from dataclasses import dataclass

import pulumi

from hermesops.model.cell import CellSpec
from hermesops.model.ids import MachineName
from hermesops.model.stack import StackRef
from hermesops.stacks import cell as component
from hermesops.stacks import machine
from hermesops.stacks.cell import Cell, CellArgs

PROJECT = "fleet"
"""Pulumi's project name, as in pulumi/fleet/Pulumi.yaml."""


@dataclass(frozen=True)
class FleetProgram:
    """A Pulumi program: call it inside an engine.

    Attributes:
        spec: What the cell should be.
        released: Machines that lose their protection, so that a later run may delete or replace them.
    """

    spec: CellSpec
    released: frozenset[MachineName] = frozenset()

    @property
    def stack(self) -> StackRef:
        """The stack it belongs to."""
        return StackRef(PROJECT, self.spec.name)

    def __call__(self) -> None:
        """Register the cell; exports ``machines``: ``{name: {id, slug, status}}``."""
        cell = Cell(self.spec.name, CellArgs(machines=self.spec.machines, released=self.released))
        pulumi.export("machines", cell.machines)


def urns_of(stack: StackRef, machines: Collection[MachineName]) -> tuple[str, ...]:
    """Pulumi's names of machines of a cell, and of the component that they are children of."""
    prefix = f"urn:pulumi:{stack.stack}::{stack.project}::{component.TYPE}"
    return f"{prefix}::{stack.stack}", *(f"{prefix}${machine.TYPE}::{name}" for name in sorted(machines))
