"""``kill -9`` before every call to the disk that a change of a stack's state makes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from tests.support.crash.programs.dying_stack_change import CHANGES
from tests.support.crash.state_kills import before, killed_and_repeated, points


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    table = Table("change", "points", title="killed at every call to the disk: nothing lost, nothing made twice")
    yield table
    Console().print(table)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("change", CHANGES)
async def test_the_same_command_finishes(tmp_path: Path, table: Table, change: str) -> None:
    begun = before(tmp_path / "begun", change)
    count = points(begun, tmp_path / "counted", change)
    for point in range(1, count + 1):
        await killed_and_repeated(begun, tmp_path / str(point), change, point)
    table.add_row(change, str(count))
