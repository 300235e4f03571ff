"""The program of the project ``fleet``: one stack a cell."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pulumi

from hermesops.model.cell import CellSpec
from hermesops.model.ids import MachineId, MachineName
from hermesops.model.plan import Plan
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
        imported: Machines that the stack takes in by their ids, in place of making them.
        data_gb: Gigabytes of the data volume of machines of each plan.
    """

    spec: CellSpec
    released: frozenset[MachineName] = frozenset()
    imported: Mapping[MachineName, MachineId] = field(default_factory=dict)
    data_gb: Mapping[Plan, int] = field(default_factory=dict)

    @property
    def stack(self) -> StackRef:
        """The stack it belongs to."""
        return StackRef(PROJECT, self.spec.name)

    def __call__(self) -> None:
        """Register the cell; exports ``machines``: ``{name: {id, slug, status}}``."""
        spec = self.spec
        args = CellArgs(spec.machines, released=self.released, imported=self.imported, data_gb=self.data_gb)
        cell = Cell(spec.name, args)
        pulumi.export("machines", cell.machines)


def urns_of(stack: StackRef, machines: Collection[MachineName]) -> tuple[str, ...]:
    """Pulumi's names of machines of a cell, and of the component that they are children of."""
    prefix = f"urn:pulumi:{stack.stack}::{stack.project}::{component.TYPE}"
    return f"{prefix}::{stack.stack}", *(f"{prefix}${machine.TYPE}::{name}" for name in sorted(machines))
