"""Killed at every write to registry, state or vendor, in the command or its plugin: nothing is lost or made twice."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from tests.support.crash import kill_acts, kill_points
from tests.support.real.commands.command import Command, local_world

pytestmark = pytest.mark.timeout(7200)


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("kills"), driver="sim") as command:
        yield command


@pytest.mark.parametrize("act", kill_acts.ACTS, ids=lambda act: act.name)
async def test_whatever_write_it_dies_at_the_same_command_finishes_it(
    world: Command, tmp_path: Path, act: kill_acts.Act
) -> None:
    writes = await kill_points.writes_of(world, act, tmp_path)
    points = kill_points.points_of(writes)
    cuts = await kill_points.cut(world, act, points, tmp_path)

    kinds = Counter(" ".join(writes[at - 1].split()[1:3]) for at in points)
    table = Table("command", "cuts", "before what", "finished", title="killed at every write")
    table.add_row(
        act.name,
        str(len(points)),
        ", ".join(f"{count} {kind}" for kind, count in kinds.items()),
        str(sum(not cut.wrong for cut in cuts)),
    )
    Console(width=160).print(table)
    assert [cut for cut in cuts if cut.wrong] == []
    assert await kill_points.check_whole(world) == ""
