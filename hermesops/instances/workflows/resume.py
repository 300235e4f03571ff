"""A suspended agent is resumed on the machine that was kept for it, with the state that it was suspended with."""

from dataclasses import dataclass
from typing import Protocol

from hermesops.errors import RefusedError
from hermesops.instances.observation import Observation
from hermesops.instances.steps import start_verified, stop_and_backup
from hermesops.instances.steps.personalise import terminated
from hermesops.model.backup import Backup
from hermesops.model.ids import InstanceId
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.operation import Done, Refused
from hermesops.model.state import State
from hermesops.registry import Registry

Step = start_verified.Step


@dataclass(frozen=True)
class ResumeState:
    """What resuming observes.

    Attributes:
        backup: The newest; made when the agent was suspended.
        state: What is on the machine, where its gateway rests.
    """

    observation: Observation
    backup: Backup | None
    state: State | None


def decide(seen: ResumeState, *, payload_digest: str) -> Step | Done | Refused:
    """The next step towards a running agent.

    Args:
        seen: The instance as it is now.
        payload_digest: Digest of what the node should have been given.
    """
    instance = seen.observation.instance
    if instance.status is InstanceStatus.TERMINATED:
        return Refused(terminated(instance))
    if instance.status is not InstanceStatus.SUSPENDED:
        # What brought its gateway to rest was given up halfway: the machine has the state, whatever backups say.
        step = start_verified.next_step(seen.observation, payload_digest=payload_digest, was=None, state=None)
        return step or Done(f"the agent of {instance.title} is running")
    if seen.backup is None:
        return Refused(_never_slept(instance))
    step = start_verified.next_step(
        seen.observation, payload_digest=payload_digest, was=seen.backup.state, state=seen.state
    )
    return step or Done(f"the agent of {instance.title} is running")


def _never_slept(instance: Instance) -> RefusedError:
    return RefusedError(
        f"{instance.title} has no backup to hold the agent's state against",
        hint=f"hermesops instance show {instance.title}",
    )


class Backups(Protocol):
    """Backups of instances, as far as resuming needs them."""

    def newest(self, instance_id: InstanceId) -> Backup | None:
        """The one made last."""


class Resume:
    """The work of resuming one agent, for the operations' loop.

    Args:
        instance_id: Whose.
        registry: The registry.
        world: Machine, node and gateway.
        backups: Its backups.
    """

    def __init__(
        self, instance_id: InstanceId, registry: Registry, world: start_verified.World, backups: Backups
    ) -> None:
        self._instance_id = instance_id
        self._registry = registry
        self._world = world
        self._backups = backups

    async def observe(self) -> ResumeState:
        """Look at row, machine, node, gateway and, while that rests, state."""
        observation = await self._world.observe(self._instance_id)
        state = await stop_and_backup.resting_state(observation, self._world)
        return ResumeState(observation, self._backups.newest(self._instance_id), state)

    def decide(self, seen: ResumeState) -> Step | Done | Refused:
        """The next step for what was seen."""
        return decide(seen, payload_digest=self._world.payload_digest(seen.observation.instance))

    def describe(self, step: Step, seen: ResumeState) -> str:
        """The step in a few words."""
        return start_verified.describe(step, seen.observation.instance)

    async def do(self, step: Step, seen: ResumeState) -> None:
        """Do one step; harmless when it was done before."""
        await start_verified.do(step, seen.observation.instance, world=self._world, registry=self._registry)
