"""Mending a cell's state: under its lease, and written down."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from hermesops.agents.cells.stack.state_repair import CellStates
from hermesops.errors import RefusedError
from hermesops.infra.engine.embedded.state.stored_stacks import StoredStacks
from hermesops.model.ids import CellName
from hermesops.model.stack import StackRef, StateVersion
from tests.support.fakes.registry import FakeRegistry

CELL = CellName("cell1")
COPY = StateVersion("17", datetime(2026, 1, 2, tzinfo=UTC), "update succeeded", 3, current=False)


@dataclass
class Desk(FakeRegistry, StoredStacks):
    """Engine, audit and leases in one, noting what happened in which order."""

    did: list[str] = field(default_factory=list)
    refuses: bool = False

    async def state_versions(self, stack: StackRef, *, limit: int) -> Sequence[StateVersion]:
        self.did.append(f"list {limit} of {stack.project}/{stack.stack}")
        return [COPY]

    async def rollback_state(self, stack: StackRef, version: str = "") -> StateVersion:
        self.did.append(f"roll {stack.stack} back to {version}")
        if self.refuses:
            raise RefusedError("damaged")
        return COPY

    async def import_state(self, stack: StackRef, document: Mapping[str, Any]) -> None:
        self.did.append(f"import {document} into {stack.stack}")

    def audit_append(
        self,
        action: str,
        subject: str,
        *,
        why: str,
        before: Mapping[str, object] | None = None,
        after: Mapping[str, object] | None = None,
    ) -> None:
        self.did.append(f"audit {action} {subject} {why} {before} {after}")

    @asynccontextmanager
    async def hold_lease(self, subject: str) -> AsyncIterator[None]:
        self.did.append(f"lease {subject}")
        yield
        self.did.append("released")


def states(desk: Desk) -> CellStates:
    return CellStates(desk, desk, desk.hold_lease)


async def test_a_state_is_put_back_under_the_lease_and_written_down() -> None:
    desk = Desk()
    assert await states(desk).restore(CELL, "17", why="broken") == COPY
    assert desk.did == [
        "lease stack/fleet/cell1",
        "roll cell1 back to 17",
        "audit state_rolled_back cell/cell1 broken None {'version': '17', 'resources': 3}",
        "released",
    ]


async def test_what_was_refused_is_not_written_down_as_done() -> None:
    desk = Desk(refuses=True)
    with pytest.raises(RefusedError, match="damaged"):
        await states(desk).restore(CELL, "", why="broken")
    assert not [line for line in desk.did if line.startswith("audit")]


async def test_a_state_is_imported_under_the_lease_and_written_down() -> None:
    desk = Desk()
    await states(desk).take(CELL, {"version": 3}, why="moved")
    assert desk.did == [
        "lease stack/fleet/cell1",
        "import {'version': 3} into cell1",
        "audit state_imported cell/cell1 moved None None",
        "released",
    ]


async def test_listing_takes_no_lease() -> None:
    desk = Desk()
    assert await states(desk).versions(CELL, limit=5) == [COPY]
    assert desk.did == ["list 5 of fleet/cell1"]
