"""Start a stopped gateway again, once its state has been found to be what it was."""

from typing import assert_never

from hermesops.agents.instances import refusals
from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.steps import OnMachine, machine_table, personalise
from hermesops.agents.instances.steps.machine_table import AwaitMachine, StartMachine
from hermesops.agents.instances.steps.personalise import AwaitGateway, MarkRunning, Personalise
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.operation import Refused
from hermesops.model.recovery.state import State
from hermesops.store.registry import Registry


class Release(OnMachine):
    """Take the fence away and start the gateway."""


Step = StartMachine | AwaitMachine | Release | Personalise | AwaitGateway | MarkRunning


def next_step(
    observation: Observation, *, payload_digest: str, was: State | None, state: State | None
) -> Step | Refused | None:
    """The next step towards a running agent; ``None`` when it runs.

    Args:
        was: What the state was when the gateway was stopped; ``None`` where that was not finished.
        state: What it is now; read only while the gateway is stopped.
    """
    instance, machine, node = observation.instance, observation.existing_machine, observation.node
    if machine is None:
        return Refused(refusals.machine_gone(observation))
    again = "the same again in some minutes"
    if (step := machine_table.next_step(machine, instance.machine_name, if_in_error=again)) is not None:
        return step
    if node is None:
        return AwaitMachine(machine.id)
    if node.instance_id != instance.id:
        return Refused(refusals.other_instance(instance, node.instance_id))
    if node.fenced:
        if was is None:
            return Release(machine.id)
        if state is None:
            return AwaitMachine(machine.id)
        changes = was.differences(state)
        return Refused(refusals.state_changed(instance, changes)) if changes else Release(machine.id)
    if (handing := personalise.next_step(observation, machine, node, payload_digest=payload_digest)) is not None:
        return handing
    return None if instance.status is InstanceStatus.RUNNING else MarkRunning()


def describe(step: Step, instance: Instance) -> str:
    """The step in a few words."""
    match step:
        case StartMachine() | AwaitMachine():
            return machine_table.describe(step, instance)
        case Release():
            return f"starting the gateway of {instance.title}"
        case Personalise():
            return f"assigning the machine to {instance.title}"
        case AwaitGateway():
            return "waiting for the gateway"
        case MarkRunning():
            return "the agent is running"


async def do(step: Step, instance: Instance, *, client: PowerControl, registry: Registry) -> None:
    """Do one step; harmless when it was done before."""
    match step:
        case StartMachine() | AwaitMachine():
            await machine_table.do(step, instance, client)
        case Release(machine_id=machine_id):
            await client.release(machine_id)
        case Personalise(machine_id=machine_id, request=request):
            await client.personalise(instance, machine_id, request)
        case AwaitGateway(machine_id=machine_id):
            # A process killed between unfencing and starting left it stopped; a gateway that runs is not touched.
            await client.release(machine_id)
            await client.await_gateway(instance, machine_id)
        case MarkRunning():
            registry.instances.set_status(instance.id, InstanceStatus.RUNNING)
        case _ as never:
            assert_never(never)
