"""Machines without a row, whatever they are called, and operations that nobody works on are found and named."""

from dataclasses import replace
from typing import Any

from hermesops.agents.drift.collect import Survey
from hermesops.agents.drift.compare import FIELDS, compare, machines_asked
from hermesops.agents.drift.finding import Finding, Kind, Severity
from hermesops.agents.drift.fleet_snapshot import StoppedOperation
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.selector import Selector
from hermesops.model.fleet.unassigned_machine import MachineRole
from hermesops.model.ids import InstanceId, MachineId, OperationId
from hermesops.model.operation import Operation, OperationKind, OperationStatus, OperationStep
from hermesops.vendor.justavps.wire import MachineStatus
from tests.support.fakes.parts import part
from tests.support.fleets.in_memory import AT, Fleet, machine_for, machine_of_unassigned, ordered, pooled, told

ID = OperationId("0f0f")


def stopped(kind: OperationKind, instance_id: InstanceId | None, **intent: object) -> StoppedOperation:
    subject = f"instance/{instance_id}" if instance_id else f"pool/{intent.get('cell')}"
    operation = Operation(
        ID, kind, subject, instance_id, intent, OperationStatus.RUNNING, "starting the machine", "", AT, AT
    )
    return StoppedOperation(operation, "JustAVPS says that the machine is in error")


def found(fleet: Fleet, **changes: Any) -> list[Finding]:  # noqa: ANN401 - any field of the accounts
    return list(compare(fleet.snapshot(**changes)))


def test_every_machine_without_a_row_is_told_with_its_price_whatever_its_name() -> None:
    fleet = Fleet.of(1)
    names = ("hermes-local-cell1-strayone", "somebodys-server", "", "hermes\x1b[2J")
    fleet.machines += [
        machine_for(ordered(7), id=f"m-x{number}", name=name, price_monthly=10) for number, name in enumerate(names)
    ]
    fleet.machines.append(machine_for(ordered(8), id="m-deleted", name="gone", status=MachineStatus.DELETED))
    fleet.machines.append(machine_for(ordered(9), id="m-p", name="hermes-local-platform"))
    findings = found(fleet)
    assert {(finding.kind, finding.severity) for finding in findings} == {(Kind.UNKNOWN_MACHINE, Severity.INFO)}
    assert {finding.subject for finding in findings} == {names[0], names[1], "m-x2", r"hermes\x1b[2J"}
    assert all("$10.00 a month" in finding.difference for finding in findings)
    assert [finding.subject for finding in found(fleet, passing=frozenset(names[1:]))] == [names[0]]


def test_machines_of_another_environment_are_one_line() -> None:
    fleet = Fleet.of(1)
    fleet.machines += [
        machine_for(ordered(8), id=f"m-{key}", name=f"hermes-staging-{key}", price_monthly=price)
        for key, price in (("cell1-ffffffffffff", 10), ("cell2-ffffffffffff", 2.5), ("platform", None))
    ]
    [finding] = found(fleet)
    assert finding.subject == "machines of environment staging"
    assert finding.difference == "3 machines rented in this account, $12.50 a month and 1 of unknown price"


def test_a_stopped_operation_is_told_with_the_command_that_continues_it_and_nothing_else_is() -> None:
    fleet = Fleet.of(2)
    row = fleet.rows[0]
    fleet.machines[0] = machine_for(row, status=MachineStatus.STOPPED, server_type="pro")
    account = {MachineId("m-0"): told(row, changed=("hermes_base : Install nftables rules",), is_current=False)}
    for kind in OperationKind:
        if not kind.needs_instance or kind in {OperationKind.BACKUP, OperationKind.PROVISION}:
            continue
        [finding] = found(fleet, answers=account, stopped=[stopped(kind, row.instance.id, user="user0")])
        assert (finding.kind, finding.subject, finding.is_open) == (Kind.OPERATION_OPEN, "user0", True), kind
        assert [str(hint) for hint in finding.repair] == [f"hermesops operation continue {ID}"], kind
        assert "JustAVPS says that the machine is in error" in finding.difference, kind


