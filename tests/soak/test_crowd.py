"""Two computers at random on one PostgreSQL and one vendor, killed and restarted: one machine a row, nothing twice."""

import time
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from tests.support.fleets.concurrent_operators import Crowd, Size
from tests.support.fleets.two_computers import two_computers

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(7200)]

FULL = Size(commands=150, kills=30, restarts=3, users=10, operators=2)
SEED = 20260101


async def test_whatever_two_computers_do_at_random_it_ends_well(tmp_path: Path) -> None:
    began = time.monotonic()
    async with two_computers(tmp_path) as shared:
        crowd = Crowd(shared, FULL, SEED, tmp_path)
        try:
            await crowd.work()
            continued = await crowd.finish()
            wrong = await crowd.contradictions()
            ordered = len(shared.orders())
        finally:
            _show_commands(crowd)
    table = Table(title=f"the whole program on two computers, seed {SEED}")
    figures = {
        "commands": len(crowd.told),
        "kill -9": crowd.kills,
        "restarts of PostgreSQL, of the vendor": f"{FULL.restarts}, {FULL.restarts}",
        "continued afterwards": len(continued),
        "machines ordered": ordered,
        "seconds": round(time.monotonic() - began),
        "contradictions": len(wrong),
    }
    for name in figures:
        table.add_column(name)
    table.add_row(*map(str, figures.values()))
    Console(width=140).print(table)
    assert wrong == []
    assert crowd.kills >= FULL.kills
    assert crowd.restarts == 2 * FULL.restarts


def _show_commands(crowd: Crowd) -> None:
    codes = sorted({ran.exit_code for ran in crowd.told})
    table = Table("command", *map(str, codes), title="how commands ended, by exit code")
    counts = Counter((_name(ran.arguments), ran.exit_code) for ran in crowd.told)
    for name in sorted({name for name, _ in counts}):
        table.add_row(name, *(str(counts[name, code] or "") for code in codes))
    Console(width=140).print(table)


def _name(words: tuple[str, ...]) -> str:
    return words[0] if words[0] == "provision" else " ".join(words[:2])
