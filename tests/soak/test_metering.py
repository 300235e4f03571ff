"""A thousand days of agents, metered while workers die and Stripe's answers are lost: three sums that are one."""

import contextlib
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from hermesops.model.billing.metering import Meter
from tests.support.billing.metered_days import Day, Trial, metered_days
from tests.support.real.stores.registries import TurnedClock, registry_at

pytestmark = pytest.mark.timeout(7200)

SEED = 20261129
AGENTS, DAYS = 40, 25
"""Less than the 31 days that an agent's sums are read for."""


async def test_stripes_sums_are_the_ledgers_over_a_thousand_days(tmp_path: Path) -> None:
    chance = random.Random(SEED)  # noqa: S311 - a repeatable trial
    trials = [await _agent(tmp_path / f"{number}.db", chance) for number in range(AGENTS)]
    table = Table("meter", "generated", "ledger", "Stripe", title=f"{AGENTS * DAYS} days, seed {SEED}")
    for meter in Meter:
        sums = (sum(getattr(trial, name)[meter] for trial in trials) for name in ("generated", "ledger", "at_stripe"))
        table.add_row(meter.value, *map(str, sums))
    Console(width=150).print(table)
    assert [trial for trial in trials if not trial.generated == trial.ledger == trial.at_stripe] == []


async def _agent(file: Path, chance: random.Random) -> Trial:
    clock = TurnedClock()
    clock.timestamp = datetime.now(UTC).replace(hour=1)
    url = f"sqlite:///{file}"
    days = [
        Day(
            is_running=chance.random() < 0.8,
            micros=chance.choice([0, 1, 10_000]),
            dies_at=chance.randint(0, 8),
            dies_after=chance.random() < 0.5,
            lost=chance.choice([0, 0, 0, 1, 2]),
            silent_h=chance.choice([0, 0, 0, 1, 20, 26]),
        )
        for _ in range(DAYS)
    ]
    with contextlib.closing(registry_at(url, clock=clock)) as registry:
        return await metered_days(registry, url, clock, days)
