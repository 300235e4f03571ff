"""A command that needs a machine which does not run says why, and by its exit code whether a repetition can help."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.refusals import not_running, unreachable
from hermesops.agents.instances.suspension import Suspension, suspension_of
from hermesops.errors import HermesError
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import OperationId
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.vendor.justavps.wire import MachineStatus
from tests.support.fakes.instances import ADA, MACHINE

AT = datetime(2026, 1, 2, 4, 10, tzinfo=UTC)
ASLEEP = replace(ADA, status=InstanceStatus.SUSPENDED)
HOLIDAY = Suspension(AT, "holiday")
DONE, RUNNING = OperationStatus.DONE, OperationStatus.RUNNING


def operation(kind: OperationKind, status: OperationStatus = RUNNING, *, reason: str = "holiday") -> Operation:
    return Operation(OperationId("0f"), kind, "s", ADA.id, {"reason": reason}, status, "", "", AT, AT)


def machine(status: MachineStatus) -> MachineState:
    return MachineState(MACHINE, status)


def told(error: HermesError) -> str:
    return f"{error.exit_code} {error.message} -> {error.hint}"


STOPPED, GONE = machine(MachineStatus.STOPPED), machine(MachineStatus.DELETED)


def test_only_what_may_pass_by_itself_is_worth_a_repetition() -> None:
    ending = replace(ASLEEP, grace_until=AT + timedelta(days=7))
    busy = (operation(OperationKind.RESIZE),)
    cases = {
        "3 the agent of ada is suspended since 2026-01-02 04:10 UTC (holiday) -> "
        "hermesops instance resume ada --reason WHY": not_running(Observation(ASLEEP, STOPPED), (), HOLIDAY),
        "3 the agent of ada is suspended -> hermesops instance resume ada --reason WHY": not_running(
            Observation(ASLEEP, None), (), None
        ),
        "3 the agent of ada ends at 2026-01-09 04:10 UTC; it is suspended since 2026-01-02 04:10 UTC (holiday) -> "
        "hermesops instance terminate ada --undo cancels that": not_running(Observation(ending, STOPPED), (), HOLIDAY),
        f"3 machine {ADA.machine_name} of ada is gone at JustAVPS -> "
        "hermesops backup restore ada --onto-new-machine": not_running(
            Observation(ADA, GONE, is_backed_up=True), (operation(OperationKind.BACKUP),), None
        ),
        f"3 machine {ADA.machine_name} of ada is stopped, and its agent should run -> "
        "hermesops instance reboot ada --reason WHY starts it": not_running(Observation(ADA, STOPPED), (), None),
        f"4 machine {ADA.machine_name} of ada does not run: resize of 2026-01-02 04:10 UTC has not ended -> "
        "hermesops operation continue 0f; then the same command again": not_running(
            Observation(ADA, STOPPED), busy, None
        ),
        f"4 machine {ADA.machine_name} of ada is error -> hermesops instance show ada": not_running(
            Observation(ADA, machine(MachineStatus.ERROR)), (), None
        ),
    }
    assert {expected: told(error) for expected, error in cases.items()} == {name: name for name in cases}
    fresh = replace(ADA, status=InstanceStatus.PROVISIONING, machine_id=None)
    assert told(not_running(Observation(fresh, None), (), None)).startswith("3 the agent of ada has not started yet")
    ended = replace(ADA, status=InstanceStatus.TERMINATED)
    assert told(not_running(Observation(ended, None), busy, None)).startswith(f"3 instance {ADA.id} was terminated")


def test_a_machine_that_is_gone_answers_no_repetition_and_one_that_is_silent_may() -> None:
    codes = {
        "gone": (unreachable(Observation(ADA, None)), 3),
        "deleted": (unreachable(Observation(ADA, GONE)), 3),
        "suspended": (unreachable(Observation(ASLEEP, None)), 3),
        "silent": (unreachable(Observation(ADA, machine(MachineStatus.READY))), 4),
        "not listed yet": (unreachable(Observation(replace(ADA, machine_id=None), None)), 4),
    }
    for name, (error, code) in codes.items():
        assert error.exit_code == code, name


def test_the_last_operation_that_suspended_an_agent_says_since_when_and_why() -> None:
    newest_first = [
        operation(OperationKind.RESUME, OperationStatus.FAILED, reason="no"),
        operation(OperationKind.SUSPEND, OperationStatus.FAILED, reason="no"),
        operation(OperationKind.SCHEDULE_TERMINATION, DONE, reason="left us"),
        operation(OperationKind.SUSPEND, DONE, reason="older"),
    ]
    assert suspension_of(newest_first) == Suspension(AT, "left us")
    assert suspension_of([operation(OperationKind.BACKUP, DONE)]) is None
