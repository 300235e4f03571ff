"""Make the machine ready that an instance will be on, with the agent's release, while the one it is on serves."""

from collections.abc import Mapping
from dataclasses import dataclass

from hermesops.agents.cells.stack.stacks import CellStacks
from hermesops.agents.instances.observation import MachineState
from hermesops.agents.instances.steps import OnMachine, machine_table
from hermesops.agents.instances.steps.machine_table import AwaitMachine, StartMachine
from hermesops.model.fleet.health import NodeState
from hermesops.model.fleet.unassigned_machine import UnassignedMachine
from hermesops.model.ids import CellName, MachineId, MachineName
from hermesops.model.operation import Refused
from hermesops.model.recovery.state import State
from hermesops.model.rollout.release import ReleaseId
from hermesops.vendor.justavps.wire import MachineStatus


@dataclass(frozen=True)
class OrderReplacement:
    """Write the row of the machine that the instance will be on."""


@dataclass(frozen=True)
class GrowCell:
    """Run the stack of the machine's cell: it makes the machine, or finds it by name."""


class RecordReplacement(OnMachine):
    """Write the vendor's id of that machine into its row."""


class StartReplacement(OnMachine):
    """Boot that machine; somebody stopped it."""


class AwaitReplacement(OnMachine):
    """Wait until that machine is ready and hermes-node on it answers."""


@dataclass(frozen=True)
class DeployRelease:
    """Have the new machine run the release that the agent runs; its state may be of no use to the image's own."""

    machine_id: MachineId
    release: ReleaseId


Step = OrderReplacement | GrowCell | RecordReplacement | StartReplacement | AwaitReplacement | DeployRelease

WORDS: Mapping[type, str] = {
    OrderReplacement: "placing another machine for {user}",
    GrowCell: "creating machine {replacement}",
    RecordReplacement: "recording machine {replacement}",
    StartReplacement: "starting machine {replacement}",
    AwaitReplacement: "waiting for machine {replacement}",
    DeployRelease: "bringing the release of {user} to machine {replacement}",
}
"""Narration of each step, with the names ``user`` and ``replacement``."""


@dataclass(frozen=True)
class ReplacementState:
    """The machine that the instance will be on.

    Attributes:
        state: What is on it, once it is the instance's.
    """

    row: UnassignedMachine
    machine: MachineState | None = None
    node: NodeState | None = None
    state: State | None = None


def next_step(replacement: ReplacementState | None, release: ReleaseId | None) -> Step | Refused | None:
    """The next step towards a machine that can be handed over; ``None`` when it can be.

    Args:
        release: What it shall run; ``None`` for what its image contains.
    """
    if replacement is None:
        return OrderReplacement()
    row, machine, node = replacement.row, replacement.machine, replacement.node
    if machine is None or machine.status is MachineStatus.DELETED:
        return GrowCell()
    if row.machine_id != machine.id:
        return RecordReplacement(machine.id)
    match machine_table.next_step(machine, row.name, if_in_error="the same again in some minutes"):
        case StartMachine(machine_id=machine_id):
            return StartReplacement(machine_id)
        case AwaitMachine(machine_id=machine_id):
            return AwaitReplacement(machine_id)
        case Refused() as refused:
            return refused
    if node is None:
        return AwaitReplacement(machine.id)
    if release is None or (node.release == release and not node.switching):
        return None
    return DeployRelease(machine.id, release)


async def grow_cell(cells: CellStacks, cell: CellName, name: MachineName) -> None:
    """Run a cell's stack so that it has a machine; who waits for the cell asks the last run's state, not the vendor."""

    async def lacks() -> bool:
        return not await cells.holds(cell, name)

    await cells.apply(cell, still_wanted=lacks)
