"""Faults happen as often as ordered, to whom they were ordered."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermesops.errors import UsageError
from hermesops.localcloud.faults import FaultKind, Faults
from hermesops.localcloud.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "world.db")
    yield made
    made.close()


@pytest.fixture
def faults(store: Store) -> Faults:
    return Faults(store)


def test_a_fault_happens_as_often_as_ordered(faults: Faults) -> None:
    faults.add(FaultKind.LOST_ANSWER, times=2)
    assert [faults.take(FaultKind.LOST_ANSWER) is not None for _ in range(3)] == [True, True, False]


def test_a_fault_waits_for_its_machine_method_and_path(faults: Faults) -> None:
    faults.add(FaultKind.SERVER_ERROR, machine="edge", method="post", path="/machines/")
    edge = ("id-1", "edge", "m-1")
    assert faults.take(FaultKind.SERVER_ERROR, ("id-2", "other"), method="POST", path="/machines/id-2") is None
    assert faults.take(FaultKind.SERVER_ERROR, edge, method="GET", path="/machines/id-1") is None
    assert faults.take(FaultKind.SERVER_ERROR, edge, method="POST", path="/images") is None
    assert faults.take(FaultKind.NOT_FOUND, edge, method="POST", path="/machines/id-1") is None
    assert faults.take(FaultKind.SERVER_ERROR, edge, method="POST", path="/machines/id-1") is not None
    assert faults.waiting() == []


def test_a_silence_is_cut_once_it_is_long_enough(faults: Faults) -> None:
    assert faults.shortest_silence() is None
    faults.add(FaultKind.SILENCE_CUT, seconds=20)
    faults.add(FaultKind.SILENCE_CUT, machine="edge", seconds=10)
    assert faults.shortest_silence() == 10
    assert faults.take(FaultKind.SILENCE_CUT, ("other",), silent_s=10) is None
    assert faults.take(FaultKind.SILENCE_CUT, ("edge",), silent_s=10) is not None
    assert faults.take(FaultKind.SILENCE_CUT, ("other",), silent_s=20) is not None
    assert faults.waiting() == []


def test_faults_outlive_the_server(store: Store) -> None:
    Faults(store).add(FaultKind.NOT_FOUND, times=2)
    store.close()
    again = Store(store.path)
    assert [row.times for row in Faults(again).waiting()] == [2]
    again.close()


@pytest.mark.parametrize("order", [{"kind": "flood"}, {"kind": "lost-answer", "times": 0},
                                   {"kind": "server-error", "status": 404},
                                   {"kind": "silence-cut", "seconds": 0}])  # fmt: skip
def test_an_impossible_order_is_refused(faults: Faults, order: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        faults.add(**order)
    assert faults.waiting() == []


def test_every_kind_says_what_it_does() -> None:
    assert all(kind.meaning for kind in FaultKind)
