"""What the monitor tells of the users' half, from rows of either database: counts of users, and nothing of a user's."""

from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest

from hermesops.automation.monitor.metrics.figures import users_half_series
from hermesops.model.api_figures import RequestFigures
from hermesops.model.fleet.instance import Instance
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.store.registry.schema.user_tables import turns, user_connections
from hermesops.store.user_rows.api_figures import ApiFigures
from tests.support.real.stores.registries import TurnedClock, placed


@pytest.fixture
def database(registry: Registry, registry_url: str, clock: TurnedClock) -> Iterator[Database]:
    assert registry.actor
    database = Database(registry_url, clock=clock)
    yield database
    database.close()


def told(registry: Registry) -> dict[str, float]:
    """Figures by name and values of labels."""
    series = users_half_series(registry.users_half.read())
    return {
        " ".join([name, *(value for _, value in sorted(labels))]): figure for (name, labels), figure in series.items()
    }


def test_processes_that_write_are_summed_and_others_forgotten(
    registry: Registry, database: Database, clock: TurnedClock
) -> None:
    rows = ApiFigures(database)
    rows.put("p1", RequestFigures(users=10, slow_users=1, webhooks_taken=2))
    clock.turn(50)
    rows.put("p2", RequestFigures(users=5, slow_users=2, webhooks_refused=3))
    figures = told(registry)
    assert figures["hermesops_api_processes"] == 2
    assert (figures["hermesops_api_users all"], figures["hermesops_api_users slow"]) == (15, 3)
    assert (figures["hermesops_webhooks taken"], figures["hermesops_webhooks refused"]) == (2, 3)
    clock.turn(11)
    assert told(registry)["hermesops_api_users all"] == 5
    clock.turn(3700)
    rows.put("p3", RequestFigures())
    assert registry.users_half.read().processes == 1


def test_a_process_that_somebody_else_runs_writes_no_figure_without_a_bound(
    registry: Registry, database: Database
) -> None:
    ApiFigures(database).put("p1", RequestFigures(users=2**31 - 1, slow_users=-5))
    figures = told(registry)
    assert (figures["hermesops_api_users all"], figures["hermesops_api_users slow"]) == (1_000_000, 0)


def added(database: Database, instance: Instance, **values: object) -> None:
    with database.writing() as connection:
        row: dict[str, object] = {"id": str(uuid4()), "user_id": instance.user_id, "instance_id": instance.id}
        row |= {
            "state": "running",
            "conversation": uuid4().hex,
            "client_key": uuid4().hex,
            "created_at": database.now(connection),
        }
        connection.execute(turns.insert().values({**row, **values}))


def test_turns_without_a_process_are_counted_by_user(
    registry: Registry, database: Database, clock: TurnedClock
) -> None:
    ada, bob, cyd = (placed(registry, user) for user in ("ada", "bob", "cyd"))
    added(database, ada)
    added(database, ada, carried_until=clock() + timedelta(seconds=5))
    added(database, bob, carried_until=clock() + timedelta(seconds=300))
    added(database, cyd, ended_at=clock())
    clock.turn(59)
    assert told(registry)["hermesops_turns_orphaned_users"] == 0
    clock.turn(7)
    assert told(registry)["hermesops_turns_orphaned_users"] == 1
    half = registry.users_half.read()
    assert [turn.instance_id for turn in half.orphaned] == [ada.id, ada.id]


def test_connections_count_users_of_known_services_and_ends_of_a_day(
    registry: Registry, database: Database, clock: TurnedClock
) -> None:
    now = clock()
    for user, service, state, age_h in (
        ("ada", "gmail", "linked", 0),
        ("bob", "gmail", "expired", 1),
        ("cyd", "gmail", "expired", 25),
        ("ada", "no-such-service", "expired", 1),
        ("bob", "slack", "failed", 1),
    ):
        instance = placed(registry, user)
        row: dict[str, object] = {"id": str(uuid4()), "user_id": instance.user_id, "instance_id": instance.id}
        row |= {
            "service": service,
            "state": state,
            "created_at": now,
            "changed_at": now - timedelta(hours=age_h),
            "link_expires_at": now,
        }
        with database.writing() as connection:
            connection.execute(user_connections.insert().values(row))
    figures = {name: figure for name, figure in told(registry).items() if name.startswith("hermesops_connections")}
    assert figures == {
        "hermesops_connections_users gmail expired": 1,
        "hermesops_connections_users gmail linked": 1,
    }
