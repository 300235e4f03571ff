"""A machine is brought up step by step, and one that answers by either way is left alone."""

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.remote.both_ways import ask_both_ways
from hermesops.agents.instances.steps.machine_table import AwaitMachine, StartMachine
from hermesops.agents.instances.steps.personalise import AwaitGateway
from hermesops.agents.instances.workflows.reboot import Attempt, Reboot, RebootMachine, RebootState, attempt_of, decide
from hermesops.agents.instances.workflows.suspend import StopMachine
from hermesops.base import waiting
from hermesops.errors import BrokenInvariantError, HermesError, RefusedError, UnavailableError
from hermesops.model.fleet.health import Answer, Answers, GatewayHealth, NodeState
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.overview import GONE
from hermesops.model.ids import InstanceId, MachineId, OperationId
from hermesops.model.operation import Done, OperationStep, Refused
from hermesops.vendor.channel import AnswerLostError, CommandExpiredError, MachineGoneError, MachineUnreachableError
from hermesops.vendor.justavps import errors as vendor
from hermesops.vendor.justavps.wire import Machine, MachineStatus
from tests.support.fakes.instances import ADA, MACHINE, READY
from tests.support.fakes.registry import FakeRegistry
from tests.support.suite.cases import each_case

OWN = NodeState(ADA.id, 1, "digest", "0.19.0")
SILENT = Answers("ready", Answer.SILENT, Answer.SILENT)
ALIVE = Answers("ready", Answer.YES, Answer.SILENT)
DEAD = RebootState(Observation(ADA, READY), SILENT, Attempt.NOTHING)
UP = RebootState(Observation(ADA, READY, OWN, GatewayHealth.OK), ALIVE, Attempt.REBOOTING)
WHAT = f"machine {ADA.machine_name} of ada"
AT = datetime(2026, 1, 1, tzinfo=UTC)


def with_status(status: MachineStatus) -> RebootState:
    observation = replace(DEAD.observation, machine=MachineState(MACHINE, status))
    return replace(DEAD, observation=observation, answers=replace(SILENT, machine=status.value))


def with_node(node: NodeState | None, gateway: GatewayHealth | None = None) -> RebootState:
    return replace(UP, observation=Observation(ADA, READY, node, gateway))


@each_case(
    ("reboot_state", "step"),
    [
        (DEAD, RebootMachine(MACHINE)),
        (replace(DEAD, attempt=Attempt.REBOOTING), AwaitMachine(MACHINE)),
        (replace(DEAD, attempt=Attempt.REBOOTED), StopMachine(MACHINE)),
        (replace(DEAD, attempt=Attempt.STARTING), AwaitMachine(MACHINE)),
        (with_status(MachineStatus.STOPPED), StartMachine(MACHINE)),
        (replace(with_status(MachineStatus.STOPPED), attempt=Attempt.REBOOTED), StartMachine(MACHINE)),
        (with_status(MachineStatus.PROVISIONING), AwaitMachine(MACHINE)),
        (with_status(MachineStatus.UNKNOWN), AwaitMachine(MACHINE)),
        (replace(UP, attempt=Attempt.NOTHING), Done(f"{WHAT} answers: nothing was done to it")),
        (
            replace(with_status(MachineStatus.STOPPED), answers=Answers("stopped", Answer.SILENT, Answer.YES)),
            Done(f"{WHAT} answers: nothing was done to it"),
        ),
        (UP, Done(f"{WHAT} answers again")),
        (with_node(OWN, GatewayHealth.DEGRADED), Done(f"{WHAT} answers again")),
        (with_node(None), Done(f"{WHAT} answers again")),
        (with_node(replace(OWN, fenced=True)), Done(f"{WHAT} answers again; its gateway is fenced")),
        (with_node(OWN, GatewayHealth.SILENT), AwaitGateway(MACHINE)),
    ],
)
def test_the_next_step_follows_from_what_answers_and_what_was_tried(reboot_state: RebootState, step: object) -> None:
    assert decide(reboot_state) == step


