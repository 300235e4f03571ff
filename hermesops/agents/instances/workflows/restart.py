"""Restart a gateway exactly once per request, however often the command is repeated.

systemd gives each start of a unit an id. A gateway that still has the id from before the request was not restarted
yet.
"""

from dataclasses import dataclass
from typing import assert_never

from hermesops.agents.instances import refusals
from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.steps import OnMachine
from hermesops.agents.instances.steps.personalise import AwaitGateway
from hermesops.model.fleet.health import GatewayHealth
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Done, Refused


class RestartGateway(OnMachine):
    """Tell systemd to restart the gateway; running turns are finished first."""


Step = RestartGateway | AwaitGateway


@dataclass(frozen=True)
class RestartState:
    """The instance and its gateway's invocation.

    Attributes:
        invocation: The id of the gateway's present start; empty when it is not running.
    """

    observation: Observation
    invocation: str


def decide(state: RestartState, *, before: str) -> Step | Done | Refused:
    """The next step.

    Args:
        before: The gateway's start id when the restart was asked for; empty when it was not running.
    """
    machine, instance = state.observation.machine, state.observation.instance
    if machine is None or state.observation.node is None:
        return Refused(refusals.unreachable(state.observation))
    if not state.invocation or state.invocation == before:
        return RestartGateway(machine.id)
    if state.observation.gateway is not GatewayHealth.OK:
        return AwaitGateway(machine.id)
    return Done(f"the gateway of {instance.title} was restarted and is healthy")


@dataclass
class Restart:
    """The work of restarting one gateway, for the operations' loop."""

    instance_id: InstanceId
    before: str
    client: PowerControl

    async def observe(self) -> RestartState:
        """Observe the machine and the gateway's invocation."""
        observation = await self.client.observe(self.instance_id)
        if observation.machine is None or observation.node is None:
            return RestartState(observation, "")
        return RestartState(observation, await self.client.gateways.invocation(observation.machine.id))

    def decide(self, state: RestartState) -> Step | Done | Refused:
        """The next step for what was seen."""
        return decide(state, before=self.before)

    def describe(self, step: Step, state: RestartState) -> str:
        """The step in a few words."""
        match step:
            case RestartGateway():
                return f"restarting the gateway of {state.observation.instance.title}"
            case AwaitGateway():
                return "waiting for the gateway"

    async def do(self, step: Step, state: RestartState) -> None:
        """Do one step; harmless when it was done before."""
        match step:
            case RestartGateway(machine_id=machine_id):
                await self.client.gateways.restart(machine_id)
            case AwaitGateway(machine_id=machine_id):
                await self.client.await_gateway(state.observation.instance, machine_id)
            case _ as never:
                assert_never(never)
