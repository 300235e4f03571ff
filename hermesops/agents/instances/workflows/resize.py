"""Change an instance's plan on the machine it is on: stop and back up, resize by its cell, start again.

Where the vendor cannot resize, the same is done by ``relocate``, on a new machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hermesops.agents.cells.stack.stacks import CellStacks
from hermesops.agents.instances import refusals
from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.steps import start_verified, stop_and_backup
from hermesops.agents.instances.steps.ports import Backups
from hermesops.agents.instances.steps.stop_and_backup import BackUp, Fence
from hermesops.errors import Hint, PartlyDoneError, RefusedError
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Done, Refused
from hermesops.model.plan import Plan
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.state import State
from hermesops.store.operations.kinds.agents import PlanSize
from hermesops.store.registry import Registry
from hermesops.vendor.justavps.wire import MachineStatus


@dataclass(frozen=True)
class ChangePlan:
    """Write the plan and its server type into the rows."""


@dataclass(frozen=True)
class ApplyCell:
    """Run the cell's stack: it resizes the machine, which reboots."""


Step = stop_and_backup.Step | ChangePlan | ApplyCell | start_verified.Step


@dataclass(frozen=True)
class ResizeState:
    """The instance, its stopped state, and its backup of this operation."""

    observation: Observation
    state: State | None = None
    backup: Backup | None = None


def decide(state: ResizeState, size: PlanSize, *, payload_digest: str) -> Step | Done | Refused:
    """The next step towards an agent of that plan."""
    instance, machine = state.observation.instance, state.observation.machine
    if instance.status is InstanceStatus.TERMINATED:
        return Refused(refusals.terminated(instance))
    if instance.plan is not size.plan:
        return stop_and_backup.next_step(state.observation, state.backup) or ChangePlan()
    settled = machine is not None and machine.status in {MachineStatus.READY, MachineStatus.STOPPED}
    if machine is not None and settled and machine.server_type != size.server_type:
        return ApplyCell()
    if state.backup is None:
        return Done(f"{instance.title} has plan {size.plan} already")
    step = start_verified.next_step(
        state.observation, payload_digest=payload_digest, was=state.backup.state, state=state.state
    )
    return step or Done(f"{instance.title} has plan {size.plan} on a {size.server_type}, with {state.backup.state}")


@dataclass
class Resize:
    """The work of one change of plan in place, for the operations' loop.

    Attributes:
        before: The size at the request; restored if the vendor refuses the new one.
        data_gb: Gigabytes of data that each plan has room for; 0 does not change it.
    """

    instance_id: InstanceId
    why: str
    before: PlanSize
    size: PlanSize
    data_gb: Mapping[Plan, int]
    registry: Registry
    client: PowerControl
    backups: Backups
    cells: CellStacks
    _refusal: RefusedError | None = field(default=None, init=False)

    async def observe(self) -> ResizeState:
        """Look at row, machine, node, gateway and backups."""
        observation = await self.client.observe(self.instance_id)
        state = await stop_and_backup.stopped_state(observation, self.client)
        return ResizeState(observation, state, self.backups.made(self.instance_id, self.why))

    def decide(self, state: ResizeState) -> Step | Done | Refused:
        """The next step; after a refusal of the vendor, the way back and then the vendor's message."""
        digest = self.client.payload_digest(state.observation.instance)
        if self._refusal is None:
            return decide(state, self.size, payload_digest=digest)
        back = decide(state, self.before, payload_digest=digest)
        return Refused(self._refusal) if isinstance(back, Done) else back

    def describe(self, step: Step, state: ResizeState) -> str:
        """The step in a few words."""
        instance = state.observation.instance
        size = self.size if self._refusal is None else self.before
        match step:
            case ChangePlan():
                return f"recording plan {size.plan} of {instance.title}"
            case ApplyCell():
                return f"resizing machine {instance.machine_name} to {size.server_type}; it reboots"
            case Fence() | BackUp():
                return stop_and_backup.describe(step, instance)
            case _:
                return start_verified.describe(step, instance)

    async def do(self, step: Step, state: ResizeState) -> None:
        """Do one step; harmless when it was done before."""
        instance, size = state.observation.instance, self.size if self._refusal is None else self.before
        match step:
            case ChangePlan():
                self.registry.instances.change_plan(instance.id, size.plan, size.server_type, why=self.why)
            case ApplyCell():
                await self._apply_cell(state.observation, size)
            case Fence() | BackUp():
                await stop_and_backup.do(step, instance, client=self.client, backups=self.backups, why=self.why)
            case _:
                await start_verified.do(step, instance, client=self.client, registry=self.registry)

    async def _apply_cell(self, observation: Observation, size: PlanSize) -> None:
        instance = observation.instance
        # First, because the resize reboots the machine, and a volume grows as it boots.
        await self._want_room(observation, size)
        try:
            await self.cells.apply(instance.cell, still_wanted=_always)
        except PartlyDoneError:
            # The run made somebody else's machine, too; what became of this one is seen by looking again.
            return
        except RefusedError as refusal:
            if self._refusal is not None:
                raise
            await self._want_room(observation, self.before)
            # A plan that cannot be had must not cost the user the agent: back to what it was, then the refusal.
            self._refusal = RefusedError(
                refusal.message,
                hint=Hint(("instance", "resize", instance.title, "--plan", "PLAN", "--onto-new-machine")),
            )

    async def _want_room(self, observation: Observation, size: PlanSize) -> None:
        gigabytes, machine = self.data_gb[size.plan], observation.machine
        if gigabytes and machine is not None and machine.status is MachineStatus.READY:
            await self.client.want_room(machine.id, gigabytes)


async def _always() -> bool:
    return True
