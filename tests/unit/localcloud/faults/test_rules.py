"""Faults happen as often as ordered, to whom they were ordered."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermesops.errors import UsageError
from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.faults.rules import FaultOrder, Faults
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import FaultRow


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "world.db")
    yield store
    store.close()


@pytest.fixture
def faults(store: Store) -> Faults:
    return Faults(store)


def test_a_fault_happens_as_often_as_ordered(faults: Faults) -> None:
    faults.add(FaultOrder(FaultKind.LOST_ANSWER, times=2))
    assert [faults.take(FaultKind.LOST_ANSWER) is not None for _ in range(3)] == [True, True, False]


def test_a_fault_waits_for_its_machine_method_and_path(faults: Faults) -> None:
    faults.add(FaultOrder(FaultKind.SERVER_ERROR, machine="edge", method="post", path="/machines/"))
    edge = ("id-1", "edge", "m-1")
    assert faults.take(FaultKind.SERVER_ERROR, ("id-2", "other"), method="POST", path="/machines/id-2") is None
    assert faults.take(FaultKind.SERVER_ERROR, edge, method="GET", path="/machines/id-1") is None
    assert faults.take(FaultKind.SERVER_ERROR, edge, method="POST", path="/images") is None
    assert faults.take(FaultKind.NOT_FOUND, edge, method="POST", path="/machines/id-1") is None
    assert faults.take(FaultKind.SERVER_ERROR, edge, method="POST", path="/machines/id-1") is not None
    assert faults.waiting() == []


def test_a_silence_is_cut_once_it_is_long_enough(faults: Faults) -> None:
    assert faults.shortest_silence() is None
    faults.add(FaultOrder(FaultKind.SILENCE_CUT, seconds=20))
    faults.add(FaultOrder(FaultKind.SILENCE_CUT, machine="edge", seconds=10))
    assert faults.shortest_silence() == 10
    assert faults.take(FaultKind.SILENCE_CUT, ("other",), silent_s=10) is None
    assert faults.take(FaultKind.SILENCE_CUT, ("edge",), silent_s=10) is not None
    assert faults.take(FaultKind.SILENCE_CUT, ("other",), silent_s=20) is not None
    assert faults.waiting() == []


def test_a_path_may_leave_parts_open(faults: Faults) -> None:
    faults.add(FaultOrder(FaultKind.SERVER_ERROR, path="/machines/*/reboot"))
    assert faults.take(FaultKind.SERVER_ERROR, path="/machines/id-1/start") is None
    assert faults.take(FaultKind.SERVER_ERROR, path="/machines/a/b/reboot") is None
    assert faults.take(FaultKind.SERVER_ERROR, path="/machines/id-1/reboot") is not None


def struck(store: Store, seed: int, draws: int = 200) -> list[bool]:
    faults = Faults(store)
    faults.clear()
    faults.add(FaultOrder(FaultKind.LOST_ANSWER, probability=0.3, seed=seed))
    return [faults.take(FaultKind.LOST_ANSWER) is not None for _ in range(draws)]


def test_the_same_seed_strikes_the_same_way_again(store: Store) -> None:
    first, again, other = struck(store, 7), struck(store, 7), struck(store, 8)
    assert first == again != other
    assert 30 <= sum(first) <= 90


def test_the_draws_go_on_where_a_server_died(store: Store) -> None:
    whole = struck(store, 7)
    head = struck(store, 7, 100)
    again = Faults(store)
    assert head + [again.take(FaultKind.LOST_ANSWER) is not None for _ in range(100)] == whole


def test_a_bounded_number_of_strikes_among_many_draws(faults: Faults) -> None:
    faults.add(FaultOrder(FaultKind.LOST_ANSWER, probability=0.5, times=3))
    assert sum(faults.take(FaultKind.LOST_ANSWER) is not None for _ in range(100)) == 3
    assert faults.waiting() == []


def test_a_fault_that_lasts_strikes_until_it_ends_by_itself(store: Store, faults: Faults) -> None:
    row = faults.add(FaultOrder(FaultKind.LOST_ANSWER, for_s=3600))
    assert all(faults.take(FaultKind.LOST_ANSWER) for _ in range(5))
    store.update(FaultRow, row.id, until="2026-01-01T00:00:00.000000Z")
    later = Faults(store)
    assert later.take(FaultKind.LOST_ANSWER) is None
    assert later.waiting() == []


def test_faults_outlive_the_server(store: Store) -> None:
    Faults(store).add(FaultOrder(FaultKind.NOT_FOUND, times=2))
    store.close()
    again = Store(store.path)
    assert [row.times for row in Faults(again).waiting()] == [2]
    again.close()


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ({"kind": "flood"}, "no fault 'flood'"),
        ({"kind": "lost-answer", "times": 0}, "at least once, not 0"),
        ({"kind": "server-error", "status": 404}, "404 is not a status of server-error"),
        ({"kind": "silence-cut", "seconds": 0}, "seconds are counted from one, not 0"),
        ({"kind": "lost-answer", "status": 500}, "500 is not a status of lost-answer"),
        ({"kind": "lost-answer", "probability": 0}, "a probability is above 0 and at most 1, not 0"),
        ({"kind": "lost-answer", "probability": 1.1}, "a probability is above 0 and at most 1, not 1.1"),
        ({"kind": "lost-answer", "for_s": 0}, "a fault lasts at least a second, not 0"),
    ],
)
def test_an_impossible_order_is_refused(faults: Faults, order: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        faults.add(FaultOrder(**order))
    assert faults.waiting() == []


def test_every_kind_says_what_it_does() -> None:
    assert all(kind.meaning for kind in FaultKind)