@each_case(
    ("reboot_state", "error", "says"),
    [
        (replace(DEAD, attempt=Attempt.STARTED), RefusedError, "though it was switched off and on"),
        (with_status(MachineStatus.ERROR), RefusedError, "in error"),
        (with_status(MachineStatus.DELETED), RefusedError, "is gone at JustAVPS"),
        (replace(DEAD, observation=Observation(ADA, None), answers=Answers(GONE)), RefusedError, "is gone"),
        (replace(DEAD, answers=Answers("")), UnavailableError, "JustAVPS does not answer"),
        (replace(DEAD, answers=Answers("ready", Answer.SILENT)), UnavailableError, "could not be asked"),
        (with_node(replace(OWN, instance_id=InstanceId("another"))), BrokenInvariantError, "belongs to instance"),
        (
            replace(DEAD, observation=Observation(replace(ADA, status=InstanceStatus.SUSPENDED), READY)),
            RefusedError,
            "is suspended",
        ),
        (
            replace(DEAD, observation=Observation(replace(ADA, status=InstanceStatus.TERMINATED), READY)),
            RefusedError,
            "was terminated",
        ),
    ],
)
def test_where_no_reboot_helps_it_says_so(reboot_state: RebootState, error: type[HermesError], says: str) -> None:
    verdict = decide(reboot_state)
    assert isinstance(verdict, Refused)
    assert type(verdict.error) is error
    assert says in verdict.error.message


def test_what_was_tried_is_read_from_recorded_steps() -> None:
    def step(words: str, minute: int) -> OperationStep:
        return OperationStep(AT + timedelta(minutes=minute), words, "h", "")

    queued, rebooting = step("left to the workers", 0), step("rebooting machine m", 1)
    waited, stopping, starting = (
        step("waiting for machine m", 2),
        step("switching machine m off", 4),
        step("starting machine m", 5),
    )
    none = frozenset[OperationStep]()
    assert attempt_of((), recent=none) is attempt_of((queued,), recent=frozenset({queued})) is Attempt.NOTHING
    assert attempt_of((queued, rebooting, waited), recent=frozenset({rebooting, waited})) is Attempt.REBOOTING
    assert attempt_of((queued, rebooting, waited), recent=frozenset({waited})) is Attempt.REBOOTED
    assert attempt_of((rebooting, stopping), recent=frozenset({stopping})) is Attempt.REBOOTED
    assert attempt_of((rebooting, stopping, starting), recent=frozenset({starting})) is Attempt.STARTING
    assert attempt_of((rebooting, stopping, starting), recent=none) is Attempt.STARTED


@dataclass
class FakeClient:
    """A machine that comes back after so many commands, or never; remembers what was done to it."""

    comes_back_after: int = 99
    status: MachineStatus = MachineStatus.READY
    toolbox: Exception | None = None
    gateway: GatewayHealth = GatewayHealth.SILENT
    is_listed: bool = True
    is_vendor_up: bool = True
    gateway_comes: bool = True
    done: list[str] = field(default_factory=list)

    @property
    def is_up(self) -> bool:
        return len(self.done) >= self.comes_back_after and self.status is MachineStatus.READY

    async def machine(self, _: Instance) -> Machine | None:
        if not self.is_vendor_up:
            raise UnavailableError("no vendor")
        return Machine(id=MACHINE, name=ADA.machine_name, status=self.status) if self.is_listed else None

    def channel(self, _: MachineId) -> "FakeClient":
        return self

    async def run(self, _: str, *, timeout_s: float) -> None:
        assert timeout_s <= 10
        if not self.is_up:
            raise self.toolbox or AnswerLostError("silent")

    async def health(self, _: Instance, __: Machine) -> GatewayHealth:
        return self.gateway if not self.is_up else GatewayHealth.OK if self.gateway_comes else GatewayHealth.SILENT

    async def observe(self, _: InstanceId) -> Observation:
        return Observation(ADA, MachineState(MACHINE, self.status), OWN, await self.health(ADA, cast("Any", None)))

    async def reboot_machine(self, _: MachineId) -> None:
        self.done.append("reboot")

    async def stop_machine(self, _: Instance, __: MachineId) -> None:
        self.done.append("stop")
        self.status = MachineStatus.STOPPED

    async def start_machine(self, _: MachineId) -> None:
        self.done.append("start")
        self.status = MachineStatus.READY

    async def await_machine(self, _: Instance, __: MachineId, *, timeout_s: float) -> None:
        if not self.is_up:
            raise waiting.WaitExpiredError("machine", timeout_s, "silent")

    async def await_gateway(self, _: Instance, __: MachineId) -> None:
        raise UnavailableError("the gateway is not healthy")


