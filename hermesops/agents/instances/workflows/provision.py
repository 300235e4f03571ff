"""Give a user a running agent.

Steps follow from observations alone, so the same command continues a killed one.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import assert_never

from hermesops.agents.cells.stack.stacks import CellStacks
from hermesops.agents.instances import refusals
from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.steps import OnMachine, machine_table, personalise, start_verified
from hermesops.agents.instances.steps.machine_table import AwaitMachine, StartMachine
from hermesops.agents.instances.steps.new_machine import GrowCell, grow_cell
from hermesops.agents.instances.steps.personalise import AwaitGateway, MarkRunning, Personalise
from hermesops.errors import Hint
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Done, Refused
from hermesops.store.registry import Registry


class RecordMachine(OnMachine):
    """Write the vendor's id of the machine into the registry."""


Step = GrowCell | RecordMachine | StartMachine | AwaitMachine | Personalise | AwaitGateway | MarkRunning


def decide(observation: Observation, *, payload_digest: str) -> Step | Done | Refused:
    """The next step towards a running agent."""
    instance, machine = observation.instance, observation.existing_machine
    if instance.status is InstanceStatus.TERMINATED:
        return Refused(refusals.terminated(instance))
    if instance.status is InstanceStatus.SUSPENDED:
        return Refused(refusals.suspended(instance))
    if machine is None:
        # A new machine would be an agent without its memory: never made in silence.
        return Refused(refusals.machine_gone(observation)) if instance.machine_id else GrowCell()
    if instance.machine_id != machine.id:
        return RecordMachine(machine.id)
    again = Hint(("provision", instance.title), "again in some minutes, or", ("instance", "terminate", instance.title))
    if (step := machine_table.next_step(machine, instance.machine_name, if_in_error=again)) is not None:
        return step
    if observation.node is None:
        return AwaitMachine(machine.id)
    if (
        handing := personalise.next_step(observation, machine, observation.node, payload_digest=payload_digest)
    ) is not None:
        return handing
    if instance.status is not InstanceStatus.RUNNING:
        return MarkRunning()
    return Done(f"{instance.title} has a running agent on {instance.machine_name}")


def describe(step: Step, observation: Observation) -> str:
    """The step in a few words."""
    instance = observation.instance
    match step:
        case GrowCell():
            return f"creating machine {instance.machine_name} in {instance.cell}"
        case RecordMachine(machine_id=machine_id):
            return f"recording machine {machine_id}"
        case _:
            return start_verified.describe(step, instance)


@dataclass
class Provision:
    """The work of one instance, for the operations' loop.

    Attributes:
        save_record: Saves the recovery record of the instance; never fails.
    """

    instance_id: InstanceId
    registry: Registry
    client: PowerControl
    cells: CellStacks
    save_record: Callable[[Instance], Awaitable[None]]
    _marked: Observation | None = field(default=None, init=False)

    async def observe(self) -> Observation:
        """Look at row, machine, node and gateway.

        Right after ``MarkRunning`` wrote the row, only the row is read again.
        """
        marked, self._marked = self._marked, None
        if marked is not None:
            return replace(marked, instance=self.registry.instances.get(self.instance_id))
        return await self.client.observe(self.instance_id)

    def decide(self, observation: Observation) -> Step | Done | Refused:
        """The next step for what was seen."""
        return decide(observation, payload_digest=self.client.payload_digest(observation.instance))

    def describe(self, step: Step, observation: Observation) -> str:
        """The step in a few words."""
        return describe(step, observation)

    async def do(self, step: Step, observation: Observation) -> None:
        """Do one step; harmless when it was done before."""
        instance = observation.instance
        match step:
            case GrowCell():
                await grow_cell(self.cells, instance.cell, instance.machine_name)
            case RecordMachine(machine_id=machine_id):
                self.registry.instances.set_machine(instance.id, machine_id)
            case StartMachine() | AwaitMachine() | Personalise():
                await start_verified.do(step, instance, client=self.client, registry=self.registry)
            case AwaitGateway(machine_id=machine_id):
                await self.client.await_gateway(instance, machine_id)
            case MarkRunning():
                self.registry.instances.set_status(instance.id, InstanceStatus.RUNNING)
                await self.save_record(instance)
                self._marked = observation
            case _ as never:
                assert_never(never)
