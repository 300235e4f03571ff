"""A thousand times to a release that migrates the state and back, under writes."""

import time
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from tests.support.releases.slot_cycles import cycle

pytestmark = pytest.mark.timeout(7200)

CYCLES = 1000


def test_what_was_accepted_is_there_once_after_a_thousand_cycles(tmp_path: Path) -> None:
    started = time.monotonic()
    done = cycle(tmp_path / "machine", CYCLES)
    table = Table("cycles", "accepted", "lost", "doubled", "problems", "seconds", title="Update and back, under writes")
    figures = (CYCLES, done.accepted, done.lost, done.doubled, len(done.problems), round(time.monotonic() - started))
    table.add_row(*map(str, figures))
    Console(width=120).print(table)
    assert done.problems == []
    assert done.accepted > CYCLES
    assert (done.lost, done.doubled) == (0, 0)
