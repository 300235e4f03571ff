"""The state on a machine beside the newest backup of its instance."""

from datetime import UTC, datetime
from typing import Any

import pytest

from hermesops.agents.instances.remote.state_comparison import StateComparisons
from hermesops.errors import UnavailableError
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.state import Part, State
from tests.support.fakes.instances import ADA, MACHINE
from tests.support.fakes.parts import part

COPIED = State({"memory": Part(2, "aa")})
BACKUP = Backup("b" * 64, ADA.id, datetime(2026, 1, 1, tzinfo=UTC), "daily", 1, 1, COPIED)


def comparisons(state: State | None) -> StateComparisons:
    async def channel_to(_: Any) -> Any:  # noqa: ANN401 - stands for a channel
        return part(machine_id=MACHINE)

    async def state_of(machine_id: str) -> State | None:
        assert machine_id == MACHINE
        return state

    registry = part(backups=part(get=lambda instance_id, text: {(ADA.id, ""): BACKUP}[instance_id, text]))
    return StateComparisons(registry, part(channel_to=channel_to, state=state_of))


async def test_differences_are_those_from_the_newest_backup() -> None:
    same = await comparisons(COPIED).with_newest(ADA)
    assert (same.backup, same.differences) == (BACKUP, [])
    [difference] = (await comparisons(State({"memory": Part(3, "bb")})).with_newest(ADA)).differences
    assert "memory" in difference


async def test_a_machine_that_does_not_answer_is_no_difference() -> None:
    with pytest.raises(UnavailableError, match="does not answer"):
        await comparisons(None).with_newest(ADA)
