"""A sleeping agent wakes on the machine that was kept for it, with the state that it fell asleep with."""

from dataclasses import dataclass
from typing import Protocol

from hermesops.errors import RefusedError
from hermesops.instances.observation import Sight
from hermesops.instances.steps import start_verified, stop_and_backup
from hermesops.instances.steps.personalise import terminated
from hermesops.model.backup import Backup
from hermesops.model.ids import InstanceId
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.operation import Finished, Impossible
from hermesops.model.state import State

Step = start_verified.Step


@dataclass(frozen=True)
class Waking:
    """What waking looks at.

    Attributes:
        backup: The newest; made when the agent was put to sleep.
        state: What is on the machine, where its gateway rests.
    """

    sight: Sight
    backup: Backup | None
    state: State | None


def decide(seen: Waking, *, payload_digest: str) -> Step | Finished | Impossible:
    """The next step towards an agent that is awake.

    Args:
        seen: The instance as it is now.
        payload_digest: Digest of what the node should have been given.
    """
    instance = seen.sight.instance
    if instance.status is InstanceStatus.TERMINATED:
        return Impossible(terminated(instance))
    if instance.status is not InstanceStatus.SUSPENDED:
        # What brought its gateway to rest was given up halfway: the machine has the state, whatever backups say.
        step = start_verified.next_step(seen.sight, payload_digest=payload_digest, was=None, state=None)
        return step or Finished(f"the agent of {instance.title} is awake")
    if seen.backup is None:
        return Impossible(_never_slept(instance))
    step = start_verified.next_step(seen.sight, payload_digest=payload_digest, was=seen.backup.state, state=seen.state)
    return step or Finished(f"the agent of {instance.title} is awake")


def _never_slept(instance: Instance) -> RefusedError:
    return RefusedError(
        f"{instance.title} has no backup to hold the agent's state against",
        hint=f"hermesops instance show {instance.title}",
    )


class Backups(Protocol):
    """Backups of instances, as far as waking needs them."""

    def newest(self, instance_id: InstanceId) -> Backup | None:
        """The one made last."""


class Resume:
    """The work of waking one agent, for the operations' loop.

    Args:
        instance_id: Whose.
        rows: The registry.
        world: Machine, node and gateway.
        backups: Its backups.
    """

    def __init__(
        self, instance_id: InstanceId, rows: start_verified.Rows, world: start_verified.World, backups: Backups
    ) -> None:
        self._instance_id = instance_id
        self._rows = rows
        self._world = world
        self._backups = backups

    async def observe(self) -> Waking:
        """Look at row, machine, node, gateway and, while that rests, state."""
        sight = await self._world.look(self._instance_id)
        state = await stop_and_backup.resting_state(sight, self._world)
        return Waking(sight, self._backups.newest(self._instance_id), state)

    def decide(self, seen: Waking) -> Step | Finished | Impossible:
        """The next step for what was seen."""
        return decide(seen, payload_digest=self._world.payload_digest(seen.sight.instance))

    def describe(self, step: Step, seen: Waking) -> str:
        """The step in a few words."""
        return start_verified.describe(step, seen.sight.instance)

    async def do(self, step: Step, seen: Waking) -> None:
        """Do one step; harmless when it was done before."""
        await start_verified.do(step, seen.sight.instance, world=self._world, rows=self._rows)
