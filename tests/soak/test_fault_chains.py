"""Every fault that real machines can have: fault, alert, runbook, end of the alert, verification; and the table."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.faults import chains
from tests.support.faults.chains import Chain
from tests.support.faults.messenger_table import MESSENGER_CHAINS
from tests.support.faults.platform_table import PLATFORM_CHAINS
from tests.support.faults.table import CHAINS, NOT_HAD
from tests.support.faults.users_table import USERS_CHAINS
from tests.support.faults.watched import watched_fleet

pytestmark = [pytest.mark.machines, pytest.mark.timeout(4 * 3600)]

CHOSEN = "HERMESOPS_TEST_FAULTS"
"""Names of faults, comma-separated; all without it."""


async def test_each_fault_makes_its_alert_fire_and_the_runbook_ends_both(tmp_path: Path) -> None:
    await _all_end_well(_chosen(CHAINS), tmp_path, has_platform=False)


async def test_each_fault_of_the_platforms_host_does_as_well(tmp_path: Path) -> None:
    await _all_end_well(_chosen(PLATFORM_CHAINS), tmp_path, has_platform=True)


async def test_each_fault_of_messengers_does_as_well(tmp_path: Path) -> None:
    await _all_end_well(_chosen(MESSENGER_CHAINS), tmp_path, has_platform=False, serves_users=True)


async def test_each_fault_of_the_users_half_does_as_well(tmp_path: Path) -> None:
    await _all_end_well(_chosen(USERS_CHAINS), tmp_path, has_platform=True, serves_users=True)


def _chosen(known: Sequence[Chain]) -> list[Chain]:
    names = os.environ.get(CHOSEN, "").split(",")  # noqa: TID251 - a choice of whoever runs the tests
    return [chain for chain in known if names == [""] or chain.fault in names]


async def _all_end_well(chosen: Sequence[Chain], home: Path, *, has_platform: bool, serves_users: bool = False) -> None:
    if not chosen:
        pytest.skip("none of its faults was chosen")
    async with watched_fleet(home, has_platform=has_platform, serves_users=serves_users) as fleet:
        outcomes = await chains.run_all(chosen, fleet, lambda line: print(line, file=sys.stderr, flush=True))  # noqa: T201
    chains.show(outcomes, NOT_HAD)
    assert {outcome.chain.fault: outcome.wrong for outcome in outcomes if outcome.wrong} == {}
