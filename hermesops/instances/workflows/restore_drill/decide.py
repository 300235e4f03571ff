"""A restore drill: one instance's newest backup put on a machine of its own, compared, and the machine destroyed. Pure.

The machine never becomes the instance's: it is handed no payload, so no key, no messenger's token and no setting of
its user, and its gateway is fenced before anything is put there. What a user's state touched never goes back to a pool.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hermesops.errors import RefusedError, UnavailableError
from hermesops.instances.observation import MachineState, NodeState
from hermesops.justavps.wire import MachineStatus
from hermesops.model.backup import Backup
from hermesops.model.ids import MachineId, MachineName
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.operation import Done, Refused
from hermesops.model.spare import Spare


@dataclass(frozen=True)
class TakeMachine:
    """Take a machine out of a warm pool, or order one where none is ready."""


@dataclass(frozen=True)
class GrowCell:
    """Run the stack of the machine's cell: it makes the machine, or finds it by name."""


@dataclass(frozen=True)
class RecordMachine:
    """Write the vendor's id of the machine into its row."""

    machine_id: MachineId


@dataclass(frozen=True)
class AwaitMachine:
    """Start the machine where it stands still, and wait until hermes-node on it answers."""

    machine_id: MachineId
    stopped: bool = False


@dataclass(frozen=True)
class Fence:
    """Stop the machine's gateway for good, reboots included."""

    machine_id: MachineId


@dataclass(frozen=True)
class Prove:
    """Put the backup on the machine, compare, and write down what came of it."""

    machine_id: MachineId


@dataclass(frozen=True)
class MarkForDeletion:
    """Give the machine up."""

    name: MachineName


@dataclass(frozen=True)
class ShrinkCell:
    """Run the stack of the machine's cell without it."""

    name: MachineName


@dataclass(frozen=True)
class Forget:
    """Remove the row of the machine, which is gone."""

    name: MachineName


Step = TakeMachine | GrowCell | RecordMachine | AwaitMachine | Fence | Prove | MarkForDeletion | ShrinkCell | Forget


@dataclass(frozen=True)
class DrillState:
    """What a drill observes.

    Attributes:
        backup: What is restored; ``None`` when its row is gone.
        spare: The machine that is lent to the drill; ``None`` before and after.
        in_stack: Whether its cell's state holds it.
        is_over: Whether the backup was checked since the drill began.
        seconds: From taking the machine to that; ``None`` before.
    """

    instance: Instance
    backup: Backup | None
    spare: Spare | None = None
    machine: MachineState | None = None
    node: NodeState | None = None
    in_stack: bool = False
    is_over: bool = False
    seconds: float | None = None


def decide(seen: DrillState) -> Step | Done | Refused:
    """The next step."""
    spare = seen.spare
    has_ended = seen.instance.status is InstanceStatus.TERMINATED
    if spare is not None and (seen.is_over or has_ended or seen.backup is None or not spare.wanted):
        return _end(seen, spare)
    if seen.backup is None or has_ended:
        return Refused(RefusedError(f"the backup of {seen.instance.title} that was to be restored is kept no more"))
    if seen.is_over:
        return _outcome(seen.instance, seen.backup, seen.seconds or 0.0)
    return TakeMachine() if spare is None else _on_machine(seen, spare)


def _end(seen: DrillState, spare: Spare) -> Step:
    if spare.wanted:
        return MarkForDeletion(spare.name)
    if seen.in_stack or (seen.machine is not None and seen.machine.status is not MachineStatus.DELETED):
        return ShrinkCell(spare.name)
    return Forget(spare.name)


def _on_machine(seen: DrillState, spare: Spare) -> Step | Refused:
    machine, node = seen.machine, seen.node
    if machine is None or machine.status is MachineStatus.DELETED or not seen.in_stack:
        # A run that was killed may have made it and not written it down; what no stack holds, no run destroys.
        return GrowCell()
    if spare.machine_id != machine.id:
        return RecordMachine(machine.id)
    if machine.status is MachineStatus.ERROR:
        return MarkForDeletion(spare.name)  # another one is taken then
    if machine.status is not MachineStatus.READY or node is None:
        return AwaitMachine(machine.id, stopped=machine.status is MachineStatus.STOPPED)
    if node.instance_id is not None:
        # Somebody made it theirs: nothing is put there, and nothing of it is destroyed unseen.
        return Refused(
            UnavailableError(
                f"machine {spare.name} was lent to a drill and says that it is instance {node.instance_id}'s",
                hint="touch neither before a person has looked: hermesops fleet drift --deep",
            )
        )
    return Prove(machine.id) if node.fenced else Fence(machine.id)


def _outcome(instance: Instance, backup: Backup, seconds: float) -> Done | Refused:
    if not backup.is_proved:
        return Refused(
            RefusedError(
                f"backup {backup.id[:8]} of {instance.title} does not restore to what was copied: {backup.checked}",
                hint=f"runbooks/backup-does-not-restore.md; hermesops backup create {instance.title} makes another",
            )
        )
    return Done(
        f"backup {backup.id[:8]} of {instance.title} was restored onto a machine and is what was copied, "
        f"{backup.state}; {seconds:.1f} s from taking the machine to the proof"
    )


_WORDS: Mapping[type, str] = {
    TakeMachine: "taking a machine for the restore drill of {user}",
    GrowCell: "making machine {machine}",
    RecordMachine: "recording machine {machine}",
    AwaitMachine: "waiting for machine {machine}",
    Fence: "stopping the gateway of machine {machine}",
    Prove: "restoring backup {backup} onto machine {machine}, to compare",
    MarkForDeletion: "giving machine {machine} up",
    ShrinkCell: "destroying machine {machine}",
    Forget: "forgetting machine {machine}",
}


def describe(step: Step, seen: DrillState) -> str:
    """The step in a few words."""
    machine = seen.spare.name if seen.spare else ""
    backup = seen.backup.id[:8] if seen.backup else ""
    return _WORDS[type(step)].format(user=seen.instance.title, machine=machine, backup=backup)
