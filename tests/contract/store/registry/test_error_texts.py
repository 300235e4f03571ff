"""Errors of the database repeat no value of a row: neither in their text nor in a traceback, whoever logs them."""

import io
import json
import logging
import traceback
from collections.abc import Iterator
from contextlib import redirect_stderr
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from hermesops.api.problems import of_bug
from hermesops.base.process_log import AS_JSON, open_log
from hermesops.errors import HermesError
from hermesops.store.registry.database import Database

CANARY = f"canary-{uuid4().hex[:12]}"

ROWS = sa.Table(
    "canary_rows",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, unique=True),
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("above", sa.Text, sa.ForeignKey("canary_rows.name")),
    sa.CheckConstraint("size < 10", name="few"),
)
FIRST = {"id": 1, "name": CANARY, "size": 1}

REFUSED: dict[str, dict[str, Any]] = {
    "unique": {**FIRST, "id": 2},
    "check": {"id": 2, "name": f"{CANARY}-2", "size": 11},
    "not null": {"id": 2, "name": f"{CANARY}-2"},
    "foreign key": {"id": 2, "name": f"{CANARY}-2", "size": 1, "above": f"{CANARY}-3"},
}


@pytest.fixture
def database(registry_url: str) -> Iterator[Database]:
    database = Database(registry_url)
    with database.writing() as connection:
        ROWS.create(connection)
        connection.execute(ROWS.insert().values(**FIRST))
    yield database
    database.close()


def _raised_by(database: Database, *statements: sa.Executable) -> HermesError:
    def write() -> None:
        with database.writing() as connection:
            for statement in statements:
                connection.execute(statement)

    with pytest.raises(HermesError) as caught:
        write()
    return caught.value


@pytest.mark.parametrize("row", REFUSED.values(), ids=REFUSED.keys())
def test_a_refused_row_is_in_no_text_of_the_error_and_in_no_log(database: Database, row: dict[str, Any]) -> None:
    error = _raised_by(database, ROWS.insert().values(**row))
    assert "refused a write" in error.message, "it still says what the database said"
    _is_nowhere(error)


def test_a_value_of_the_wrong_form_is_not_quoted(database: Database) -> None:
    if not database._engine.url.get_backend_name().startswith("postgresql"):
        pytest.skip("SQLite takes a value of any form")
    for kind in (sa.Uuid, sa.Date, sa.Integer):
        error = _raised_by(database, sa.select(sa.cast(sa.literal(CANARY), kind)))
        assert "wrong form" in error.message
        _is_nowhere(error)


def test_a_row_that_is_refused_at_the_end_of_a_transaction_is_not_told_either(database: Database) -> None:
    if not database._engine.url.get_backend_name().startswith("postgresql"):
        pytest.skip("the constraint is changed as PostgreSQL does")
    late = "ALTER TABLE canary_rows ALTER CONSTRAINT canary_rows_above_fkey DEFERRABLE INITIALLY DEFERRED"
    _is_nowhere(_raised_by(database, sa.text(late), ROWS.insert().values(**REFUSED["foreign key"])))


def test_many_rows_at_once_are_not_told(database: Database) -> None:
    rows = [{"id": 10 + number, "name": f"{CANARY}-{number % 5}", "size": 1} for number in range(9)]
    with pytest.raises(HermesError) as caught, database.writing() as connection:
        connection.execute(ROWS.insert(), rows)
    _is_nowhere(caught.value)


def _is_nowhere(error: HermesError) -> None:
    """In the text, in the traceback with its causes, and in the answer and log of the users' API."""
    text = "".join(traceback.format_exception(error))
    assert "sqlalchemy" in text, "there is a traceback"
    request: Any = SimpleNamespace(state=SimpleNamespace(request_id="r"))
    with redirect_stderr(io.StringIO()) as log:
        open_log(logging.INFO, AS_JSON)
        answer = of_bug(request, error)
    assert json.loads(log.getvalue())["event"] == "request_failed"
    for printed in (error.message, text, log.getvalue(), bytes(answer.body).decode()):
        assert CANARY not in printed
