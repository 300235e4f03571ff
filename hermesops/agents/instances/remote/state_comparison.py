"""Compares the state on an instance's machine with its newest backup."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.errors import Hint, UnavailableError
from hermesops.model.ids import MachineId

if TYPE_CHECKING:
    from hermesops.agents.instances.remote.power_control import PowerControl
    from hermesops.model.fleet.instance import Instance
    from hermesops.model.recovery.backup import Backup
    from hermesops.model.recovery.state import State
    from hermesops.store.registry import Registry


@dataclass(frozen=True)
class StateComparison:
    """A backup and the state of now; a running agent goes on learning, so a difference is no fault."""

    backup: "Backup"
    state: "State"

    @property
    def differences(self) -> list[str]:
        """The differences, one line for each."""
        return list(self.backup.state.differences(self.state))


@dataclass(frozen=True)
class StateComparisons:
    """Compares states of one environment's instances."""

    registry: "Registry"
    machines: "PowerControl"

    async def with_newest(self, instance: "Instance") -> StateComparison:
        """Compare an instance's state with its newest backup.

        Raises:
            RefusedError: It has no backup, or no machine.
            UnavailableError: Its machine does not answer.
        """
        newest = self.registry.backups.get(instance.id, "")
        state = await self.machines.state(MachineId((await self.machines.channel_to(instance)).machine_id))
        if state is None:
            raise UnavailableError(
                f"machine {instance.machine_name} of {instance.title} does not answer",
                hint=Hint(("instance", "show", instance.title)),
            )
        return StateComparison(newest, state)