def test_a_stopped_backup_hides_nothing_and_a_stopped_provision_is_the_same_command_again() -> None:
    fleet = Fleet.of(1)
    row = fleet.rows[0]
    fleet.machines[0] = machine_for(row, status=MachineStatus.STOPPED)
    beside = [stopped(OperationKind.BACKUP, row.instance.id)]
    assert [difference.kind for difference in found(fleet, stopped=beside)] == [Kind.STOPPED, Kind.OPERATION_OPEN]
    fleet.rows[0] = ordered(0, status=InstanceStatus.PROVISIONING, machine_id=None)
    [finding] = found(fleet, stopped=[stopped(OperationKind.PROVISION, row.instance.id)])
    assert (finding.kind, [str(hint) for hint in finding.repair]) == (
        Kind.UNFINISHED,
        ["hermesops provision user0 --plan light"],
    )


def test_no_stopped_operation_hides_the_loss_of_a_machine_but_one_that_makes_another() -> None:
    fleet = Fleet.of(1)
    fleet.machines.clear()
    row = fleet.rows[0]
    lost = found(fleet, stopped=[stopped(OperationKind.RESTART, row.instance.id)])
    assert [finding.kind for finding in lost] == [Kind.MACHINE_MISSING, Kind.OPERATION_OPEN]
    moved = found(fleet, stopped=[stopped(OperationKind.RELOCATE, row.instance.id)])
    assert [finding.kind for finding in moved] == [Kind.OPERATION_OPEN]


def test_what_a_stopped_operation_left_half_made_is_not_given_back() -> None:
    fleet = Fleet.of(1)
    row = pooled(0, role=MachineRole.REPLACEMENT, instance_id=fleet.rows[0].instance.id, wanted=False)
    fleet.machines.append(machine_of_unassigned(row))
    assert [finding.kind for finding in found(fleet, unassigned=(row,))] == [Kind.MACHINE_LEFT]
    left = [stopped(OperationKind.RELOCATE, fleet.rows[0].instance.id)]
    assert [finding.kind for finding in found(fleet, unassigned=(row,), stopped=left)] == [Kind.OPERATION_OPEN]


def test_an_operation_of_a_cell_is_told_as_the_cells() -> None:
    [finding] = found(Fleet.of(1), stopped=[stopped(OperationKind.POOL_FILL, None, cell="cell1")])
    assert (finding.kind, finding.subject, finding.cell) == (Kind.OPERATION_OPEN, "cell1", "cell1")


def test_machines_that_are_half_changed_are_not_asked() -> None:
    fleet = Fleet.of(2)
    left = (stopped(OperationKind.RESUME, fleet.rows[0].instance.id),)
    calls = machines_asked(replace(fleet.snapshot(), stopped=left), Selector.parse("", fields=FIELDS))
    assert [row and row.instance.title for row, _ in calls] == ["user1"]


def test_an_operation_counts_as_stopped_only_while_nobody_works_on_it() -> None:
    ids = ("ended", "leased", "left", "new")
    rows = {key: replace(stopped(OperationKind.RESUME, InstanceId(key)).operation, id=OperationId(key)) for key in ids}
    steps = [OperationStep(AT, "starting", "h", ""), OperationStep(AT, "starting", "h", "no answer")]
    operations = iter([[rows["ended"], rows["leased"], rows["left"]], [rows["leased"], rows["left"], rows["new"]]])
    registry: Any = part(operations=part(unfinished=lambda: next(operations), steps=lambda _id: steps))
    survey = Survey("local", registry, part(), part(), part(), part())
    before = survey.begun()
    assert [
        (stopped_operation.operation.id, stopped_operation.problem)
        for stopped_operation in survey.stopped(before, {"instance/leased"})
    ] == [("left", "no answer")]
