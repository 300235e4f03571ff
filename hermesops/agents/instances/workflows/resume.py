"""Resume a suspended agent on the machine that was kept for it, with the state that it was suspended with."""

from dataclasses import dataclass

from hermesops.agents.instances import refusals
from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.steps import start_verified, stop_and_backup
from hermesops.agents.instances.steps.ports import Backups
from hermesops.errors import Hint, RefusedError
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Done, Refused
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.state import State
from hermesops.store.registry import Registry

Step = start_verified.Step


@dataclass(frozen=True)
class ResumeState:
    """The instance, its newest backup, and its stopped state.

    Attributes:
        backup: The newest; made when the agent was suspended.
        state: What is on the machine, where its gateway is stopped.
    """

    observation: Observation
    backup: Backup | None
    state: State | None


def decide(state: ResumeState, *, payload_digest: str) -> Step | Done | Refused:
    """The next step towards a running agent."""
    instance = state.observation.instance
    if instance.status is InstanceStatus.TERMINATED:
        return Refused(refusals.terminated(instance))
    was = None
    # An abandoned operation stopped the gateway of a running agent: its state is on the machine.
    if instance.status is InstanceStatus.SUSPENDED:
        if state.backup is None:
            return Refused(
                RefusedError(
                    f"{instance.title} has no backup to hold the agent's state against",
                    hint=Hint(("instance", "show", instance.title)),
                )
            )
        was = state.backup.state
    step = start_verified.next_step(state.observation, payload_digest=payload_digest, was=was, state=state.state)
    return step or Done(f"the agent of {instance.title} is running")


@dataclass
class Resume:
    """The work of resuming one agent, for the operations' loop."""

    instance_id: InstanceId
    registry: Registry
    client: PowerControl
    backups: Backups

    async def observe(self) -> ResumeState:
        """Look at row, machine, node, gateway and, while that is stopped, state."""
        observation = await self.client.observe(self.instance_id)
        state = await stop_and_backup.stopped_state(observation, self.client)
        return ResumeState(observation, self.backups.newest(self.instance_id), state)

    def decide(self, state: ResumeState) -> Step | Done | Refused:
        """The next step for what was seen."""
        return decide(state, payload_digest=self.client.payload_digest(state.observation.instance))

    def describe(self, step: Step, state: ResumeState) -> str:
        """The step in a few words."""
        return start_verified.describe(step, state.observation.instance)

    async def do(self, step: Step, state: ResumeState) -> None:
        """Do one step; harmless when it was done before."""
        await start_verified.do(step, state.observation.instance, client=self.client, registry=self.registry)
