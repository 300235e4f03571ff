"""A run of a stack keeps the reason of the request that opened it, and is the same run for any other reason."""

from pathlib import Path
from typing import Any

from hermesops.agents.cells.service import StackUps
from hermesops.agents.cells.workflow import UpRequest
from hermesops.model.operation import OperationStatus
from tests.support.fakes.parts import part
from tests.support.real.stores.registries import placed, registry_at


async def test_runs_of_a_cell_for_other_reasons_are_one(tmp_path: Path) -> None:
    registry, unused = registry_at(f"sqlite:///{tmp_path / 'registry.db'}"), part()
    ada, parts = placed(registry), (unused, unused, unused, unused)
    ups = StackUps(unused, registry, *parts, lambda _: None)
    first = await ups.leave(UpRequest(ada.cell, reason="a test (console request 1)"))
    again: list[Any] = [await ups.leave(UpRequest(ada.cell, reason=reason)) for reason in (None, "another")]
    assert [row.id for row in again] == [first.id, first.id]
    assert registry.operations.get(first.id).intent["reason"] == "a test (console request 1)"
    other = await ups.leave(UpRequest(ada.cell, only=frozenset({ada.machine_name})))
    assert "reason" not in other.intent
    assert registry.operations.get(first.id).status is OperationStatus.ABANDONED
