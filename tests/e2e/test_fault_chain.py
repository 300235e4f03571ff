"""A fault of the table with each turn, another one with each commit; ``tests/soak/test_fault_chains.py`` has all."""

from pathlib import Path

import pytest

from tests.support.faults import chains
from tests.support.faults.chains import Chain
from tests.support.faults.table import CHAINS
from tests.support.faults.watched import WatchedFleet, watched_fleet
from tests.support.suite.shard import shard

pytestmark = [pytest.mark.machines, pytest.mark.turns(300), pytest.mark.timeout(1800)]

TRIED = (
    "gateway-stopped",
    "gateway-killed",
    "unit-failed",
    "reports-stopped",
    "exporter-stopped",
    "figures-stand-still",
    "machine-stopped",
    "machine-rebooted",
    "certificate-revoked",
    "certificate-ends",
    "model-token-ends",
    "managed-files-lost",
    "memory-cap-reached",
    "sshd-left-open",
    "agent-suspended",
)
"""Those that take less than four minutes."""


async def test_a_fault_makes_its_alert_fire_and_the_runbook_ends_both(tmp_path: Path) -> None:
    name = TRIED[shard() % len(TRIED)]
    [chain] = [known for known in CHAINS if known.fault == name]
    async with watched_fleet(tmp_path) as fleet:
        outcome = await chains.run(chain, fleet)
        assert outcome.wrong == [], chains.line(outcome)
        await _is_on_record(fleet, chain)


async def _is_on_record(fleet: WatchedFleet, chain: Chain) -> None:
    """An operator finds the agent's figures, its lines, the alert and its repair afterwards, without asking it."""
    top = await fleet.ok("fleet", "top")
    assert chain.user in {instance["user"] for instance in top["instances"]}
    logs = await fleet.ok("instance", "logs", chain.user, "--since", "1h")
    assert logs["source"] == "monitoring"
    assert logs["lines"]
    timeline = str(await fleet.ok("instance", "timeline", chain.user))
    assert chain.alert in timeline
    assert chain.runbook == "none" or "runbook_run" in timeline
