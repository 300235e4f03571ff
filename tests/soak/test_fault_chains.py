"""Every fault that real machines can have: fault, alert, runbook, end of the alert, verification; and the table."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.faults import chains
from tests.support.faults.table import CHAINS, NOT_HAD
from tests.support.faults.watched import watched_fleet

pytestmark = [pytest.mark.machines, pytest.mark.timeout(4 * 3600)]

CHOSEN = "HERMESOPS_TEST_FAULTS"
"""Names of faults, comma-separated; all without it."""


async def test_each_fault_makes_its_alert_fire_and_the_runbook_ends_both(tmp_path: Path) -> None:
    names = os.environ.get(CHOSEN, "").split(",")  # noqa: TID251 - a choice of whoever runs the tests
    chosen = [one for one in CHAINS if names == [""] or one.fault in names]
    async with watched_fleet(tmp_path) as fleet:
        outcomes = await chains.run_all(chosen, fleet, lambda line: print(line, file=sys.stderr, flush=True))  # noqa: T201
    chains.show(outcomes, NOT_HAD)
    assert {one.chain.fault: one.wrong for one in outcomes if one.wrong} == {}
