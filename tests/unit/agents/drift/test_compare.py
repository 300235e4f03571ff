"""Whatever is broken in a fleet is found, named once, and comes with the commands that repair it."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from hermesops.agents.drift.compare import FIELDS, compare, machines_asked, narrowed
from hermesops.agents.drift.finding import Finding, Kind, Severity
from hermesops.agents.drift.fleet_snapshot import MachineSnapshot, Rebooted, StackMachine, StackSnapshot
from hermesops.agents.drift.repairs import REMEDIES
from hermesops.errors import Hint
from hermesops.model.check import Check, Verdict
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.selector import Selector
from hermesops.model.fleet.unassigned_machine import UnassignedStatus, pool_subject
from hermesops.model.ids import CellName, InstanceId, MachineId, MachineName, OperationId
from hermesops.model.image import snapshot_name
from hermesops.vendor.justavps.wire import Image, MachineStatus
from tests.support.fleets.in_memory import (
    AT,
    Fleet,
    machine_for,
    machine_of_unassigned,
    ordered,
    pooled,
    stacks_of,
    told,
)
from tests.support.suite.cases import each_case

CELL = CellName("cell1")
STRAY = "hermes-local-cell1-ffffffffffff"


def found(fleet: Fleet, **changes: object) -> list[Finding]:
    return list(compare(fleet.snapshot(**changes)))


def only(fleet: Fleet, **changes: object) -> Finding:
    [finding] = found(fleet, **changes)
    return finding


def commands(hints: tuple[Hint, ...]) -> tuple[str, ...]:
    return tuple(map(str, hints))


def test_accounts_that_agree_differ_in_nothing() -> None:
    fleet = Fleet.of(90)
    assert (
        found(fleet, answers={MachineId(m.id): told(r) for r, m in zip(fleet.rows, fleet.machines, strict=True)}) == []
    )


def test_a_machine_that_is_gone_is_the_loss_of_an_agent() -> None:
    fleet = Fleet.of(3)
    fleet.machines.pop(1)
    finding = only(fleet)
    assert (finding.kind, finding.severity, finding.subject) == (Kind.MACHINE_MISSING, Severity.CRITICAL, "user1")
    assert commands(finding.repair) == (
        "hermesops instance terminate user1 --now --without-backup",
        "hermesops provision user1 --plan light",
    )


def test_a_machine_that_is_gone_is_no_loss_where_there_is_a_backup() -> None:
    fleet = Fleet.of(3)
    fleet.machines.pop(1)
    finding = only(fleet, backed_up=frozenset({fleet.rows[1].instance.id}))
    assert finding.kind is Kind.MACHINE_RESTORABLE
    assert commands(finding.repair) == ("hermesops backup restore user1 --onto-new-machine",)
    assert commands(finding.otherwise) == (), "an agent that can be restored is not ended"


def test_who_sleeps_in_a_backup_has_no_machine_that_could_be_missing() -> None:
    fleet = Fleet.of(3)
    fleet.machines.pop(1)
    asleep = replace(fleet.rows[1].instance, status=InstanceStatus.SUSPENDED)
    fleet.rows[1] = replace(fleet.rows[1], instance=asleep, wanted=False)
    assert all(finding.kind is not Kind.LEAVING for finding in found(fleet))


@each_case(
    ("change", "kind"),
    [
        ({"status": MachineStatus.STOPPED}, Kind.STOPPED),
        ({"status": MachineStatus.ERROR}, Kind.IN_ERROR),
        ({"status": MachineStatus.UNKNOWN}, Kind.NOT_READY),
        ({"server_type": "pro"}, Kind.RESIZED),
        ({"image_id": "image-2"}, Kind.WRONG_IMAGE),
    ],
)
def test_a_machine_that_is_not_as_ordered(change: dict[str, Any], kind: Kind) -> None:
    fleet = Fleet.of(2)
    fleet.machines[1] = machine_for(fleet.rows[1], **change)
    assert only(fleet).kind is kind


def test_a_suspended_instance_may_stand_still() -> None:
    fleet = Fleet.of(1)
    fleet.rows[0] = ordered(0, status=InstanceStatus.SUSPENDED)
    fleet.machines[0] = machine_for(fleet.rows[0], status=MachineStatus.STOPPED)
    assert found(fleet) == []


def test_another_machine_of_its_name_is_not_the_one_the_registry_knows() -> None:
    fleet = Fleet.of(1)
    fleet.machines[0] = machine_for(fleet.rows[0], id="m-new")
    assert only(fleet).kind is Kind.MACHINE_REPLACED


def test_rows_that_name_each_others_machines_are_put_right_and_no_machine_is_an_orphan() -> None:
    fleet = Fleet.of(2)
    first, other = (row.instance.machine_id for row in fleet.rows)
    fleet.rows = [ordered(0, machine_id=other), ordered(1, machine_id=first)]
    stacks = stacks_of([ordered(0), ordered(1)])
    assert [(f.kind, f.subject) for f in found(fleet, stacks=stacks)] == [
        (Kind.MACHINE_REPLACED, "user0"),
        (Kind.MACHINE_REPLACED, "user1"),
    ]


def test_two_machines_of_one_name_are_one_too_many_and_the_extra_one_is_named_by_its_id() -> None:
    fleet = Fleet.of(1)
    fleet.machines.append(machine_for(fleet.rows[0], id="m-twin"))
    finding = only(fleet)
    assert finding.kind is Kind.DUPLICATE
    assert commands(finding.repair) == (f"hermesops fleet repair remove-orphan {finding.machine} --id m-twin",)


def test_a_provisioning_that_stopped_halfway_is_continued_unless_somebody_is_at_it() -> None:
    fleet = Fleet.of(1)
    fleet.rows[0] = ordered(0, status=InstanceStatus.PROVISIONING, machine_id=None)
    without = only(replace(fleet, machines=[]))
    assert (without.kind, commands(without.repair)) == (Kind.UNFINISHED, ("hermesops provision user0 --plan light",))
    assert [f.kind for f in found(replace(fleet, machines=[machine_for(fleet.rows[0])]))] == [Kind.UNFINISHED]
    assert found(replace(fleet, machines=[]), in_hand=frozenset({f"instance/{fleet.rows[0].instance.id}"})) == []


def test_a_machine_that_was_given_up_is_terminated_to_the_end() -> None:
    fleet = Fleet.of(1)
    fleet.rows[0] = replace(fleet.rows[0], wanted=False)
    assert commands(only(fleet).repair) == ("hermesops instance terminate user0 --now",)


def test_machines_named_by_us_that_no_instance_has_are_orphans() -> None:
    fleet = Fleet.of(1)
    fleet.machines.append(machine_for(ordered(7), id="m-x", name=STRAY))
    finding = only(fleet)
    assert (finding.kind, finding.machine, finding.cell) == (Kind.ORPHAN, STRAY, "cell1")
    assert commands(finding.repair) == (f"hermesops fleet repair adopt {STRAY}", "hermesops stack up cell1")
    assert commands(finding.otherwise) == (f"hermesops fleet repair remove-orphan {STRAY}",)
    assert found(fleet, passing=frozenset({STRAY})) == []
    ended = only(fleet, ended={STRAY: InstanceId("i")})
    nobodys = only(fleet, answers={"m-x": MachineSnapshot()})
    assert {ended.kind, nobodys.kind} == {Kind.ORPHAN_ENDED}


@pytest.mark.parametrize(
    ("account", "kind"),
    [
        (MachineSnapshot(silence="no answer"), Kind.ORPHAN),
        (MachineSnapshot(instance_id=InstanceId("i")), Kind.ORPHAN),
        (MachineSnapshot(), Kind.ORPHAN_ENDED),
    ],
    ids=["does not answer", "somebody's", "nobody's"],
)
def test_only_an_orphan_that_says_that_it_is_nobodys_is_nobodys(account: MachineSnapshot, kind: Kind) -> None:
    fleet = Fleet.of(1)
    fleet.machines.append(machine_for(ordered(7), id="m-x", name=STRAY))
    finding = only(fleet, answers={MachineId("m-x"): account})
    assert finding.kind is kind
    assert (f"hermesops fleet repair remove-orphan {STRAY}" in commands(finding.repair)) == (kind is Kind.ORPHAN_ENDED)
    if account.instance_id:
        assert finding.otherwise == (), "nothing that destroys what may be the only copy of a memory"


def test_a_snapshot_of_somebody_who_has_left_is_deleted_and_no_other() -> None:
    fleet = Fleet.of(1)
    theirs, ended = fleet.rows[0].instance.id, InstanceId(str(UUID(int=1)))
    images = [
        *fleet.snapshot().images,
        *(
            Image(id=f"of-{who}", name=snapshot_name(environment, who, OperationId(str(UUID(int=9)))))
            for environment, who in (("local", theirs), ("local", ended), ("staging", ended))
        ),
    ]
    finding = only(fleet, images=images)
    assert (finding.kind, commands(finding.repair)) == (
        Kind.SNAPSHOT_LEFT,
        (f"hermesops snapshot delete {ended} of-{ended}",),
    )


def test_a_stack_that_lacks_or_misremembers_a_machine() -> None:
    fleet = Fleet.of(1)
    name = fleet.rows[0].instance.machine_name
    kinds = {
        Kind.NOT_IN_STACK: StackSnapshot(),
        Kind.STACK_DIFFERS: StackSnapshot({name: StackMachine("m-old", "starter", "image-1")}),
        Kind.STACK_BEHIND: StackSnapshot({name: StackMachine("m-0", "pro", "image-1")}),
        Kind.STACK_UNSEEN: StackSnapshot(unseen="the state is damaged"),
    }
    for kind, stack in kinds.items():
        assert only(fleet, stacks={CELL: stack}).kind is kind
    held = stacks_of(fleet.rows)[CELL]
    assert only(fleet, stacks={CELL: replace(held, interrupted=(name,))}).kind is Kind.STACK_INTERRUPTED
    more = dict(held.machines) | {MachineName(STRAY): StackMachine("m-x", "starter", "")}
    assert only(fleet, stacks={CELL: StackSnapshot(more)}).kind is Kind.ONLY_IN_STACK


def test_a_damaged_state_has_the_repair_that_its_own_error_names() -> None:
    back = Hint(("stack", "rollback-state", CELL, "--list"), "shows the good copies")
    for hint, command in (
        (back, f"hermesops stack rollback-state {CELL} --list"),
        (Hint("look at the disk"), f"hermesops stack export {CELL}"),
    ):
        finding = only(Fleet.of(1), stacks={CELL: StackSnapshot(unseen="the state is damaged", hint=hint)})
        assert commands(finding.repair) == (command,)


def test_an_image_that_the_vendor_lost_is_built_again() -> None:
    assert commands(only(Fleet.of(1), images=()).repair) == ("hermesops image build hermes-base",)


@each_case(
    ("change", "kind"),
    [
        ({"silence": "no answer"}, Kind.SILENT),
        ({"instance_id": None}, Kind.NOT_PERSONALISED),
        ({"instance_id": InstanceId("another")}, Kind.FOREIGN_IDENTITY),
        ({"is_current": False}, Kind.PAYLOAD_DIFFERS),
        ({"changed": ("hermes_base : Install nftables rules",)}, Kind.FILES_CHANGED),
        ({"roles_unseen": "unreachable"}, Kind.ROLES_UNSEEN),
        ({"checks": (Check("disk", Verdict.FAILED, "full"),)}, Kind.CHECK_FAILED),
        ({"checks": (Check("disk", Verdict.UNKNOWN, "no df"),)}, Kind.CHECK_UNSEEN),
    ],
)
def test_what_a_machine_says_of_itself(change: dict[str, Any], kind: Kind) -> None:
    fleet = Fleet.of(1)
    assert only(fleet, answers={MachineId("m-0"): told(fleet.rows[0], **change)}).kind is kind


def test_a_reboot_is_told_and_is_nothing_to_repair() -> None:
    fleet = Fleet.of(1)
    finding = only(
        fleet,
        answers={MachineId("m-0"): told(fleet.rows[0], boot_id="b2")},
        rebooted={MachineId("m-0"): Rebooted(AT)},
    )
    assert (finding.kind, finding.is_open) == (Kind.REBOOTED, False)


def test_the_worst_is_told_first() -> None:
    fleet = Fleet.of(3)
    fleet.machines[2] = machine_for(fleet.rows[2], status=MachineStatus.STOPPED)
    fleet.machines[0] = machine_for(fleet.rows[0], server_type="pro")
    assert [finding.severity for finding in found(fleet)] == [Severity.CRITICAL, Severity.WARNING]


def test_every_kind_has_a_remedy() -> None:
    assert set(REMEDIES) == set(Kind)
    assert {kind for kind, remedy in REMEDIES.items() if not remedy.repair} == {Kind.UNKNOWN_MACHINE}


def test_a_selection_narrows_findings_and_who_is_asked_but_makes_nobody_an_orphan() -> None:
    fleet = Fleet.of(60)
    fleet.machines[0] = machine_for(fleet.rows[0], server_type="pro")
    fleet.machines[50] = machine_for(fleet.rows[50], server_type="pro")
    fleet.machines.append(machine_for(ordered(99), id="m-x", name=STRAY))
    snapshot = fleet.snapshot()
    findings = compare(snapshot)
    second = Selector.parse("cell=cell2", fields=FIELDS)
    assert [f.subject for f in narrowed(findings, snapshot.rows, second)] == ["user50"]
    assert len(machines_asked(snapshot, second)) == 20
    first = Selector.parse("cell=cell1", fields=FIELDS)
    assert {f.kind for f in narrowed(findings, snapshot.rows, first)} == {Kind.RESIZED, Kind.ORPHAN}
    assert [row for row, _ in machines_asked(snapshot, first)].count(None) == 1
    selector = Selector.parse("user=user50,plan=light", fields=FIELDS)
    assert [f.subject for f in narrowed(findings, snapshot.rows, selector)] == ["user50"]


def test_a_machine_of_the_pool_is_no_orphan_and_one_more_of_its_name_is() -> None:
    fleet, row = Fleet.of(1), pooled(0)
    fleet.machines.append(machine_of_unassigned(row))
    assert found(fleet, unassigned=(row,)) == []
    fleet.machines.append(machine_of_unassigned(row, id="s-twin"))
    assert only(fleet, unassigned=(row,)).kind is Kind.DUPLICATE


@pytest.mark.parametrize(
    ("change", "listed"),
    [({"status": UnassignedStatus.PREPARING}, 1), ({"wanted": False}, 1), ({"wanted": False}, 0), ({}, 0)],
)
def test_what_a_pool_left_half_done_is_found_unless_somebody_is_at_it(change: dict[str, Any], listed: int) -> None:
    fleet, row = Fleet.of(1), pooled(0, **change)
    fleet.machines += [machine_of_unassigned(row)] * listed
    finding = only(fleet, unassigned=(row,))
    assert (finding.kind, commands(finding.repair)) == (Kind.WARM_UNFINISHED, ("hermesops job run pools cell1",))
    assert found(fleet, unassigned=(row,), in_hand=frozenset({pool_subject(CELL)})) == []