class Steps(FakeRegistry):
    def __init__(self) -> None:
        self.timestamp = AT
        self.recorded: list[OperationStep] = []

    def now(self) -> datetime:
        return self.timestamp

    def instances_get(self, _: InstanceId) -> Instance:
        return ADA

    def operations_steps(self, _: OperationId) -> tuple[OperationStep, ...]:
        return tuple(self.recorded)

    def backups_is_backed_up(self, _: InstanceId) -> bool:
        return True


def driven(client: FakeClient) -> tuple[object, Steps]:
    """What the loop of operations comes to, each step recorded before it is done and lasting as long as it may."""
    registry = Steps()
    work = Reboot(ADA.id, OperationId("op"), registry, cast("Any", client), boot_s=60)

    async def loop() -> object:
        for _ in range(20):
            reboot_state = await work.observe()
            step = work.decide(reboot_state)
            if isinstance(step, Done | Refused):
                return step
            registry.recorded.append(OperationStep(registry.timestamp, work.describe(step, reboot_state), "h", ""))
            await work.do(step, reboot_state)
            registry.timestamp += timedelta(seconds=61)
        raise AssertionError(client.done)

    return asyncio.run(loop()), registry


@pytest.mark.parametrize(("comes_back_after", "done"), [(0, []), (1, ["reboot"]), (2, ["reboot", "stop", "start"])])
def test_it_is_rebooted_then_switched_off_and_on(comes_back_after: int, done: list[str]) -> None:
    client = FakeClient(comes_back_after)
    outcome, _ = driven(client)
    assert isinstance(outcome, Done)
    assert client.done == done


def test_one_that_never_answers_again_is_given_to_a_person() -> None:
    client = FakeClient()
    outcome, _ = driven(client)
    assert isinstance(outcome, Refused)
    assert client.done == ["reboot", "stop", "start"]
    assert outcome.error.hint.parts == (("backup", "restore", "ada", "--onto-new-machine"),)


def test_one_that_is_switched_off_is_started_and_no_more() -> None:
    client = FakeClient(1, MachineStatus.STOPPED)
    assert isinstance(driven(client)[0], Done)
    assert client.done == ["start"]


def test_a_gateway_that_does_not_come_back_ends_the_operation() -> None:
    with pytest.raises(RefusedError, match="the gateway is not healthy"):
        driven(FakeClient(1, gateway_comes=False))


def test_one_that_never_becomes_ready_is_waited_for_by_another_run() -> None:
    with pytest.raises(waiting.WaitExpiredError, match="waited 60 s"):
        driven(FakeClient(status=MachineStatus.PROVISIONING))


def caused(by: Exception) -> MachineUnreachableError:
    error = MachineUnreachableError("unreachable")
    error.__cause__ = by
    return error


UNASKED = vendor.UnreachableError("GET /", "no route")


@each_case(
    ("client", "answers"),
    [
        (FakeClient(0), Answers("ready", Answer.YES, Answer.YES)),
        (FakeClient(toolbox=CommandExpiredError("late")), Answers("ready", Answer.YES, Answer.SILENT)),
        (FakeClient(gateway=GatewayHealth.REFUSED), Answers("ready", Answer.SILENT, Answer.YES)),
        (FakeClient(toolbox=MachineGoneError("404")), SILENT),
        (FakeClient(toolbox=MachineUnreachableError("503")), SILENT),
        (FakeClient(toolbox=caused(UNASKED)), Answers("ready", Answer.UNKNOWN, Answer.SILENT)),
        (FakeClient(toolbox=RefusedError("401")), Answers("ready", Answer.UNKNOWN, Answer.SILENT)),
        (FakeClient(is_listed=False), Answers(GONE, Answer.SILENT, Answer.SILENT)),
        (FakeClient(status=MachineStatus.DELETED), Answers(GONE, Answer.SILENT, Answer.SILENT)),
        (FakeClient(is_vendor_up=False), Answers("", Answer.UNKNOWN, Answer.UNKNOWN)),
    ],
)
def test_any_answer_counts_and_what_was_not_asked_is_not_silent(client: FakeClient, answers: Answers) -> None:
    replies, _ = asyncio.run(ask_both_ways(cast("Any", client), ADA))
    assert replies == answers
