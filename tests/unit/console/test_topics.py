"""Shapes of pages: what waits for a person, and what actions write."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from hermesops.agents.rollout.ports import Records
from hermesops.agents.rollout.steps.stage_entry import NEEDS_APPROVAL
from hermesops.console.actions.action import About, ActionRequest, Subject
from hermesops.console.actions.table import find
from hermesops.console.topics import READERS
from hermesops.errors import UsageError
from hermesops.model.operation import OperationStatus
from hermesops.model.rollout.records import Rollout, RolloutState
from tests.support.rollouts.rows import ROLLOUT

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def with_rollout(row: Rollout) -> Any:  # noqa: ANN401 - a container
    stages = [SimpleNamespace(number=number, batch=batch) for number, batch in ((1, 1), (2, 0), (3, 0))]
    rollouts = SimpleNamespace(
        list=lambda *, unfinished: (row,) if unfinished else (),
        records=lambda _: Records(row, (), ()),
        progress=lambda _: SimpleNamespace(stages=stages),
    )
    return SimpleNamespace(rollouts=rollouts)


def test_a_stage_waits_for_a_second_operator_only_while_the_rollout_is_paused_for_that() -> None:
    asks = replace(ROLLOUT, state=RolloutState.PAUSED, reason=f"stage 2 {NEEDS_APPROVAL}")
    [waiting] = READERS["approvals"](with_rollout(asks), "")["rollouts"]
    assert (waiting["id"], waiting["stage"]) == (ROLLOUT.id, 2)
    for other in (replace(asks, state=RolloutState.RUNNING), replace(asks, reason="lunch")):
        assert READERS["approvals"](with_rollout(other), "")["rollouts"] == []


async def test_a_freeze_of_a_page_ends_as_it_says() -> None:
    written: list[Any] = []
    freezes = SimpleNamespace(set=lambda **values: written.append(values))
    connected: Any = SimpleNamespace(container=SimpleNamespace(freezes=freezes, now=lambda: NOW))
    freeze = find(About.FLEET, "freeze")
    assert freeze is not None
    request = ActionRequest(Subject("", "", "local", ""), {"until": "12h"}, "quarter end")
    assert (await freeze.work.begin(connected, request)).page == "rollouts"
    assert written == [{"begins_at": None, "ends_at": NOW + timedelta(hours=12), "reason": "quarter end"}]


def test_a_batch_names_the_instances_of_operations_that_failed() -> None:
    rows = {
        name: SimpleNamespace(
            id=name,
            kind=SimpleNamespace(value="restart"),
            subject=f"instance/{name}",
            status=status,
            step="",
            outcome="",
            updated_at=NOW,
            created_at=NOW,
            instance_id=f"of-{name}",
            intent={},
        )
        for name, status in (("a", OperationStatus.DONE), ("b", OperationStatus.FAILED), ("c", OperationStatus.RUNNING))
    }
    instances = SimpleNamespace(get=lambda _: SimpleNamespace(title="dan"))
    container: Any = SimpleNamespace(operation_directory=SimpleNamespace(get=rows.__getitem__), instances=instances)
    batch = READERS["batch"](container, "a,b,c?d")
    assert (batch["failed"], batch["refused"]) == (["of-b"], [{"id": "d", "user": "dan"}])
    with pytest.raises(UsageError, match="at most 50 operations"):
        READERS["batch"](container, ",".join("a" * 51))
