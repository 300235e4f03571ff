"""Have a machine answer again that does not: start it where it is stopped, else reboot it, else switch it off and on.

A machine that answers by either way is left alone, whatever was asked for. What was tried is read from the steps that
this operation has recorded, so that a run that was killed neither repeats it nor leaves it out.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from hermesops.agents.instances import refusals
from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.remote.both_ways import ask_both_ways
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.steps import OnMachine
from hermesops.agents.instances.steps.machine_table import AwaitMachine, StartMachine
from hermesops.agents.instances.steps.personalise import AwaitGateway
from hermesops.agents.instances.workflows.suspend import StopMachine
from hermesops.base import waiting
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.model.fleet.health import Answers, GatewayHealth
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import InstanceId, MachineId, OperationId
from hermesops.model.operation import Done, OperationStep, Refused
from hermesops.store.registry import Registry
from hermesops.vendor.justavps.wire import MachineStatus

BOOT_S = 180.0
"""Seconds that a machine has to answer after a reboot or a start; JustAVPS calls about thirty usual."""


class RebootMachine(OnMachine):
    """Reboot the machine without a shutdown."""


Step = StartMachine | RebootMachine | StopMachine | AwaitMachine | AwaitGateway


class Attempt(StrEnum):
    """The attempts of this operation, from its recorded steps."""

    NOTHING = "nothing"
    REBOOTING = "rebooting"
    """It was rebooted, and still has time to answer."""
    REBOOTED = "rebooted"
    """It was, and its time is up."""
    STARTING = "starting"
    STARTED = "started"


@dataclass(frozen=True)
class RebootState:
    """The instance, and the attempts to bring its machine up.

    Attributes:
        answers: By both ways.
        observation: Its node and gateway are asked for only where anything answered.
    """

    observation: Observation
    answers: Answers
    attempt: Attempt


def decide(state: RebootState) -> Step | Done | Refused:
    """The next step towards a machine that answers."""
    instance, machine = state.observation.instance, state.observation.existing_machine
    if instance.status is not InstanceStatus.RUNNING:
        is_over = instance.status is InstanceStatus.TERMINATED
        return Refused(refusals.terminated(instance) if is_over else refusals.suspended(instance))
    if not state.answers.machine:
        return Refused(UnavailableError("JustAVPS does not answer", hint="the same again in some minutes"))
    if machine is None:
        return Refused(refusals.machine_gone(state.observation))
    if state.answers.is_alive:
        return _answering(state, machine)
    match machine.status:
        case MachineStatus.STOPPED:
            return StartMachine(machine.id)
        case MachineStatus.PROVISIONING | MachineStatus.UNKNOWN:
            return AwaitMachine(machine.id)
        case MachineStatus.READY:
            return _silent(state, machine)
        case MachineStatus.ERROR | MachineStatus.DELETED:
            error = refusals.machine_in_error(instance.machine_name, hint="wait for it, or ask JustAVPS")
            return Refused(RefusedError(error.message, hint=error.hint))
        case _ as never:
            assert_never(never)


def _silent(state: RebootState, machine: MachineState) -> Step | Refused:
    instance = state.observation.instance
    if not state.answers.is_silent:
        words = f"machine {instance.machine_name} of {instance.title} could not be asked whether it runs"
        return Refused(UnavailableError(words, hint="the same again in some minutes"))
    match state.attempt:
        case Attempt.NOTHING:
            return RebootMachine(machine.id)
        case Attempt.REBOOTING | Attempt.STARTING:
            return AwaitMachine(machine.id)
        case Attempt.REBOOTED:
            return StopMachine(machine.id)
        case Attempt.STARTED:
            return Refused(
                RefusedError(
                    f"machine {instance.machine_name} of {instance.title} answers neither by toolbox nor by proxy, "
                    "though it was switched off and on",
                    hint=Hint(("backup", "restore", instance.title, "--onto-new-machine")),
                )
            )
        case _ as never:
            assert_never(never)


def _answering(state: RebootState, machine: MachineState) -> Step | Done | Refused:
    instance, node, gateway = state.observation.instance, state.observation.node, state.observation.gateway
    if node is not None and node.instance_id != instance.id:
        return Refused(refusals.other_instance(instance, node.instance_id))
    what = f"machine {instance.machine_name} of {instance.title}"
    if state.attempt is Attempt.NOTHING:
        return Done(f"{what} answers: nothing was done to it")
    if node is not None and node.fenced:
        return Done(f"{what} answers again; its gateway is fenced")
    if node is not None and gateway is GatewayHealth.SILENT:
        return AwaitGateway(machine.id)
    return Done(f"{what} answers again")


_REBOOTING, _STARTING = "rebooting machine", "starting machine"


def attempt_of(steps: tuple[OperationStep, ...], *, recent: frozenset[OperationStep]) -> Attempt:
    """Read the attempts from an operation's steps. Pure.

    Args:
        recent: Those after which a machine still has time to answer.
    """
    acted = [step for step in steps if step.step.startswith((_REBOOTING, _STARTING))]
    if not acted:
        return Attempt.NOTHING
    is_recent = acted[-1] in recent
    if acted[-1].step.startswith(_STARTING):
        return Attempt.STARTING if is_recent else Attempt.STARTED
    return Attempt.REBOOTING if is_recent else Attempt.REBOOTED


@dataclass
class Reboot:
    """The work of one reboot, for the operations' loop."""

    instance_id: InstanceId
    operation_id: OperationId
    registry: Registry
    client: PowerControl
    boot_s: float = BOOT_S

    async def observe(self) -> RebootState:
        """Ask the machine by both ways; its node and gateway in full where anything answers."""
        instance = self.registry.instances.get(self.instance_id)
        answers, machine = await ask_both_ways(self.client, instance)
        attempt = self._attempt()
        if answers.is_alive:
            return RebootState(await self.client.observe(self.instance_id), answers, attempt)
        state = MachineState.of(machine) if machine else None
        backed_up = self.registry.backups.is_backed_up(instance.id)
        return RebootState(Observation(instance, state, is_backed_up=backed_up), answers, attempt)

    def _attempt(self) -> Attempt:
        steps, now = self.registry.operations.steps(self.operation_id), self.registry.now()
        recent = frozenset(step for step in steps if (now - step.at).total_seconds() < self.boot_s)
        return attempt_of(steps, recent=recent)

    def decide(self, state: RebootState) -> Step | Done | Refused:
        """The next step for what was seen."""
        return decide(state)

    def describe(self, step: Step, state: RebootState) -> str:
        """The step in a few words, by which ``attempt_of`` knows it again."""
        name = state.observation.instance.machine_name
        match step:
            case RebootMachine():
                return f"{_REBOOTING} {name}"
            case StartMachine():
                return f"{_STARTING} {name}"
            case StopMachine():
                return f"switching machine {name} off"
            case AwaitMachine():
                return f"waiting for machine {name}"
            case AwaitGateway():
                return "waiting for the gateway"

    async def do(self, step: Step, state: RebootState) -> None:
        """Do one step; harmless when it was done before."""
        instance = state.observation.instance
        match step:
            case RebootMachine(machine_id=machine_id):
                await self.client.reboot_machine(machine_id)
                await self._await(instance, machine_id)
            case StartMachine(machine_id=machine_id):
                await self.client.start_machine(machine_id)
                await self._await(instance, machine_id)
            case StopMachine(machine_id=machine_id):
                await self.client.stop_machine(instance, machine_id)
            case AwaitMachine(machine_id=machine_id):
                await self._await(instance, machine_id, passes=state.attempt is not Attempt.NOTHING)
            case AwaitGateway(machine_id=machine_id):
                await self._await_gateway(instance, machine_id)
            case _ as never:
                assert_never(never)

    async def _await(self, instance: Instance, machine_id: MachineId, *, passes: bool = True) -> None:
        """Wait until the machine answers.

        Args:
            passes: Whether to return too when its time is up: the next step follows from what is observed then.
        """
        try:
            await self.client.await_machine(instance, machine_id, timeout_s=self.boot_s)
        except waiting.WaitExpiredError:
            if not passes:
                raise

    async def _await_gateway(self, instance: Instance, machine_id: MachineId) -> None:
        try:
            await self.client.await_gateway(instance, machine_id)
        except UnavailableError as late:
            raise RefusedError(late.message, hint=late.hint) from late  # the machine is up: this operation is over
