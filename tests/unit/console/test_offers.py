"""Pages offer no action that the rows of its subject refuse, by the checks of the commands."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from hermesops.agents.instances.requests.changes import InstanceRequests
from hermesops.agents.instances.requests.eligibility import ENDS, Requirement
from hermesops.agents.instances.requests.termination import Termination
from hermesops.agents.rollout.operators.service import RolloutCommands
from hermesops.agents.rollout.ports import Records
from hermesops.console.actions import offers
from hermesops.console.actions.action import About
from hermesops.console.actions.table import about
from hermesops.model.fleet.health import Condition
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import OperationId
from hermesops.model.operation import Lease, Operation, OperationKind, OperationStatus
from hermesops.model.plan import Plan
from hermesops.model.rollout.records import RolloutState
from hermesops.store.operations.directory import OperationHistory
from tests.support.fakes.instances import ADA
from tests.support.fakes.parts import part
from tests.support.rollouts.rows import ROLLOUT

AT = datetime(2026, 1, 1, tzinfo=UTC)
EVERY = set(about(About.INSTANCE)) - {"accept-size"}


def unfinished(kind: OperationKind, status: OperationStatus = OperationStatus.RUNNING) -> Operation:
    return Operation(OperationId("o"), kind, "instance/x", ADA.id, {}, status, "", "", AT, AT)


def instance(status: InstanceStatus, *, ends_in: timedelta | None = None) -> Instance:
    return replace(ADA, status=status, grace_until=AT + ends_in if ends_in else None)


RUNNING, SUSPENDED = instance(InstanceStatus.RUNNING), instance(InstanceStatus.SUSPENDED)


@pytest.mark.parametrize(
    ("of", "operations", "condition", "offered"),
    [
        (RUNNING, [], Condition.HEALTHY, EVERY - {"resume", "undo-termination"}),
        (RUNNING, [], Condition.DOWN, EVERY - {"undo-termination"}),
        (RUNNING, [], None, EVERY - {"undo-termination"}),
        (SUSPENDED, [], None, {"suspend", "resume", "back-up", "restore", "terminate"}),
        (
            instance(InstanceStatus.SUSPENDED, ends_in=timedelta(days=7)),
            [],
            None,
            {"suspend", "resume", "back-up", "restore", "terminate", "undo-termination"},
        ),
        (RUNNING, [OperationKind.TERMINATE], Condition.HEALTHY, {"terminate", "back-up", "undo-termination"}),
        (
            RUNNING,
            [OperationKind.RESTART],
            Condition.HEALTHY,
            {*["restart", "provision", "terminate", "back-up"]} | {"configure", "settings-back", "restore"},
        ),
        (
            instance(InstanceStatus.PROVISIONING),
            [],
            None,
            {"restart", "provision", "resume", "restore", "configure", "settings-back", "terminate"},
        ),
        (instance(InstanceStatus.TERMINATED), [], None, set()),
    ],
)
def test_an_agents_page_offers_what_its_rows_allow(
    of: Instance, operations: list[OperationKind], condition: Condition | None, offered: set[str]
) -> None:
    assert set(offers.of_instance(of, [unfinished(kind) for kind in operations], condition)) == offered


class AskedError(Exception):
    """The requirement that a request asks for."""


def requests() -> InstanceRequests:
    def eligible(_user: str, requirement: Requirement) -> Any:  # noqa: ANN401 - a context that is never entered
        raise AskedError(requirement)

    return InstanceRequests(part(), part(), part(), part(), part(), part(eligible=eligible))


WHY = "a test"
REQUESTS: tuple[tuple[str, Callable[[InstanceRequests], Any]], ...] = (
    ("restart", lambda service: service.restart("ada")),
    ("reboot", lambda service: service.reboot("ada", reason=WHY)),
    ("suspend", lambda service: service.suspend("ada", keep=None, reason=WHY)),
    ("resume", lambda service: service.resume("ada", reason=WHY)),
    ("undo-termination", lambda service: service.resume("ada", undo=True, reason=WHY)),
    ("move", lambda service: service.move("ada", cell="cell2", region="", reason=WHY)),
    ("resize", lambda service: service.resize("ada", Plan.HEAVY, onto_new_machine=False, reason=WHY)),
    ("resize", lambda service: service.resize("ada", Plan.HEAVY, onto_new_machine=True, reason=WHY)),
    ("restore", lambda service: service.restore("ada", snapshot="", reason=WHY)),
    ("configure", lambda service: service.configure("ada", None, reason=WHY)),
    ("settings-back", lambda service: service.configure("ada", None, reason=WHY)),
    ("terminate", lambda service: service.end("ada", Termination(at_once=True, keeps_backup=True), reason=WHY)),
    ("terminate", lambda service: service.end("ada", Termination(at_once=False, keeps_backup=True), reason=WHY)),
)


async def test_pages_and_requests_judge_by_the_same_requirements() -> None:
    required: dict[str, set[Requirement]] = {}
    for name, request in REQUESTS:
        with pytest.raises(AskedError) as refused:
            await request(requests())
        required.setdefault(name, set()).add(refused.value.args[0])
    assert set(offers.REQUIREMENTS) == set(about(About.INSTANCE))
    for name, requirements in required.items():
        assert requirements <= set(offers.REQUIREMENTS[name]), name
    assert {name: set(offers.REQUIREMENTS[name]) - required[name] for name in required if name != "restore"} == {
        name: set() for name in required if name != "restore"
    }
    assert next(iter(required["undo-termination"])).cancels == ENDS


@pytest.mark.parametrize("state", RolloutState)
def test_a_rollouts_page_offers_what_its_state_allows(state: RolloutState) -> None:
    commands = RolloutCommands(part(), part(now=lambda: AT))
    offered = set(offers.of_rollout(commands, Records(replace(ROLLOUT, state=state), (), ())))
    steering = {
        RolloutState.PENDING: {"pause", "resume", "abort"},
        RolloutState.RUNNING: {"pause", "resume", "promote", "abort"},
        RolloutState.PAUSED: {"resume", "promote", "abort"},
        RolloutState.HALTED: {"promote", "abort"},  # no target has failed
    }
    last = set() if state is RolloutState.ROLLED_BACK else {"roll-back"}
    if state in {RolloutState.ABORTING, RolloutState.ROLLING_BACK}:
        last |= {"resume"}  # a process that died is followed
    assert offered == steering.get(state, set()) | last


def test_an_operations_page_offers_no_abandoning_while_a_process_works_on_it() -> None:
    def offered(status: OperationStatus, lease: Lease | None) -> set[str]:
        row = unfinished(OperationKind.RESTART, status)
        return set(offers.of_operation(OperationHistory(row, (), lease, (), SimpleNamespace())))  # type: ignore[arg-type]

    held = Lease("instance/x", "another computer:1:x", 1, 0, AT)
    assert offered(OperationStatus.RUNNING, None) == {"continue", "abandon"}
    assert offered(OperationStatus.RUNNING, held) == {"continue"}
    assert offered(OperationStatus.DONE, None) == set()
