"""What a machine may send of logs, counted by bodies."""

from http import HTTPStatus

import pytest

from hermesops.programs.ingest import log_share
from hermesops.programs.ingest.log_share import LogShares


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_machine_has_its_burst_and_then_its_rate_and_costs_no_other_anything() -> None:
    clock = Clock()
    shares = LogShares(per_s=10, most=1000, now_s=clock)
    assert [shares.admit("m-1", "500") for _ in range(3)] == [HTTPStatus.NO_CONTENT] * 2 + [HTTPStatus.UNAUTHORIZED]
    assert shares.admit("m-2", "500") == HTTPStatus.NO_CONTENT
    clock.now_s += 50
    assert [shares.admit("m-1", "500") for _ in range(2)] == [HTTPStatus.NO_CONTENT, HTTPStatus.UNAUTHORIZED]
    assert shares.refused == 2


def test_a_flood_of_a_week_has_no_more_than_its_share() -> None:
    clock, taken = Clock(), 0
    shares = LogShares(per_s=7000, most=16e6, now_s=clock)
    for _ in range(7 * 24 * 60):
        clock.now_s += 60
        taken += 500_000 * (shares.admit("m-1", "500000") == HTTPStatus.NO_CONTENT)
    assert taken <= 16e6 + 7000 * 7 * 86_400 + 500_000


@pytest.mark.parametrize("size", ["", "-1", "1e3", "\u0661", "9" * 11])
def test_a_body_of_unknown_size_is_refused(size: str) -> None:
    shares = LogShares(10, 1000, Clock())
    assert shares.admit("m-1", size) == HTTPStatus.FORBIDDEN
    assert shares.admit("", "10") == HTTPStatus.FORBIDDEN


def test_machines_without_any_use_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_share, "_MOST_KEPT", 3)
    clock = Clock()
    shares = LogShares(10, 1000, clock)
    for machine in ("m-1", "m-2", "m-3"):
        shares.admit(machine, "1000")
    clock.now_s += 5
    assert shares.admit("m-4", "1") == HTTPStatus.NO_CONTENT
    clock.now_s += 5
    assert shares.admit("m-1", "1000") == HTTPStatus.NO_CONTENT, "ninety of its thousand were replenished"
    clock.now_s += 1000
    for machine in ("m-5", "m-6"):
        assert shares.admit(machine, "1") == HTTPStatus.NO_CONTENT
    assert len(shares._used) == 2
