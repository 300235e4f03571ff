"""An instance's plan changed on the machine it is on: at rest, backed up, resized by its cell, alive again.

Where the vendor cannot resize, the same is done by ``relocate``, on a new machine.
"""

from dataclasses import dataclass
from typing import Protocol

from hermesops.errors import PartlyDoneError, RefusedError
from hermesops.instances.observation import Sight
from hermesops.instances.ports import Cells, Copies
from hermesops.instances.steps import start_verified, stop_and_backup
from hermesops.instances.steps.personalise import terminated
from hermesops.instances.steps.stop_and_backup import BackUp, Fence
from hermesops.justavps.wire import MachineStatus
from hermesops.model.backup import Backup
from hermesops.model.ids import InstanceId, MachineId
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.operation import Finished, Impossible
from hermesops.model.plan import Plan
from hermesops.model.state import State


@dataclass(frozen=True)
class ChangePlan:
    """Write the plan and its server type into the rows."""


@dataclass(frozen=True)
class BringCell:
    """Run the cell's stack: it resizes the machine, which reboots."""


Step = stop_and_backup.Step | ChangePlan | BringCell | start_verified.Step


@dataclass(frozen=True)
class Size:
    """What an instance shall be.

    Attributes:
        plan: What its user bought.
        server_type: What that is at the vendor.
        data_gb: Gigabytes of data that it has room for; 0 leaves that as it is.
    """

    plan: Plan
    server_type: str
    data_gb: int = 0


@dataclass(frozen=True)
class Resizing:
    """What resizing looks at.

    Attributes:
        state: What is on the machine, while its gateway rests.
        backup: Made for this very operation.
    """

    sight: Sight
    state: State | None = None
    backup: Backup | None = None


def decide(seen: Resizing, size: Size, *, payload_digest: str) -> Step | Finished | Impossible:
    """The next step towards an agent of that plan.

    Args:
        seen: The instance as it is now.
        size: What it shall be.
        payload_digest: Digest of what the node should have been given.
    """
    instance, machine = seen.sight.instance, seen.sight.machine
    if instance.status is InstanceStatus.TERMINATED:
        return Impossible(terminated(instance))
    if instance.plan is not size.plan:
        return stop_and_backup.next_step(seen.sight, seen.backup) or ChangePlan()
    settled = machine is not None and machine.status in {MachineStatus.READY, MachineStatus.STOPPED}
    if machine is not None and settled and machine.server_type != size.server_type:
        return BringCell()
    if seen.backup is None:
        return Finished(f"{instance.title} has plan {size.plan} already")
    step = start_verified.next_step(seen.sight, payload_digest=payload_digest, was=seen.backup.state, state=seen.state)
    return step or Finished(f"{instance.title} has plan {size.plan} on a {size.server_type}, with {seen.backup.state}")


def describe(step: Step, instance: Instance, size: Size) -> str:
    """The step in a few words."""
    match step:
        case ChangePlan():
            return f"recording plan {size.plan} of {instance.title}"
        case BringCell():
            return f"resizing machine {instance.machine_name} to {size.server_type}; it reboots"
        case Fence() | BackUp():
            return stop_and_backup.describe(step, instance)
        case _:
            return start_verified.describe(step, instance)


class Rows(start_verified.Rows, Protocol):
    """The registry, as far as resizing writes it."""

    def change_plan(self, instance_id: InstanceId, plan: Plan, server_type: str, *, why: str) -> object:
        """Write an instance's plan, and the server type of its machine."""


class World(start_verified.World, Protocol):
    """The world, for whoever resizes machines."""

    async def want_room(self, machine_id: MachineId, gigabytes: int) -> None:
        """Have its data volume be that large from the next boot on."""


class Resize:
    """The work of one change of plan in place, for the operations' loop.

    Args:
        instance_id: Whose.
        why: What the backup is made for.
        before: What it was when this was asked for; gone back to where the vendor refuses.
        size: What it shall be.
        rows: The registry.
        world: Machine, node and gateway.
        copies: Backups.
        cells: Stacks of cells.
    """

    def __init__(
        self,
        instance_id: InstanceId,
        *,
        why: str,
        before: Size,
        size: Size,
        rows: Rows,
        world: World,
        copies: Copies,
        cells: Cells,
    ) -> None:
        self._instance_id = instance_id
        self._why = why
        self._before = before
        self._size = size
        self._rows = rows
        self._world = world
        self._copies = copies
        self._cells = cells
        self._refusal: RefusedError | None = None

    async def observe(self) -> Resizing:
        """Look at row, machine, node, gateway and backups."""
        sight = await self._world.look(self._instance_id)
        state = await stop_and_backup.resting_state(sight, self._world)
        return Resizing(sight, state, self._copies.made(self._instance_id, self._why))

    def decide(self, seen: Resizing) -> Step | Finished | Impossible:
        """The next step for what was seen; where the vendor refused, the way back, and then its words."""
        digest = self._world.payload_digest(seen.sight.instance)
        if self._refusal is None:
            return decide(seen, self._size, payload_digest=digest)
        back = decide(seen, self._before, payload_digest=digest)
        return Impossible(self._refusal) if isinstance(back, Finished) else back

    def describe(self, step: Step, seen: Resizing) -> str:
        """The step in a few words."""
        return describe(step, seen.sight.instance, self._size if self._refusal is None else self._before)

    async def do(self, step: Step, seen: Resizing) -> None:
        """Do one step; harmless when it was done before."""
        instance, size = seen.sight.instance, self._size if self._refusal is None else self._before
        match step:
            case ChangePlan():
                self._rows.change_plan(instance.id, size.plan, size.server_type, why=self._why)
            case BringCell():
                await self._bring(seen.sight, size)
            case Fence() | BackUp():
                await stop_and_backup.do(step, instance, world=self._world, copies=self._copies, why=self._why)
            case _:
                await start_verified.do(step, instance, world=self._world, rows=self._rows)

    async def _bring(self, sight: Sight, size: Size) -> None:
        instance = sight.instance
        await self._want_room(sight, size)  # before: the resize reboots the machine, and a volume grows as it boots
        try:
            await self._cells.bring(instance.cell, still_wanted=_always)
        except PartlyDoneError:
            # The run made somebody else's machine, too; what became of this one is seen by looking again.
            return
        except RefusedError as refusal:
            if self._refusal is not None:
                raise
            await self._want_room(sight, self._before)
            # A plan that cannot be had must not cost the user the agent: back to what it was, then the refusal.
            self._refusal = RefusedError(
                refusal.message, hint=f"hermesops instance resize {instance.title} --plan … --onto-new-machine"
            )

    async def _want_room(self, sight: Sight, size: Size) -> None:
        if size.data_gb and sight.machine is not None and sight.machine.status is MachineStatus.READY:
            await self._world.want_room(sight.machine.id, size.data_gb)


async def _always() -> bool:
    return True
