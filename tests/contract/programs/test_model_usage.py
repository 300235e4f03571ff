"""What routers write of usage and read of accounts, in both databases and with the router's few rights."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from hermesops.errors import HermesError, UnavailableError
from hermesops.model.billing.model_usage import Spent, Usage
from hermesops.model.fleet.instance import Instance
from hermesops.model.plan import Plan
from hermesops.programs.model_router.accounts.books import Ledger
from hermesops.programs.model_router.accounts.ledger import PostgresLedger
from hermesops.store.registry import Registry
from hermesops.store.registry.open import migrate_registry
from hermesops.store.registry.repositories.credentials.model_usage import Budget, RouterLedger
from hermesops.store.registry.schema.role_grants import ROUTER
from tests.support.real.router.litellm_router import as_router
from tests.support.real.stores.postgresql import PostgreSql, make_role
from tests.support.real.stores.registries import placed, registry_at

TODAY = datetime.now(UTC).date()


def usage(ada: Instance, **changes: object) -> Usage:
    return replace(Usage(ada.id, TODAY, "claude-haiku", "anthropic", "200", 1, 20, 5, 36), **changes)  # type: ignore[arg-type]


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.postgres),
        pytest.param("router", marks=pytest.mark.postgres),
    ]
)
def ledger_at(request: pytest.FixtureRequest, tmp_path: object) -> tuple[str, Callable[[], Ledger]]:
    """A registry's URL, and what makes a ledger of it: by SQLAlchemy, or the router's own with its own role."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/registry.db"
        return url, lambda: RouterLedger(url)
    server: PostgreSql = request.getfixturevalue("postgresql_server")
    url = server.new_database()
    if request.param == "postgresql":
        return url, lambda: RouterLedger(url)
    make_role(url, ROUTER)
    return url, lambda: PostgresLedger(as_router(url))


@pytest.fixture
def both(ledger_at: tuple[str, Callable[[], Ledger]]) -> tuple[Registry, Ledger]:
    url, make = ledger_at
    return registry_at(url), make()


def test_a_batch_counts_once_however_often_it_arrives(both: tuple[Registry, Ledger]) -> None:
    registry, ledger = both
    ada, bob = placed(registry, "ada"), placed(registry, "bob")
    for _ in range(3):
        ledger.write("a" * 32, [usage(ada), usage(bob, outcome="429", input_tokens=0, output_tokens=0, micros=0)])
    ledger.write("b" * 32, [usage(ada)])
    rows = {row.instance_id: row for row in registry.model_usage.list(TODAY)}
    assert rows[ada.id] == usage(ada, requests=2, input_tokens=40, output_tokens=10, micros=72)
    assert rows[bob.id].requests == 1
    assert registry.model_usage.list(TODAY + timedelta(days=1)) == ()
    assert [row.instance_id for row in registry.model_usage.list(TODAY, instance_id=bob.id)] == [bob.id]


def test_accounts_have_floor_budget_and_what_was_used_this_month(both: tuple[Registry, Ledger]) -> None:
    registry, ledger = both
    ada, bob = placed(registry, "ada"), placed(registry, "bob", Plan.HEAVY)
    assert registry.model_usage.set_budgets({Plan.LIGHT: Budget(1000, 5)}, why="test")
    assert not registry.model_usage.set_budgets({Plan.LIGHT: Budget(1000, 5)}, why="test")
    before = TODAY.replace(day=1) - timedelta(days=1)
    ledger.write("a" * 32, [usage(ada), usage(ada, day=before), usage(ada, model="gpt-4o", provider="openai")])
    registry.model_tokens.revoke(bob.id, why="leaked")
    accounts = ledger.read()
    assert (accounts[ada.id].budget_tokens, accounts[ada.id].budget_micros) == (1000, 5)
    assert accounts[ada.id].spent == Spent(50, 72)
    assert (accounts[ada.id].floor, accounts[bob.id].floor) == (1, 2)
    assert (accounts[bob.id].budget_micros, accounts[bob.id].spent) == (None, Spent())


def test_old_batches_are_forgotten(both: tuple[Registry, Ledger]) -> None:
    registry, ledger = both
    ledger.write("a" * 32, [usage(placed(registry))])
    assert registry.model_usage.forget_batches() == 0


@pytest.mark.postgres
def test_the_router_may_do_nothing_else(postgresql_server: PostgreSql) -> None:
    url = postgresql_server.new_database()
    registry = registry_at(url)
    placed(registry)
    make_role(url, ROUTER)
    migrate_registry(url)  # of a database that was made before the role
    with psycopg.connect(as_router(url), autocommit=True) as router:
        for statement in (
            "SELECT api_server_key FROM instance_details",
            "SELECT settings FROM instance_details",
            "SELECT user_id FROM hermes_instances",
            "SELECT * FROM proxy_tokens",
            "SELECT * FROM audit",
            "UPDATE instance_details SET model_token_generation = 0",
            "UPDATE model_budgets SET micros = NULL",
            "DELETE FROM model_usage",
            "DELETE FROM model_usage_batches",
            "CREATE TABLE mine (x int)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                router.execute(statement.encode())


@pytest.mark.postgres
@pytest.mark.parametrize(
    "lost",
    [
        "SELECT (vm_ip) ON hermes_instances",
        "SELECT (model_token_floor) ON instance_details",
        "SELECT ON model_budgets",
        "UPDATE ON model_usage",
        "INSERT ON model_usage_batches",
    ],
)
def test_a_right_that_it_lost_is_given_back(postgresql_server: PostgreSql, lost: str) -> None:
    """Also one that an older version of the tables could not give."""
    url = postgresql_server.new_database()
    registry = registry_at(url)
    ada = placed(registry)
    make_role(url, ROUTER)
    migrate_registry(url)
    with psycopg.connect(url.replace("postgresql+psycopg", "postgresql"), autocommit=True) as owner:
        owner.execute(f"REVOKE {lost} FROM router".encode())
    ledger = PostgresLedger(as_router(url))
    with pytest.raises(UnavailableError, match="permission denied"):  # noqa: PT012 - either of the two needs it
        ledger.read()
        ledger.write("a" * 32, [usage(ada)])
    migrate_registry(url)
    ledger.write("b" * 32, [usage(ada)])
    assert ada.id in ledger.read()


@pytest.mark.postgres
def test_a_database_that_is_away_is_told_without_its_url(postgresql_server: PostgreSql) -> None:
    ledger = PostgresLedger(f"{postgresql_server.url('nowhere')}&password=canary")
    for call in (ledger.read, lambda: ledger.write("a" * 32, [])):
        with pytest.raises(UnavailableError) as caught:
            call()
        assert "canary" not in caught.value.message


def test_before_there_is_a_registry_usage_waits(tmp_path: object) -> None:
    with pytest.raises(HermesError, match="registry"):
        RouterLedger(f"sqlite:///{tmp_path}/registry.db").write("a" * 32, [])
