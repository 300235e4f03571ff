"""A machine brought up, as every work that needs one does it."""

from dataclasses import dataclass
from typing import Protocol

from hermesops.model.ids import MachineId
from hermesops.model.instance import Instance


@dataclass(frozen=True)
class StartMachine:
    """Boot a machine that is stopped."""

    machine_id: MachineId


@dataclass(frozen=True)
class AwaitMachine:
    """Wait until the vendor calls it ready and hermes-node on it answers."""

    machine_id: MachineId


Step = StartMachine | AwaitMachine


def describe(step: Step, instance: Instance) -> str:
    """The step in a few words."""
    verb = "starting" if isinstance(step, StartMachine) else "waiting for"
    return f"{verb} machine {instance.machine_name}"


class World(Protocol):
    """Machines."""

    async def start_machine(self, machine_id: MachineId) -> None:
        """Boot it."""

    async def await_machine(self, instance: Instance, machine_id: MachineId) -> None:
        """Return once it is ready and hermes-node answers."""


async def do(step: Step, instance: Instance, world: World) -> None:
    """Do one step; harmless when it was done before."""
    if isinstance(step, StartMachine):
        await world.start_machine(step.machine_id)
    # After a start too: the vendor says yes before it begins, and whoever looks at once still sees it stopped.
    await world.await_machine(instance, step.machine_id)
