"""Apply changed settings to a running agent: send them to its machine, and wait until its gateway is healthy.

The settings are in the registry before the first step; the payload's digest shows whether a machine has them.
hermes-node restarts the gateway only if files that the gateway reads changed.
"""

from dataclasses import dataclass
from typing import assert_never

from hermesops.agents.instances import refusals
from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.steps.personalise import AwaitGateway, Personalise, next_step
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Done, Refused

Step = Personalise | AwaitGateway


def decide(observation: Observation, *, payload_digest: str) -> Step | Done | Refused:
    """The next step towards a gateway with these settings."""
    instance = observation.instance
    if instance.status is InstanceStatus.TERMINATED:
        return Refused(refusals.terminated(instance))
    if observation.machine is None or observation.node is None:
        return Refused(refusals.unreachable(observation))
    step = next_step(observation, observation.machine, observation.node, payload_digest=payload_digest)
    return step or Done(f"the agent of {instance.title} has these settings and is healthy")


@dataclass
class Configure:
    """The work of one change of settings, for the operations' loop."""

    instance_id: InstanceId
    client: PowerControl

    async def observe(self) -> Observation:
        """Look at row, machine, node and gateway."""
        return await self.client.observe(self.instance_id)

    def decide(self, observation: Observation) -> Step | Done | Refused:
        """The next step for what was seen."""
        return decide(observation, payload_digest=self.client.payload_digest(observation.instance))

    def describe(self, step: Step, observation: Observation) -> str:
        """The step in a few words."""
        match step:
            case Personalise():
                return f"handing {observation.instance.title}'s machine the new settings"
            case AwaitGateway():
                return "waiting for the gateway"

    async def do(self, step: Step, observation: Observation) -> None:
        """Do one step; harmless when it was done before.

        Raises:
            UnavailableError: The gateway is not well with these settings, or the machine fell silent.
            RefusedError: The machine does not take them.
        """
        instance = observation.instance
        back = Hint(("instance", "settings", instance.title, "--back", "--reason", "WHY"), "goes back")
        try:
            match step:
                case Personalise(machine_id=machine_id, request=request):
                    await self.client.personalise(instance, machine_id, request)
                case AwaitGateway(machine_id=machine_id):
                    await self.client.await_gateway(instance, machine_id)
                case _ as never:
                    assert_never(never)
        except UnavailableError as error:
            raise UnavailableError(
                f"with the new settings: {error.message}", hint=Hint(error.hint, ";", back)
            ) from error
        except RefusedError as error:
            raise RefusedError(f"with the new settings: {error.message}", hint=back) from error
