"""``monitor --once`` makes its pass, follows another monitor, or fails with the cause."""

import asyncio

import pytest

from hermesops.automation.monitor.runner import Monitor
from hermesops.errors import HermesError, NotWrittenError
from hermesops.model.operation import MONITOR_SUBJECT, Lease, LeaseHeldError
from tests.support.worlds.watched_fleet import WatchedFleet


def monitor_whose_lease(error: HermesError, monkeypatch: pytest.MonkeyPatch) -> Monitor:
    fleet = WatchedFleet.of(1)

    def take(subject: str, holder: str, *, over: str = "") -> Lease:
        assert (subject, bool(holder), over) == (MONITOR_SUBJECT, True, "")
        raise error

    monkeypatch.setattr(fleet.registry, "leases_take", take)
    return fleet.monitor()


def test_a_registry_that_takes_no_write_is_no_other_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = monitor_whose_lease(NotWrittenError("registry.db cannot be written"), monkeypatch)
    with pytest.raises(NotWrittenError, match=r"registry\.db"):
        asyncio.run(monitor.run(once=True))


def test_another_leader_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = monitor_whose_lease(LeaseHeldError("held", holder="host:7"), monkeypatch)
    assert asyncio.run(monitor.run(once=True)).follows == "host:7"
