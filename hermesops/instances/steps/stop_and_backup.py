"""A gateway brought to rest and what it wrote copied, before anything that could cost an instance its state.

First no gateway, then the copy: nothing can be written after it, so the copy is the state.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

from hermesops.errors import HermesError, UnavailableError
from hermesops.instances.observation import Observation
from hermesops.instances.ports import Copies, Rests
from hermesops.instances.steps import boot
from hermesops.instances.steps.boot import AwaitMachine, StartMachine
from hermesops.instances.steps.personalise import machine_gone, never_lived, not_its_own, silence
from hermesops.justavps.wire import MachineStatus
from hermesops.model.backup import Backup
from hermesops.model.ids import MachineId
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.operation import Refused
from hermesops.model.state import State


@dataclass(frozen=True)
class Fence:
    """Let turns under way end, then stop the gateway for good."""

    machine_id: MachineId


@dataclass(frozen=True)
class BackUp:
    """Copy the state that the stopped gateway left."""

    machine_id: MachineId


Step = StartMachine | AwaitMachine | Fence | BackUp


def next_step(seen: Observation, backup: Backup | None) -> Step | Refused | None:
    """The next step towards a gateway at rest whose state is copied; ``None`` when it is so.

    Args:
        seen: The instance as it is now.
        backup: The copy that was made for what is being done; ``None`` while there is none.
    """
    machine = seen.machine
    if seen.instance.status is InstanceStatus.PROVISIONING:
        return Refused(never_lived(seen.instance))
    if machine is None or machine.status is MachineStatus.DELETED:
        return Refused(machine_gone(seen))
    match machine.status:
        case MachineStatus.ERROR:
            return Refused(_broken(seen.instance))
        case MachineStatus.STOPPED:
            return None if backup else StartMachine(machine.id)
        case MachineStatus.PROVISIONING | MachineStatus.UNKNOWN:
            return AwaitMachine(machine.id)
        case MachineStatus.READY:
            return _on_machine(seen, machine.id, backup)


def _on_machine(seen: Observation, machine_id: MachineId, backup: Backup | None) -> Step | Refused | None:
    node = seen.node
    if node is None:
        return Refused(silence(seen.instance))
    if node.instance_id != seen.instance.id:
        return Refused(not_its_own(seen.instance, node.instance_id or "nobody"))
    if not node.fenced:
        return Fence(machine_id)
    return None if backup else BackUp(machine_id)


async def resting_state(seen: Observation, world: Rests) -> State | None:
    """What is on the machine that was seen, while its gateway rests; ``None`` while it runs, or nobody answers."""
    if seen.machine is None or seen.node is None or not seen.node.fenced:
        return None
    return await world.state(seen.machine.id)


def _broken(instance: Instance) -> UnavailableError:
    return UnavailableError(
        f"JustAVPS says that machine {instance.machine_name} is in error; it may recover by itself",
        hint=f"the same again in some minutes, or hermesops backup restore {instance.title} --onto-new-machine",
    )


def describe(step: Step, instance: Instance) -> str:
    """The step in a few words."""
    match step:
        case StartMachine() | AwaitMachine():
            return boot.describe(step, instance)
        case Fence():
            return f"stopping the gateway of {instance.title}"
        case BackUp():
            return f"backing up {instance.title}"


async def do(step: Step, instance: Instance, *, world: Rests, copies: Copies, why: str) -> None:
    """Do one step; harmless when it was done before.

    Args:
        step: Which.
        instance: Whose.
        world: Machine, node and gateway.
        copies: Backups.
        why: What the copy is made for.
    """
    match step:
        case StartMachine() | AwaitMachine():
            await boot.do(step, instance, world)
        case Fence(machine_id=machine_id):
            # Before the gateway stops: where no copy could be made now, the user keeps the agent.
            await copies.reach()
            await world.fence(instance, machine_id)
        case BackUp(machine_id=machine_id):
            try:
                await copies.make(instance, machine_id, why=why)
            except UnavailableError:
                await _let_live(instance, machine_id, world=world, copies=copies, why=why)
                raise
        case _ as never:
            assert_never(never)


async def _let_live(instance: Instance, machine_id: MachineId, *, world: Rests, copies: Copies, why: str) -> None:
    """Give the user the agent back where no copy came about: nothing was changed yet, and an outage may take hours.

    What is known to be copied stays at rest: whatever was written after it would be lost.
    """
    if instance.status is InstanceStatus.RUNNING and copies.made(instance.id, why) is None:
        with suppress(HermesError):  # what it failed for is the news
            await world.release(machine_id)
