"""A database whose connections all wait, as those of a server that stands still, is one that does not answer."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from hermesops.errors import UnavailableError
from hermesops.store.registry.database import Database


def test_a_statement_that_waits_for_anothers_lock_is_ended(registry_url: str) -> None:
    holding, waiting = Database(registry_url), Database(registry_url, statement_s=0.2)
    if holding.is_sqlite:
        pytest.skip("SQLite's readers wait for nobody")
    with holding.writing() as connection:
        connection.execute(sa.text("CREATE TABLE held (id int)"))

    def read() -> None:
        with waiting.reading() as connection:
            connection.execute(sa.text("SELECT * FROM held"))

    with holding.writing() as connection:
        connection.execute(sa.text("LOCK TABLE held IN ACCESS EXCLUSIVE MODE"))
        for _ in range(2):  # the limit outlives the transaction that it ended
            with pytest.raises(UnavailableError, match="does not answer"):
                read()
    read()
    holding.close()
    waiting.close()


def test_a_call_without_a_free_connection_is_refused_as_unavailable(registry_url: str, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    database = Database(registry_url)
    pool: Any = database._engine.pool
    pool._timeout = 0.05  # 30 s, as SQLAlchemy has it
    with ExitStack() as stack:
        for _ in range(pool.size() + pool._max_overflow):
            stack.enter_context(database._engine.connect())
        for way in (database.reading, database.writing):
            with pytest.raises(UnavailableError, match="has no free connection"), way():
                pass
    with database.reading():
        pass
    database.close()
