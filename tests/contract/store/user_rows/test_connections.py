"""Rows of connections, on either database: a state is used once, a service has one live connection."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from hermesops.model.connections.connection import Connection, ConnectionState
from hermesops.model.fleet.instance import Instance
from hermesops.store.registry.database import Database
from hermesops.store.user_rows.connections import UserConnections
from hermesops.store.user_rows.mcp_access import McpAccesses
from tests.support.real.stores.registries import TurnedClock

LIFE = timedelta(minutes=10)


@pytest.fixture
def rows(database: Database) -> UserConnections:
    return UserConnections(database)


def begun(rows: UserConnections, ada: Instance, state: str = "state", service: str = "gmail") -> Connection:
    connection = rows.begin(ada.user_id, ada.id, service, state=state, session="digest", life=LIFE)
    assert connection
    return connection


def moved(rows: UserConnections, before: Connection, *states: ConnectionState) -> Connection:
    for state in states:
        assert rows.move(before, state)
        after = rows.get(before.id)
        assert after
        before = after
    return before


def test_a_state_is_used_once(rows: UserConnections, ada: Instance) -> None:
    connection = begun(rows, ada)
    with ThreadPoolExecutor(6) as pool:
        taken = [each for each in pool.map(lambda _: rows.take("state"), range(6)) if each]
    assert [each.id for each in taken] == [connection.id]
    assert rows.take("other") is None


def test_a_late_state_is_none(rows: UserConnections, ada: Instance, clock: TurnedClock) -> None:
    begun(rows, ada)
    clock.turn(LIFE.total_seconds() + 1)
    assert rows.take("state") is None


def test_a_later_request_ends_the_one_before_and_no_linked_one(rows: UserConnections, ada: Instance) -> None:
    linked = moved(rows, begun(rows, ada), ConnectionState.CONFIRMED, ConnectionState.LINKED)
    first, second = begun(rows, ada, "one"), begun(rows, ada, "two")
    states = {each.id: each.state for each in rows.of_user(ada.user_id)}
    assert states == {
        linked.id: ConnectionState.LINKED,
        first.id: ConnectionState.REVOKING,
        second.id: ConnectionState.REQUESTED,
    }
    assert rows.take("one") is None
    assert not rows.got_link(first.id, "ca_1", first.link_expires_at)


def test_a_service_has_one_live_connection(rows: UserConnections, ada: Instance) -> None:
    older = moved(rows, begun(rows, ada), ConnectionState.CONFIRMED, ConnectionState.LINKED)
    newer = moved(rows, begun(rows, ada, "two"), ConnectionState.CONFIRMED)
    assert rows.move(newer, ConnectionState.LINKED)
    assert not rows.move(older, ConnectionState.EXPIRED)
    after = rows.get(older.id)
    assert after
    assert after.state is ConnectionState.REVOKING


def test_a_move_from_another_state_changes_nothing(rows: UserConnections, ada: Instance) -> None:
    connection = begun(rows, ada)
    rows.disconnect(ada.user_id, "gmail")
    assert not rows.move(connection, ConnectionState.CONFIRMED)
    assert not rows.move(replace(connection, id="00000000-0000-4000-8000-000000000000"), ConnectionState.CONFIRMED)


def test_only_an_ended_connection_is_dropped(rows: UserConnections, ada: Instance) -> None:
    connection = begun(rows, ada)
    rows.drop(connection.id)
    assert rows.get(connection.id)
    rows.disconnect(ada.user_id, "gmail")
    rows.drop(connection.id)
    assert rows.get(connection.id) is None


def test_of_two_processes_that_open_a_session_one_is_kept(database: Database, ada: Instance) -> None:
    accesses = McpAccesses(database)
    accesses.grant(ada.id)
    before = accesses.of_instance(ada.id)
    assert before
    assert accesses.keep_session(before, "one", "https://x.test/1", "d")
    assert not accesses.keep_session(before, "two", "https://x.test/2", "d")
    after = accesses.of_instance(ada.id)
    assert after
    assert (after.session, after.url) == ("one", "https://x.test/1")
