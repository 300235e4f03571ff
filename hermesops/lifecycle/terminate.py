"""The end of an instance: its gateway fenced, its machine destroyed through its cell, its secrets forgotten.

The row says first that the machine shall go (so every run of the cell agrees), and last that it is gone.
"""

from dataclasses import dataclass
from functools import partial
from typing import Protocol, assert_never

from hermesops.justavps.wire import MachineStatus
from hermesops.lifecycle.ports import Cells, Looks
from hermesops.lifecycle.sight import MachineSeen, Sight
from hermesops.model.ids import InstanceId, MachineId
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.operation import Finished, Impossible


@dataclass(frozen=True)
class Fence:
    """Stop the gateway for good, so that nothing answers for the user while the machine goes."""

    machine_id: MachineId


@dataclass(frozen=True)
class ShrinkCell:
    """Run the cell's stack without the machine."""


@dataclass(frozen=True)
class MarkTerminated:
    """Write ``terminated`` and drop the instance's secrets."""


Step = Fence | ShrinkCell | MarkTerminated


@dataclass(frozen=True)
class Ending:
    """What ending an instance looks at.

    Attributes:
        in_stack: Whether the cell's state still holds the machine.
        fenced: Whether the gateway is known to be stopped; ``False`` when nobody answered.
        reachable: Whether the machine answered at all.
    """

    sight: Sight
    in_stack: bool
    fenced: bool
    reachable: bool


def decide(seen: Ending) -> Step | Finished | Impossible:
    """The next step towards the end."""
    instance = seen.sight.instance
    if instance.status is InstanceStatus.TERMINATED:
        return Finished(f"the instance of {instance.title} is terminated")
    machine = seen.sight.machine
    gone = machine is None or machine.status is MachineStatus.DELETED
    if machine is not None and not gone and seen.reachable and not seen.fenced:
        return Fence(machine.id)
    if not gone or seen.in_stack:
        return ShrinkCell()
    return MarkTerminated()


def describe(step: Step, instance: Instance) -> str:
    """The step in a few words."""
    match step:
        case Fence():
            return f"stopping the gateway of {instance.title}"
        case ShrinkCell():
            return f"destroying machine {instance.machine_name}"
        case MarkTerminated():
            return "forgetting keys and tokens"
        case _ as never:
            assert_never(never)


class Rows(Protocol):
    """The registry, as far as termination writes it."""

    def mark_terminated(self, instance_id: InstanceId) -> None:
        """Record the end and erase the instance's secrets."""


class Gateways(Protocol):
    """The gateways' units."""

    async def is_stopped(self, machine: MachineSeen | None) -> bool | None:
        """Whether a gateway is stopped and cannot start; ``None`` when the machine does not answer."""

    async def fence(self, machine_id: MachineId) -> None:
        """Stop a gateway so that it does not start again."""


class Terminate:
    """The work of ending one instance, for the operations' loop.

    Args:
        instance_id: Whose; its row already says that the machine shall go.
        rows: The registry.
        world: Machines and nodes.
        gateways: Their units.
        cells: Stacks of cells.
    """

    def __init__(self, instance_id: InstanceId, rows: Rows, world: Looks, gateways: Gateways, cells: Cells) -> None:
        self._instance_id = instance_id
        self._rows = rows
        self._world = world
        self._gateways = gateways
        self._cells = cells

    async def observe(self) -> Ending:
        """Look at row, machine, gateway and the cell's state."""
        sight = await self._world.look(self._instance_id)
        stopped = await self._gateways.is_stopped(sight.machine)
        return Ending(
            sight,
            in_stack=await self._holds(sight.instance),
            fenced=stopped is True,
            reachable=stopped is not None,
        )

    def decide(self, seen: Ending) -> Step | Finished | Impossible:
        """The next step for what was seen."""
        return decide(seen)

    def describe(self, step: Step, seen: Ending) -> str:
        """The step in a few words."""
        return describe(step, seen.sight.instance)

    async def do(self, step: Step, seen: Ending) -> None:
        """Do one step; harmless when it was done before."""
        match step:
            case Fence(machine_id=machine_id):
                await self._gateways.fence(machine_id)
            case ShrinkCell():
                instance = seen.sight.instance
                await self._cells.bring(instance.cell, still_wanted=partial(self._holds, instance))
            case MarkTerminated():
                self._rows.mark_terminated(self._instance_id)
            case _ as never:
                assert_never(never)

    async def _holds(self, instance: Instance) -> bool:
        return await self._cells.holds(instance.cell, instance.machine_name)
