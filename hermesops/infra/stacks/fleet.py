"""The program of the project ``fleet``, one stack a cell, and its component ``Cell``: machines protected from birth."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi import Output, ResourceOptions

from hermesops.infra.stacks.resources import MACHINE_TYPE, Machine, MachineArgs
from hermesops.model.fleet.cell import CellMachine, CellSpec
from hermesops.model.ids import MachineId, MachineName
from hermesops.model.plan import Plan
from hermesops.model.stack import StackRef

CELL_TYPE = "hermesops:fleet:Cell"


@dataclass(frozen=True)
class CellArgs:
    """Machines and limits of a cell.

    Attributes:
        released: Machines to delete or replace, named by an operator; these lose their protection.
        imported: Machines that exist and that the stack takes in by their ids, in place of making them.
        data_gb: Gigabytes of the data volume of machines of each plan; one of a plan that is not here has none.
    """

    machines: Sequence[CellMachine]
    released: frozenset[MachineName] = frozenset()
    imported: Mapping[MachineName, MachineId] = field(default_factory=dict)
    data_gb: Mapping[Plan, int] = field(default_factory=dict)


class Cell(pulumi.ComponentResource):
    """The machines of one cell.

    Attributes:
        machines: By machine name: ``id``, ``slug`` and ``status``.
    """

    machines: Output[dict[str, Any]]

    def __init__(self, name: str, args: CellArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__(CELL_TYPE, name, None, opts)
        machines = {machine.name: self._machine(machine, args) for machine in args.machines}
        described: dict[str, Any] = {
            name: {"id": machine.id, "slug": machine.slug, "status": machine.status}
            for name, machine in machines.items()
        }
        self.machines = Output.from_input(described)
        self.register_outputs({"machines": self.machines})

    def _machine(self, machine: CellMachine, args: CellArgs) -> Machine:
        data_gb = args.data_gb.get(machine.plan) if machine.plan else None
        return Machine(
            machine.name,
            MachineArgs(
                region=machine.region,
                server_type=machine.server_type,
                image_id=machine.image_id,
                data_gb=str(data_gb) if data_gb else None,
            ),
            ResourceOptions(
                parent=self,
                protect=machine.name not in args.released,
                # Orders are found again by name: the old machine must be gone before one of its name is ordered.
                delete_before_replace=True,
                import_=args.imported.get(machine.name),
            ),
        )


@dataclass(frozen=True)
class FleetProgram:
    """A Pulumi program: call it inside an engine.

    Attributes:
        released: Machines that lose their protection, so that a later run may delete or replace them.
        imported: Machines that the stack takes in by their ids, in place of making them.
        data_gb: Gigabytes of the data volume of machines of each plan.
    """

    spec: CellSpec
    released: frozenset[MachineName] = frozenset()
    imported: Mapping[MachineName, MachineId] = field(default_factory=dict)
    data_gb: Mapping[Plan, int] = field(default_factory=dict)

    def __call__(self) -> None:
        """Register the cell; exports ``machines``: ``{name: {id, slug, status}}``."""
        spec = self.spec
        args = CellArgs(spec.machines, released=self.released, imported=self.imported, data_gb=self.data_gb)
        cell = Cell(spec.name, args)
        pulumi.export("machines", cell.machines)


@dataclass(frozen=True)
class CellPrograms:
    """Builds the Pulumi programs of cells."""

    data_gb: Mapping[Plan, int]

    def program(self, spec: CellSpec, released: frozenset[MachineName]) -> FleetProgram:
        """Build the program of one cell."""
        return FleetProgram(spec, released, data_gb=self.data_gb)

    def importing(self, spec: CellSpec, ids: Mapping[MachineName, MachineId]) -> FleetProgram:
        """The program of one cell that names some of its machines by their ids."""
        return FleetProgram(spec, imported=ids, data_gb=self.data_gb)

    def urns(self, stack: StackRef, machines: Collection[MachineName]) -> tuple[str, ...]:
        """Pulumi's names of machines of a cell, and of the component that they are children of."""
        prefix = f"urn:pulumi:{stack.stack}::{stack.project}::{CELL_TYPE}"
        return f"{prefix}::{stack.stack}", *(f"{prefix}${MACHINE_TYPE}::{name}" for name in sorted(machines))
