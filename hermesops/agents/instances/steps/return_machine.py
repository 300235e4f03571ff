"""Return a machine that no instance is on any more to the vendor: retire its row, shrink its cell, forget the row."""

from dataclasses import dataclass

from hermesops.agents.cells.stack.stacks import CellStacks
from hermesops.model.fleet.unassigned_machine import UnassignedMachine
from hermesops.model.ids import MachineName
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class Retire:
    """Take the machine out of what its cell should have."""

    name: MachineName


@dataclass(frozen=True)
class ShrinkCell:
    """Run the stack of the machine's cell without it."""

    name: MachineName


@dataclass(frozen=True)
class Forget:
    """Remove the row of the machine, which is gone."""

    name: MachineName


Step = Retire | ShrinkCell | Forget


def next_step(row: UnassignedMachine, *, exists: bool) -> Step:
    """The next step; ``exists`` is whether the machine is in its cell's state, or at the vendor."""
    if row.wanted:
        return Retire(row.name)
    return ShrinkCell(row.name) if exists else Forget(row.name)


async def do(step: Step, row: UnassignedMachine, *, registry: Registry, cells: CellStacks, why: str) -> None:
    """Do one step; harmless when it was done before."""
    match step:
        case Retire(name=name):
            registry.unassigned.retire(name, why=why)
        case ShrinkCell(name=name):
            await cells.apply(row.cell, still_wanted=lambda: cells.holds(row.cell, name))
        case Forget(name=name):
            registry.unassigned.forget(name, why=why)
