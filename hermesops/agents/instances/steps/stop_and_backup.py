"""Stop a gateway and back up what it wrote, before anything that could cost an instance its state; prove the backup.

First no gateway, then the backup: nothing can be written after it, so the backup is the state.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

from hermesops.agents.instances import refusals
from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.steps import OnMachine, machine_table
from hermesops.agents.instances.steps.machine_table import AwaitMachine, StartMachine
from hermesops.agents.instances.steps.ports import Backups
from hermesops.errors import BrokenInvariantError, HermesError, Hint, UnavailableError
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.operation import Refused
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.state import State
from hermesops.vendor.justavps.wire import MachineStatus


class Fence(OnMachine):
    """Let turns under way end, then stop the gateway for good."""


class BackUp(OnMachine):
    """Back up the state that the stopped gateway left."""


@dataclass(frozen=True)
class ProveBackup:
    """Restore the last backup elsewhere, once, and compare it with what was backed up."""

    snapshot: str


Step = StartMachine | AwaitMachine | Fence | BackUp


def next_step(observation: Observation, backup: Backup | None) -> Step | Refused | None:
    """The next step towards a stopped gateway with a backup of its state; ``None`` when done.

    Args:
        backup: The backup made for this operation; ``None`` before.
    """
    instance, machine, node = observation.instance, observation.existing_machine, observation.node
    if instance.status is InstanceStatus.PROVISIONING:
        return Refused(refusals.never_started(instance))
    if machine is None:
        return Refused(refusals.machine_gone(observation))
    if machine.status is MachineStatus.STOPPED and backup:
        return None
    restore = Hint("the same again in some minutes, or", ("backup", "restore", instance.title, "--onto-new-machine"))
    if (step := machine_table.next_step(machine, instance.machine_name, if_in_error=restore)) is not None:
        return step
    if node is None:
        return Refused(refusals.machine_silent(instance))
    if node.instance_id != instance.id:
        return Refused(refusals.other_instance(instance, node.instance_id))
    if not node.fenced:
        return Fence(machine.id)
    return None if backup else BackUp(machine.id)


def next_proof(instance: Instance, backup: Backup) -> ProveBackup | Refused | None:
    """The next step towards a backup that is known to restore; ``None`` when it is."""
    if not backup.checked:
        return None if backup.is_proved else ProveBackup(backup.id)
    name = instance.title
    return Refused(
        BrokenInvariantError(
            f"the last backup of {name} does not prove: {backup.checked}",
            hint=Hint(
                "nothing was deleted. Look again:",
                ("backup", "check", name),
                ". Keep the agent:",
                ("instance", "terminate", name, "--undo"),
                ". Keep machine and backups, suspended:",
                ("instance", "suspend", name),
                ". End it without a proof:",
                ("instance", "terminate", name, "--now", "--without-backup"),
                "; its backups stay for ended_backups_days",
            ),
        )
    )


async def stopped_state(observation: Observation, client: PowerControl) -> State | None:
    """The state on the observed machine while its gateway is stopped; ``None`` while it runs or does not answer."""
    if observation.machine is None or observation.node is None or not observation.node.fenced:
        return None
    return await client.state(observation.machine.id)


def describe(step: Step | ProveBackup, instance: Instance) -> str:
    """The step in a few words."""
    match step:
        case StartMachine() | AwaitMachine():
            return machine_table.describe(step, instance)
        case Fence():
            return f"stopping the gateway of {instance.title}"
        case BackUp():
            return f"backing up {instance.title}"
        case ProveBackup():
            return f"restoring the last backup of {instance.title} once, to compare"


async def do(step: Step, instance: Instance, *, client: PowerControl, backups: Backups, why: str) -> None:
    """Do one step; harmless when it was done before."""
    match step:
        case StartMachine() | AwaitMachine():
            await machine_table.do(step, instance, client)
        case Fence(machine_id=machine_id):
            # Before the gateway stops: where no backup can be made now, the agent keeps running.
            await backups.reach()
            await client.fence(instance, machine_id)
        case BackUp(machine_id=machine_id):
            try:
                await backups.make(instance, machine_id, why=why)
            except UnavailableError:
                # Nothing was changed yet, and an outage may take hours: the user gets the agent back. What is known to
                # be backed up stays stopped: whatever was written after it would be lost.
                if instance.status is InstanceStatus.RUNNING and backups.made(instance.id, why) is None:
                    with suppress(HermesError):  # what it failed for is the news
                        await client.release(machine_id)
                raise
        case _ as never:
            assert_never(never)
