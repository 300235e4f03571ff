"""A gateway that was brought to rest lives again, once its state has been found to be what it was."""

from dataclasses import dataclass
from typing import Protocol, assert_never

from hermesops.errors import BrokenInvariantError
from hermesops.instances.observation import Observation
from hermesops.instances.ports import HandsOver, Rests
from hermesops.instances.steps import boot, personalise
from hermesops.instances.steps.boot import AwaitMachine, StartMachine
from hermesops.instances.steps.personalise import AwaitGateway, MarkRunning, Personalise, machine_gone, not_its_own
from hermesops.justavps.wire import MachineStatus
from hermesops.model.ids import MachineId
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.operation import Refused
from hermesops.model.state import State
from hermesops.registry import Registry


@dataclass(frozen=True)
class Release:
    """Take the fence away and start the gateway."""

    machine_id: MachineId


Step = StartMachine | AwaitMachine | Release | Personalise | AwaitGateway | MarkRunning


def next_step(
    seen: Observation, *, payload_digest: str, was: State | None, state: State | None
) -> Step | Refused | None:
    """The next step towards a running agent; ``None`` when it lives.

    Args:
        seen: The instance as it is now.
        payload_digest: Digest of what the node should have been given.
        was: What the state was when the gateway was brought to rest; ``None`` where that was not finished.
        state: What it is now; looked at only while the gateway rests.
    """
    machine = seen.machine
    if machine is None or machine.status is MachineStatus.DELETED:
        return Refused(machine_gone(seen))
    if machine.status is MachineStatus.STOPPED:
        return StartMachine(machine.id)
    node = seen.node
    if machine.status is not MachineStatus.READY or node is None:
        return AwaitMachine(machine.id)
    if node.instance_id != seen.instance.id:
        return Refused(not_its_own(seen.instance, node.instance_id or "nobody"))
    if node.fenced:
        if was is None:
            return Release(machine.id)
        if state is None:
            return AwaitMachine(machine.id)
        changes = was.differences(state)
        return Refused(changed(seen.instance, changes)) if changes else Release(machine.id)
    if (step := personalise.next_step(seen, machine, node, payload_digest=payload_digest)) is not None:
        return step
    return None if seen.instance.status is InstanceStatus.RUNNING else MarkRunning()


def changed(instance: Instance, changes: tuple[str, ...]) -> BrokenInvariantError:
    """What is said of a state that is not what it was although nothing could write to it."""
    return BrokenInvariantError(
        f"the state of {instance.title} is not what it was: {'; '.join(changes)}",
        hint="its gateway stays stopped; once you know why: hermesops operation abandon ID --reason … (operation list "
        f"shows the ID), then hermesops backup restore {instance.title} --onto-new-machine",
    )


def describe(step: Step, instance: Instance) -> str:
    """The step in a few words."""
    match step:
        case StartMachine() | AwaitMachine():
            return boot.describe(step, instance)
        case Release():
            return f"starting the gateway of {instance.title}"
        case Personalise():
            return f"handing the machine to {instance.title}"
        case AwaitGateway():
            return "waiting for the gateway"
        case MarkRunning():
            return "the agent lives"


class World(Rests, HandsOver, Protocol):
    """Machine, node and gateway."""


async def do(step: Step, instance: Instance, *, world: World, registry: Registry) -> None:
    """Do one step; harmless when it was done before."""
    match step:
        case StartMachine() | AwaitMachine():
            await boot.do(step, instance, world)
        case Release(machine_id=machine_id):
            await world.release(machine_id)
        case Personalise(machine_id=machine_id, request=request):
            await world.personalise(instance, machine_id, request)
        case AwaitGateway(machine_id=machine_id):
            # Killed between taking the fence away and starting it, somebody left it stopped; one that runs goes on.
            await world.release(machine_id)
            await world.await_gateway(instance, machine_id)
        case MarkRunning():
            registry.instances.set_status(instance.id, InstanceStatus.RUNNING)
        case _ as never:
            assert_never(never)
