"""A user to a running agent: decide what the next step is, and do it.

Steps follow from what is seen, never from what was done before, so the same command finishes what a killed one began.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, assert_never

from hermesops.errors import UnavailableError
from hermesops.instances.observation import MachineState, Observation
from hermesops.instances.ports import Cells, HandsOver
from hermesops.instances.steps import boot
from hermesops.instances.steps.boot import AwaitMachine, StartMachine
from hermesops.instances.steps.personalise import (
    AwaitGateway,
    MarkRunning,
    Personalise,
    asleep,
    machine_gone,
    next_step,
    terminated,
)
from hermesops.justavps.wire import MachineStatus
from hermesops.model.ids import InstanceId, MachineId
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.operation import Done, Refused
from hermesops.registry import Registry


@dataclass(frozen=True)
class GrowCell:
    """Run the cell's stack: it makes the machine, or finds it by name."""


@dataclass(frozen=True)
class RecordMachine:
    """Write the vendor's id of the machine into the registry."""

    machine_id: MachineId


Step = GrowCell | RecordMachine | StartMachine | AwaitMachine | Personalise | AwaitGateway | MarkRunning


def decide(seen: Observation, *, payload_digest: str) -> Step | Done | Refused:
    """The next step towards a running agent.

    Args:
        seen: The instance as it is now.
        payload_digest: Digest of what the node should have been given.
    """
    if seen.instance.status is InstanceStatus.TERMINATED:
        return Refused(terminated(seen.instance))
    if seen.instance.status is InstanceStatus.SUSPENDED:
        return Refused(asleep(seen.instance))
    machine = seen.machine
    if machine is None or machine.status is MachineStatus.DELETED:
        # A new machine would be an agent without its memory: never made in silence.
        return Refused(machine_gone(seen)) if seen.instance.machine_id else GrowCell()
    if seen.instance.machine_id != machine.id:
        return RecordMachine(machine.id)
    if (waiting := _machine_step(seen, machine)) is not None:
        return waiting
    return _node_step(seen, machine, payload_digest)


def _machine_step(seen: Observation, machine: MachineState) -> Step | Refused | None:
    instance = seen.instance
    match machine.status:
        case MachineStatus.READY:
            return None
        case MachineStatus.STOPPED:
            return StartMachine(machine.id)
        case MachineStatus.PROVISIONING | MachineStatus.UNKNOWN:
            return AwaitMachine(machine.id)
        case MachineStatus.ERROR:
            return Refused(
                UnavailableError(
                    f"JustAVPS says that machine {instance.machine_name} is in error; it may recover by itself",
                    hint=f"hermesops provision {instance.title} again in some minutes, "
                    f"or hermesops instance terminate {instance.title}",
                )
            )
        case MachineStatus.DELETED:
            return Refused(machine_gone(seen))
        case _ as never:
            assert_never(never)


def _node_step(seen: Observation, machine: MachineState, payload_digest: str) -> Step | Done | Refused:
    node = seen.node
    if node is None:
        return AwaitMachine(machine.id)
    if (handing := next_step(seen, machine, node, payload_digest=payload_digest)) is not None:
        return handing
    if seen.instance.status is not InstanceStatus.RUNNING:
        return MarkRunning()
    return Done(f"{seen.instance.title} has a running agent on {seen.instance.machine_name}")


def describe(step: Step, instance: Instance) -> str:
    """The step in a few words."""
    match step:
        case GrowCell():
            return f"making machine {instance.machine_name} in {instance.cell}"
        case RecordMachine(machine_id=machine_id):
            return f"recording machine {machine_id}"
        case StartMachine() | AwaitMachine():
            return boot.describe(step, instance)
        case Personalise():
            return f"handing the machine to {instance.title}"
        case AwaitGateway():
            return "waiting for the gateway"
        case MarkRunning():
            return "the agent lives"
        case _ as never:
            assert_never(never)


class World(HandsOver, Protocol):
    """What provisioning sees and does outside the registry."""

    async def start_machine(self, machine_id: MachineId) -> None:
        """Boot it."""

    async def await_machine(self, instance: Instance, machine_id: MachineId) -> None:
        """Return once it is ready and hermes-node answers."""


class Provision:
    """The work of one instance, for the operations' loop.

    Args:
        instance_id: Whose; its row exists.
        registry: The registry.
        world: Machines, node and gateway.
        cells: Stacks of cells.
    """

    def __init__(self, instance_id: InstanceId, registry: Registry, world: World, cells: Cells) -> None:
        self._instance_id = instance_id
        self._registry = registry
        self._world = world
        self._cells = cells
        self._marked: Observation | None = None

    async def observe(self) -> Observation:
        """Look at row, machine, node and gateway.

        After the row alone was written, a moment after everything was found well, only the row is looked at.
        """
        marked, self._marked = self._marked, None
        if marked is not None:
            return replace(marked, instance=self._registry.instances.get(self._instance_id))
        return await self._world.observe(self._instance_id)

    def decide(self, seen: Observation) -> Step | Done | Refused:
        """The next step for what was seen."""
        return decide(seen, payload_digest=self._world.payload_digest(seen.instance))

    def describe(self, step: Step, seen: Observation) -> str:
        """The step in a few words."""
        return describe(step, seen.instance)

    async def do(self, step: Step, seen: Observation) -> None:
        """Do one step; harmless when it was done before."""
        instance = seen.instance
        match step:
            case GrowCell():
                await self._cells.apply(instance.cell, still_wanted=partial(self._lacks_machine, instance))
            case RecordMachine(machine_id=machine_id):
                self._registry.instances.set_machine(instance.id, machine_id)
            case StartMachine() | AwaitMachine():
                await boot.do(step, instance, self._world)
            case Personalise(machine_id=machine_id, request=request):
                await self._world.personalise(instance, machine_id, request)
            case AwaitGateway(machine_id=machine_id):
                await self._world.await_gateway(instance, machine_id)
            case MarkRunning():
                self._registry.instances.set_status(instance.id, InstanceStatus.RUNNING)
                self._marked = seen
            case _ as never:
                assert_never(never)

    async def _lacks_machine(self, instance: Instance) -> bool:
        # Asked by everybody who waits for the cell, so not of the vendor: the state of the last run is at hand.
        return not await self._cells.holds(instance.cell, instance.machine_name)
