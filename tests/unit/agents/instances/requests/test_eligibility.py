"""Whether an instance may have an operation follows from its status and its unfinished operations, for every kind."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from hermesops.agents.instances.requests.eligibility import blocks, refuse_ineligible, refuse_stopped
from hermesops.errors import RefusedError
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import OperationId
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.store.operations.kinds.agents import RelocateIntent
from hermesops.store.operations.kinds.instance_intent import InstanceIntent
from hermesops.store.operations.kinds.table import KINDS, STOPS_GATEWAY
from tests.support.fakes.instances import ADA
from tests.support.suite.cases import each_case

AT = datetime(2026, 1, 1, tzinfo=UTC)
Kind = OperationKind
STOPPING = frozenset(
    {
        Kind.SUSPEND,
        Kind.RESUME,
        Kind.RESIZE,
        Kind.RELOCATE,
        Kind.SCHEDULE_TERMINATION,
        Kind.TERMINATE,
        Kind.RESTORE,
        Kind.SNAPSHOT,
        Kind.REBOOT,
    }
)
ALL = STOPPING | {Kind.PROVISION, Kind.RESTART, Kind.CONFIGURE, Kind.BACKUP}
NOTHING: frozenset[OperationKind] = frozenset()

# wanted: what must not be unfinished, and of which status the instance may be, by its first letter
TABLE: dict[OperationKind, tuple[frozenset[OperationKind], str]] = {
    Kind.PROVISION: (STOPPING, "pr"),
    Kind.TERMINATE: (NOTHING, "prst"),
    Kind.RESTART: (STOPPING, "pr"),
    Kind.CONFIGURE: (STOPPING, "pr"),
    Kind.SUSPEND: (ALL - {Kind.SUSPEND}, "rs"),
    Kind.RESUME: (ALL - {Kind.RESUME, Kind.RELOCATE}, "prs"),
    Kind.RESIZE: (ALL - {Kind.RESIZE}, "r"),
    Kind.RELOCATE: (ALL - {Kind.RELOCATE}, "prs"),
    Kind.SCHEDULE_TERMINATION: (ALL - {Kind.SCHEDULE_TERMINATION}, "rs"),
    Kind.BACKUP: (NOTHING, "rs"),
    Kind.RESTORE: (STOPPING - {Kind.RESTORE}, "pr"),
    Kind.SNAPSHOT: (STOPPING - {Kind.SNAPSHOT}, "r"),
    Kind.REBOOT: (ALL - {Kind.REBOOT}, "r"),
}
OF_INSTANCES: dict[OperationKind, type[InstanceIntent]] = {
    kind: intent for kind, intent in KINDS.items() if issubclass(intent, InstanceIntent)
}


def instance(status: InstanceStatus) -> Instance:
    return replace(ADA, status=status)


def unfinished(kind: OperationKind) -> Operation:
    return Operation(OperationId(f"op-{kind}"), kind, "s", ADA.id, {}, OperationStatus.RUNNING, "", "", AT, AT)


def test_every_kind_of_instances_is_in_the_table() -> None:
    assert set(TABLE) == set(OF_INSTANCES)
    assert STOPS_GATEWAY == STOPPING


@each_case("begun", sorted(ALL))
@each_case("status", InstanceStatus)
@each_case("wanted", sorted(TABLE))
def test_an_operation_is_opened_only_where_status_and_unfinished_operations_allow_it(
    wanted: OperationKind, status: InstanceStatus, begun: OperationKind
) -> None:
    blocking, statuses = TABLE[wanted]
    intent, of = OF_INSTANCES[wanted], instance(status)
    assert blocks(intent, begun) == (begun in blocking)
    if begun in blocking or status.value[0] not in statuses:
        with pytest.raises(RefusedError, match=r"has not ended|terminated|suspended|not started"):
            refuse_ineligible(intent, of, [unfinished(begun)])
    else:
        refuse_ineligible(intent, of, [unfinished(begun)])


@each_case("status", InstanceStatus)
@each_case("wanted", sorted(TABLE))
def test_without_unfinished_operations_the_status_alone_decides(wanted: OperationKind, status: InstanceStatus) -> None:
    if status.value[0] in TABLE[wanted][1]:
        refuse_ineligible(OF_INSTANCES[wanted], instance(status), [])
        return
    says = {"t": "was terminated", "s": "is suspended", "p": "has not started yet"}[status.value[0]]
    with pytest.raises(RefusedError, match=says):
        refuse_ineligible(OF_INSTANCES[wanted], instance(status), [])


def test_what_the_request_cancels_does_not_block_it() -> None:
    ends = [unfinished(Kind.TERMINATE), unfinished(Kind.SCHEDULE_TERMINATION)]
    cancels = {Kind.TERMINATE, Kind.SCHEDULE_TERMINATION}
    refuse_ineligible(OF_INSTANCES[Kind.RESUME], ADA, ends, cancels=cancels)
    with pytest.raises(RefusedError, match=r"op-suspend .* has not ended"):
        refuse_ineligible(OF_INSTANCES[Kind.RESUME], ADA, [*ends, unfinished(Kind.SUSPEND)], cancels=cancels)


@pytest.mark.parametrize(
    ("status", "says"),
    [(InstanceStatus.SUSPENDED, "suspended"), (InstanceStatus.PROVISIONING, "not started")],
)
def test_a_request_that_needs_a_running_agent_is_refused_without_one(status: InstanceStatus, says: str) -> None:
    refuse_ineligible(RelocateIntent, instance(status), [])
    with pytest.raises(RefusedError, match=says):
        refuse_ineligible(RelocateIntent, instance(status), [], while_running=True)


def test_an_agent_in_its_days_of_grace_is_told_when_it_ends() -> None:
    with pytest.raises(RefusedError, match="ends at 2026-01-01"):
        refuse_ineligible(OF_INSTANCES[Kind.RESTART], replace(instance(InstanceStatus.SUSPENDED), grace_until=AT), [])


@each_case("kind", sorted(ALL))
def test_nothing_starts_a_gateway_that_an_operation_has_stopped(kind: OperationKind) -> None:
    if kind not in STOPPING:
        refuse_stopped(ADA, [unfinished(kind)])
        return
    with pytest.raises(RefusedError, match=rf"op-{kind} .* has not ended"):
        refuse_stopped(ADA, [unfinished(kind)])
