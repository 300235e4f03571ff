"""The vendor's status of a machine, and the next step: towards a machine that answers, or a refusal. Pure.

| the vendor says       | next                                                  |
| --------------------- | ----------------------------------------------------- |
| stopped               | start it                                              |
| provisioning, unknown | wait                                                  |
| ready                 | wait until hermes-node answers; then it can be used   |
| error                 | refuse: it may recover by itself                      |
| deleted, not listed   | the caller's: some make another one, some must refuse |
"""

from typing import assert_never

from hermesops.agents.instances import refusals
from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.steps import OnMachine
from hermesops.errors import Hint
from hermesops.model.fleet.health import NodeState
from hermesops.model.fleet.instance import Instance
from hermesops.model.operation import Refused
from hermesops.vendor.justavps.wire import MachineStatus


class StartMachine(OnMachine):
    """Boot a machine that is stopped."""


class AwaitMachine(OnMachine):
    """Wait until the vendor calls it ready and hermes-node on it answers."""


Step = StartMachine | AwaitMachine


def next_step(machine: MachineState, name: str, *, if_in_error: Hint | str) -> Step | Refused | None:
    """The next step towards a machine that the vendor calls ready; ``None`` when it does.

    Args:
        machine: One that is not gone.
        if_in_error: Advice for a machine that stays in error.
    """
    match machine.status:
        case MachineStatus.READY:
            return None
        case MachineStatus.STOPPED:
            return StartMachine(machine.id)
        case MachineStatus.PROVISIONING | MachineStatus.UNKNOWN:
            return AwaitMachine(machine.id)
        case MachineStatus.ERROR | MachineStatus.DELETED:
            return Refused(refusals.machine_in_error(name, hint=if_in_error))
        case _ as never:
            assert_never(never)


def own_machine(observation: Observation) -> tuple[MachineState, NodeState] | Refused:
    """An instance's machine and what hermes-node says of it, where it answers and is that instance's own."""
    if observation.machine is None or observation.node is None:
        return Refused(refusals.unreachable(observation))
    if observation.node.instance_id != observation.instance.id:
        return Refused(refusals.other_instance(observation.instance, observation.node.instance_id))
    return observation.machine, observation.node


def describe(step: Step, instance: Instance) -> str:
    """The step in a few words."""
    verb = "starting" if isinstance(step, StartMachine) else "waiting for"
    return f"{verb} machine {instance.machine_name}"


async def do(step: Step, instance: Instance, client: PowerControl) -> None:
    """Do one step; harmless when it was done before."""
    if isinstance(step, StartMachine):
        await client.start_machine(step.machine_id)
    # After a start too: the vendor answers before it begins, so an observation right after still shows it stopped.
    await client.await_machine(instance, step.machine_id)
