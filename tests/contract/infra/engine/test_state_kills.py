"""``kill -9`` at some calls to the disk; ``make soak`` does it at every one."""

from pathlib import Path

import pytest

from tests.support.crash.state_kills import before, killed_and_repeated, points


@pytest.mark.turns(6)
@pytest.mark.parametrize(("change", "share"), [("create", 0.4), ("update", 0.7)])
async def test_the_same_command_finishes(tmp_path: Path, change: str, share: float) -> None:
    begun = before(tmp_path / "begun", change)
    point = round(share * points(begun, tmp_path / "counted", change))
    await killed_and_repeated(begun, tmp_path / "killed", change, point)
