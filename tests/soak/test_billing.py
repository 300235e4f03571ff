"""Ten thousand events of subscriptions, a tenth of them twice and all in random order, end in the one right state."""

from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from tests.support.billing.many_subscriptions import Scale, trial
from tests.support.real.commands.command import local_world

pytestmark = pytest.mark.timeout(7200)

SCALE = Scale(users=100, events=10_000, batches=5)
SEED = 20261126


async def test_ten_thousand_events_end_in_the_one_right_state(tmp_path: Path) -> None:
    async with local_world(tmp_path / "home", driver="sim") as world:
        done = await trial(world, SCALE, SEED)
    table = Table("what", "how much", title=f"seed {SEED}")
    table.add_row("events, deliveries", f"{done.events}, {done.deliveries}")
    table.add_row("users, wrong", f"{SCALE.users}, {len(done.wrong)}")
    table.add_row("events by state", ", ".join(f"{count} {state}" for state, count in done.states.items()))
    table.add_row("operations", ", ".join(f"{count} {kind}" for kind, count in sorted(done.operations.items())))
    table.add_row("seconds", f"{done.seconds:.0f}")
    Console(width=150).print(table)
    assert done.wrong == {}
    assert set(done.states) == {"applied"}
