"""A backup of one instance, made beside its agent, which goes on meanwhile."""

from dataclasses import dataclass

from hermesops.instances.observation import Observation
from hermesops.instances.ports import Copies, Observes
from hermesops.instances.steps.personalise import never_lived, not_its_own, out_of_reach, terminated
from hermesops.justavps.wire import MachineStatus
from hermesops.model.backup import Backup
from hermesops.model.ids import InstanceId, MachineId
from hermesops.model.instance import InstanceStatus
from hermesops.model.operation import Done, Refused


@dataclass(frozen=True)
class MakeCopy:
    """Have hermes-node copy the state, consistent at one moment, whether the agent runs or not."""

    machine_id: MachineId


@dataclass(frozen=True)
class Copying:
    """What a backup looks at.

    Attributes:
        backup: The one made for this very operation.
    """

    observation: Observation
    backup: Backup | None


def decide(seen: Copying) -> MakeCopy | Done | Refused:
    """The next step."""
    instance, machine, node = seen.observation.instance, seen.observation.machine, seen.observation.node
    if seen.backup is not None:
        made = seen.backup
        return Done(f"backup {made.id[:8]} of {instance.title}: {made.state}; {made.added} bytes were new")
    if instance.status is InstanceStatus.TERMINATED:
        return Refused(terminated(instance))
    if instance.status is InstanceStatus.PROVISIONING:
        return Refused(never_lived(instance))
    if machine is None or machine.status is not MachineStatus.READY or node is None:
        return Refused(out_of_reach(instance))
    if node.instance_id != instance.id:
        return Refused(not_its_own(instance, node.instance_id or "nobody"))
    return MakeCopy(machine.id)


class BackUp:
    """The work of making one backup, for the operations' loop.

    Args:
        instance_id: Whose.
        why: What for; no other backup has the same.
        world: Machine and node.
        copies: Backups.
    """

    def __init__(self, instance_id: InstanceId, why: str, world: Observes, copies: Copies) -> None:
        self._instance_id = instance_id
        self._why = why
        self._world = world
        self._copies = copies

    async def observe(self) -> Copying:
        """Look at the machine, and for the backup."""
        observation = await self._world.observe(self._instance_id)
        return Copying(observation, self._copies.made(self._instance_id, self._why))

    def decide(self, seen: Copying) -> MakeCopy | Done | Refused:
        """The next step for what was seen."""
        return decide(seen)

    def describe(self, step: MakeCopy, seen: Copying) -> str:  # noqa: ARG002 - there is one step
        """The step in a few words."""
        return f"backing up {seen.observation.instance.title}"

    async def do(self, step: MakeCopy, seen: Copying) -> None:
        """Make it, unless it was made before."""
        await self._copies.make(seen.observation.instance, step.machine_id, why=self._why)
