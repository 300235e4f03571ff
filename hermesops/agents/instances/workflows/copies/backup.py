"""Back up one instance while its agent runs."""

from dataclasses import dataclass

from hermesops.agents.instances import refusals
from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.steps import OnMachine
from hermesops.agents.instances.steps.machine_table import own_machine
from hermesops.agents.instances.steps.ports import Backups
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Done, Refused
from hermesops.model.recovery.backup import Backup


class MakeBackup(OnMachine):
    """Have hermes-node back the state up, consistent at one moment, whether the agent runs or not."""


@dataclass(frozen=True)
class BackupState:
    """The instance, and its backup of this operation."""

    observation: Observation
    backup: Backup | None


def decide(state: BackupState) -> MakeBackup | Done | Refused:
    """The next step towards a backup."""
    instance = state.observation.instance
    if state.backup is not None:
        backup = state.backup
        return Done(f"backup {backup.id[:8]} of {instance.title}: {backup.state}; {backup.added} bytes were new")
    if instance.status is InstanceStatus.TERMINATED:
        return Refused(refusals.terminated(instance))
    if instance.status is InstanceStatus.PROVISIONING:
        return Refused(refusals.never_started(instance))
    own = own_machine(state.observation)
    return own if isinstance(own, Refused) else MakeBackup(own[0].id)


@dataclass
class BackUp:
    """The work of making one backup, for the operations' loop.

    Attributes:
        why: What for; no other backup has the same.
    """

    instance_id: InstanceId
    why: str
    client: PowerControl
    backups: Backups

    async def observe(self) -> BackupState:
        """Look at the machine, and for the backup."""
        observation = await self.client.observe(self.instance_id)
        return BackupState(observation, self.backups.made(self.instance_id, self.why))

    def decide(self, state: BackupState) -> MakeBackup | Done | Refused:
        """The next step for what was seen."""
        return decide(state)

    def describe(self, step: MakeBackup, state: BackupState) -> str:  # noqa: ARG002 - there is one step
        """The step in a few words."""
        return f"backing up {state.observation.instance.title}"

    async def do(self, step: MakeBackup, state: BackupState) -> None:
        """Make it, unless it was made before."""
        await self.backups.make(state.observation.instance, step.machine_id, why=self.why)
