"""Bring an instance onto another machine: to resize or move it, to restore a backup, or where its machine is gone.

The new machine is made ready while the old one still serves. Then the old gateway is stopped, its state backed up
and put on the new machine, held against the backup, and the rows cut over in one transaction. At no moment may two
gateways run on one state: the old one is fenced, or its machine is off or gone, before the new one is given anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hermesops.errors import RefusedError
from hermesops.instances import refusals
from hermesops.instances.observation import Observation
from hermesops.instances.steps import new_machine, start_verified, stop_and_backup
from hermesops.instances.steps.new_machine import AwaitNext, NextMachineState
from hermesops.instances.steps.stop_and_backup import BackUp, Fence
from hermesops.justavps.wire import MachineStatus
from hermesops.model.backup import Backup
from hermesops.model.ids import MachineId, MachineName
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.operation import Done, Refused
from hermesops.model.release import ReleaseId
from hermesops.model.spare import Spare
from hermesops.model.state import State
from hermesops.operations.kinds import RelocateIntent


@dataclass(frozen=True)
class MarkForDeletion:
    """Take a machine that is gone out of what its cell should have, so that none is made in its place."""


@dataclass(frozen=True)
class StopMachine:
    """Switch the old machine off at the vendor: it does not answer, and must not come back with its gateway."""

    machine_id: MachineId


@dataclass(frozen=True)
class Prepare:
    """Make the new machine the instance's, its gateway fenced; ``request`` as in ``Personalise``."""

    machine_id: MachineId
    request: str | None = None


@dataclass(frozen=True)
class RestoreBackup:
    """Put a backup's state on the new machine."""

    machine_id: MachineId
    snapshot: str


@dataclass(frozen=True)
class CutOver:
    """Write that the instance is on the new machine, and that the old one is its former."""


@dataclass(frozen=True)
class RetireFormer:
    """Give the former machine up."""

    name: MachineName


@dataclass(frozen=True)
class ShrinkCell:
    """Run the stack of the former machine's cell without it."""

    name: MachineName


@dataclass(frozen=True)
class ForgetFormer:
    """Remove the row of the former machine, which is gone."""

    name: MachineName


NextStep = MarkForDeletion | new_machine.Step | Prepare | RestoreBackup
Step = (
    NextStep
    | stop_and_backup.Step
    | StopMachine
    | CutOver
    | start_verified.Step
    | RetireFormer
    | ShrinkCell
    | ForgetFormer
)


@dataclass(frozen=True)
class RelocationState:
    """What relocating observes.

    Attributes:
        state: What is on that machine, while its gateway is stopped.
        release: What the agent runs, where machines can be brought that; ``None`` where it came with an image.
        next: The machine it will be on.
        backup: Made of the old machine for this very operation.
        source: The backup that is put on the new machine; ``None`` while there is none.
        wanted: Whether the instance's cell should have that machine.
        former: The machine it was on when this was asked for, once it is on another and while there is a row of it.
        former_in_stack: Whether its cell's state still holds it.
    """

    observation: Observation
    state: State | None = None
    release: ReleaseId | None = None
    next: NextMachineState | None = None
    backup: Backup | None = None
    source: Backup | None = None
    wanted: bool = True
    former: Spare | None = None
    former_in_stack: bool = False


def decide(seen: RelocationState, intent: RelocateIntent, *, payload_digest: str) -> Step | Done | Refused:
    """The next step towards the instance's agent on its new machine."""
    instance = seen.observation.instance
    if instance.status is InstanceStatus.TERMINATED:
        return Refused(refusals.terminated(instance))
    if instance.machine_name != intent.origin:
        return _after(seen, intent, payload_digest)
    if intent.snapshot and seen.wanted and seen.observation.existing_machine is None:
        return MarkForDeletion()
    return new_machine.next_step(seen.next, seen.release) or _stopped(seen, intent) or _handed_over(seen)


def _stopped(seen: RelocationState, intent: RelocateIntent) -> stop_and_backup.Step | StopMachine | Refused | None:
    if not intent.snapshot:
        return stop_and_backup.next_step(seen.observation, seen.backup)
    machine = seen.observation.existing_machine
    if machine is None or machine.status is MachineStatus.STOPPED:
        return None
    if machine.status is MachineStatus.READY and seen.observation.own_node:
        # What is there is copied too: who restores yesterday's may want today's after all.
        return stop_and_backup.next_step(seen.observation, seen.backup)
    return StopMachine(machine.id)


def _handed_over(seen: RelocationState) -> Prepare | RestoreBackup | AwaitNext | CutOver | Refused:
    instance, there = seen.observation.instance, seen.next
    if there is None or there.machine is None or there.node is None:
        raise ValueError("asked before the new machine answers")
    if seen.source is None:
        return Refused(_no_backup(instance))
    if there.node.instance_id not in (None, instance.id):
        return Refused(refusals.other_instance(instance, there.node.instance_id))
    if there.node.instance_id is None or there.node.epoch <= instance.epoch or not there.node.fenced:
        return Prepare(there.machine.id, there.node.request)
    if there.state is None:
        return AwaitNext(there.machine.id)
    if seen.source.state.differences(there.state):
        return RestoreBackup(there.machine.id, seen.source.id)
    return CutOver()


def _after(seen: RelocationState, intent: RelocateIntent, payload_digest: str) -> Step | Done | Refused:
    instance = seen.observation.instance
    if seen.source is None:
        return Refused(_no_backup(instance))
    was = seen.source.state
    step = start_verified.next_step(seen.observation, payload_digest=payload_digest, was=was, state=seen.state)
    if step is not None:
        return step
    former = seen.former
    if former is not None and former.wanted and not intent.keeps_former:
        return RetireFormer(former.name)
    if former is not None and not former.wanted:
        return ShrinkCell(former.name) if seen.former_in_stack else ForgetFormer(former.name)
    kept = f"; {intent.origin} is kept for a while, its gateway stopped" if former is not None else ""
    return Done(f"the agent of {instance.title} is on {instance.machine_name} with {was}{kept}")


def _no_backup(instance: Instance) -> RefusedError:
    return RefusedError(
        f"{instance.title} has no backup that could be put on a new machine",
        hint=f"hermesops backup list {instance.title}",
    )


_WORDS: Mapping[type, str] = {
    **new_machine.WORDS,
    MarkForDeletion: "giving up machine {here}, which is gone",
    StopMachine: "switching machine {here} off",
    Prepare: "handing machine {next} to {user}",
    RestoreBackup: "putting the backup on machine {next}",
    CutOver: "changing {user} over to {next}",
    RetireFormer: "giving the former machine back",
    ShrinkCell: "destroying the former machine",
    ForgetFormer: "forgetting the former machine",
}


def describe(step: Step, seen: RelocationState) -> str:
    """The step in a few words."""
    instance = seen.observation.instance
    if isinstance(step, Fence | BackUp):
        return stop_and_backup.describe(step, instance)
    words = _WORDS.get(type(step))
    if words is None:
        return start_verified.describe(step, instance)  # type: ignore[arg-type] # all others stand above
    to = seen.next.spare.name if seen.next else ""
    return words.format(user=instance.title, here=instance.machine_name, next=to)
