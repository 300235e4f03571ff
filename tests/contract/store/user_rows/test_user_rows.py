"""Rows of the users' half, on either database: one open turn, one carrier, one answer; sealed, and gone in time."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from hermesops.access.secrets.keyring.key_ring import KeyRing
from hermesops.model.billing.user_request import RequestKind
from hermesops.model.chat.turn import Turn, TurnState
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import UserId
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.store.user_rows.approvals import MOST, TurnApprovals
from hermesops.store.user_rows.files import KEPT as FILES_KEPT
from hermesops.store.user_rows.files import ChatFiles
from hermesops.store.user_rows.requests import MOST_OPEN, UserRequests
from hermesops.store.user_rows.sessions import LIFE, WebSessions
from hermesops.store.user_rows.turns import KEPT, Turns
from tests.support.real.stores.registries import KEYS, TurnedClock, placed, registry_at

LEASE = timedelta(seconds=30)


@pytest.fixture
def turns(database: Database) -> Turns:
    return Turns(database, KEYS)


def added(turns: Turns, ada: Instance, key: str = "k", conversation: str = "main") -> Turn:
    turn = turns.add(ada.user_id, ada.id, conversation, key, "hello")
    assert turn is not None
    return turn


def test_of_many_that_begin_at_once_one_turn_begins(turns: Turns, ada: Instance) -> None:
    with ThreadPoolExecutor(6) as pool:
        same = list(pool.map(lambda _: turns.add(ada.user_id, ada.id, "main", "k", "hello"), range(6)))
        other = list(pool.map(lambda n: turns.add(ada.user_id, ada.id, "main", f"k{n}", "hello"), range(6)))
    assert len({turn.id for turn in same if turn}) == 1
    assert None not in same
    assert other == [None] * 6
    assert [(row.name, row.open_turn) for row in turns.conversations(ada.user_id)] == [("main", added(turns, ada).id)]


def test_rows_that_are_added_at_once_are_no_more_than_may_be(database: Database, ada: Instance) -> None:
    files, requests = ChatFiles(database, KEYS), UserRequests(database, KEYS)

    def add_file(number: int) -> object:
        return files.add(ada.user_id, f"{number}", "text/plain", b"x", most=5, most_bytes=100)

    def add_request(number: int) -> object:
        return requests.add(ada.user_id, RequestKind.CANCEL, f"k{number}", {"origin": ""})

    with ThreadPoolExecutor(8) as pool:
        assert sum(file is not None for file in pool.map(add_file, range(40))) == 5
        assert sum(request is not None for request in pool.map(add_request, range(40))) == MOST_OPEN


def test_a_turn_has_one_carrier_until_its_lease_ends(turns: Turns, ada: Instance, clock: TurnedClock) -> None:
    turn = added(turns, ada)
    first = turns.carry(turn.id, "one", LEASE)
    assert first is not None
    assert first.carries == 1
    assert turns.carry(turn.id, "two", LEASE) is None
    clock.turn(20)
    kept = turns.carry(turn.id, "one", LEASE)
    assert kept is not None
    assert kept.carries == 1
    clock.turn(31)
    assert turns.orphans() == (turn.id,)
    second = turns.carry(turn.id, "two", LEASE)
    assert second is not None
    assert second.carries == 2
    # Whatever the first one still does, it changes nothing.
    assert turns.sending(turn.id, "one", 5) is None
    assert turns.running(turn.id, "one", "run") is None
    assert turns.end(turn.id, "one", TurnState.DONE) is None
    turns.release(turn.id, "one")
    assert turns.orphans() == ()
    ended = turns.end(turn.id, "two", TurnState.FAILED, "x" * 900)
    assert ended is not None
    assert (ended.message, len(ended.detail)) == ("", 500)
    assert turns.carry(turn.id, "two", LEASE) is None
    assert turns.end(turn.id, "two", TurnState.DONE) is None


def test_a_turn_whose_key_is_gone_can_still_be_ended(database: Database, turns: Turns, ada: Instance) -> None:
    turn, elsewhere = added(turns, ada), Turns(database, KeyRing("k2", {"k2": bytes(32)}))
    carried = elsewhere.carry(turn.id, "one", LEASE)
    assert carried is not None
    assert (carried.message, carried.is_lost) == ("", True)
    assert elsewhere.end(turn.id, "one", TurnState.FAILED, "lost") is not None


def test_only_the_oldest_request_that_waits_is_answered(
    database: Database, turns: Turns, ada: Instance, clock: TurnedClock
) -> None:
    approvals, turn = TurnApprovals(database, KEYS, timedelta(seconds=55)), added(turns, ada)
    assert [approvals.ask(turn.id, {"command": name}) for name in ("a", "b", "c")] == [1, 2, 3]
    assert not approvals.answer(turn.id, 2, "once")
    assert approvals.answer(turn.id, 1, "deny")
    assert not approvals.answer(turn.id, 1, "once")
    assert approvals.answer(turn.id, 2, "once")
    approvals.unanswered(turn.id, 2)  # the agent did not get it
    assert approvals.answer(turn.id, 2, "session")
    clock.turn(56)
    assert not approvals.answer(turn.id, 3, "once")
    assert approvals.ask(turn.id, {"command": "d"}) == 4
    assert approvals.answer(turn.id, 4, "once")
    shown = [
        (each.number, each.request.get("command"), each.is_waiting, each.choice) for each in approvals.list(turn.id)
    ]
    assert shown == [(1, "a", False, "deny"), (2, "b", False, "session"), (3, "c", False, ""), (4, "d", False, "once")]
    approvals.forget(turn.id)
    assert {each.number: dict(each.request) for each in approvals.list(turn.id)} == {1: {}, 2: {}, 3: {}, 4: {}}


def test_a_request_waits_from_the_moment_at_which_the_agent_made_it(
    database: Database, turns: Turns, ada: Instance, clock: TurnedClock
) -> None:
    """An agent that gave a request up waits for the next one, and would take an answer for that."""
    approvals, turn = TurnApprovals(database, KEYS, timedelta(seconds=55)), added(turns, ada)
    numbers = [approvals.ask(turn.id, {}, clock() - timedelta(seconds=age)) for age in (56, 55, 54, -30)]
    assert numbers == [None, None, 1, 2]
    clock.turn(2)
    assert not approvals.answer(turn.id, 1, "once")
    clock.turn(54)  # of a clock that is ahead nothing is won
    assert not approvals.answer(turn.id, 2, "once")


def test_a_turn_keeps_so_many_requests_and_no_more(database: Database, turns: Turns, ada: Instance) -> None:
    approvals, turn = TurnApprovals(database, KEYS, timedelta(seconds=55)), added(turns, ada)
    assert [approvals.ask(turn.id, {}) for _ in range(MOST + 2)] == [*range(1, MOST + 1), None, None]
    assert len(approvals.list(turn.id)) == MOST


def test_a_file_goes_with_one_message_of_its_user(
    registry: Registry, database: Database, turns: Turns, ada: Instance, clock: TurnedClock
) -> None:
    files, grace = ChatFiles(database, KEYS), placed(registry, "grace")

    def upload(user: UserId = ada.user_id, *, most: int = 3, most_bytes: int = 100) -> str | None:
        file = files.add(user, "a.txt", "text/plain", b"x" * 40, most=most, most_bytes=most_bytes)
        return file.id if file else None

    hers, theirs = upload(), upload(grace.user_id)
    assert hers
    assert theirs
    assert files.waiting(ada.user_id, [hers, theirs]) == files.waiting(ada.user_id, [hers]) != ()
    assert turns.add(ada.user_id, ada.id, "main", "k", "hello", [hers, theirs]) is None
    turn = turns.add(ada.user_id, ada.id, "main", "k", "hello", [hers])
    assert turn is not None
    assert [file.id for file in files.of_turn(turn.id)] == [hers]
    assert turns.add(ada.user_id, ada.id, "other", "k2", "hello", [hers]) is None
    assert upload() is not None
    assert upload() is None  # bytes
    assert upload(most_bytes=1000) is not None
    assert upload(most_bytes=1000) is None  # files
    turns.carry(turn.id, "one", LEASE)
    turns.end(turn.id, "one", TurnState.DONE)
    assert files.of_turn(turn.id) == ()
    clock.turn(FILES_KEPT.total_seconds() + 1)
    assert upload() is not None
    assert files.waiting(grace.user_id, [theirs]) == ()


def test_old_turns_are_forgotten_with_all_that_belongs_to_them(
    database: Database, turns: Turns, ada: Instance, clock: TurnedClock
) -> None:
    approvals = TurnApprovals(database, KEYS, timedelta(seconds=55))
    old, open_turn = added(turns, ada), added(turns, ada, "k2", "other")
    approvals.ask(old.id, {})
    turns.carry(old.id, "one", LEASE)
    turns.end(old.id, "one", TurnState.DONE)
    assert turns.forget() == 0
    clock.turn(KEPT.total_seconds() + 1)
    assert turns.forget() == 1
    assert turns.get(ada.user_id, old.id) is None
    assert turns.get(ada.user_id, open_turn.id) is not None
    turns.forget_conversation(ada.user_id, "other")
    assert turns.get(ada.user_id, open_turn.id) is not None


def test_sessions_end_by_themselves_and_a_user_has_twenty(
    database: Database, ada: Instance, clock: TurnedClock
) -> None:
    sessions = WebSessions(database, KEYS)
    cookies = []
    for number in range(21):
        cookies.append(sessions.add(ada.user_id, {"access": str(number)}))
        clock.turn(1)
    assert sessions.find(cookies[0]) is None
    last = sessions.find(cookies[20])
    assert last is not None
    assert (last.user_id, last.tokens) == (ada.user_id, {"access": "20"})
    assert sessions.find("x" * 43) is None
    clock.turn(LIFE.total_seconds())
    assert sessions.find(cookies[20]) is None


def test_rows_go_to_the_registry_that_was_restored_meanwhile(tmp_path: Path, clock: TurnedClock) -> None:
    file = tmp_path / "registry.db"
    registry = registry_at(f"sqlite:///{file}", clock=clock)
    ada, database = placed(registry), Database(f"sqlite:///{file}", clock=clock)
    turns = Turns(database, KEYS)
    first = added(turns, ada)
    registry.close()
    with closing(sqlite3.connect(file)) as old, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        old.backup(copy)
    for end in ("", "-wal", "-shm"):
        Path(f"{file}{end}").rename(tmp_path / f"aside.db{end}")
    (tmp_path / "copy.db").rename(file)
    second = added(turns, ada, "k2", "other")
    database.close()
    with closing(sqlite3.connect(file)) as restored:
        ids = {UUID(row[0]) for row in restored.execute("SELECT id FROM turns")}
    assert ids == {UUID(first.id), UUID(second.id)}
