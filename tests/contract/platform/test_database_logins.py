"""Logins at the database on AWS by a file that changes: a real PostgreSQL asks for a password as RDS for tokens."""

import importlib.util
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import psycopg
import pytest
import sqlalchemy as sa

from hermesops.base import assets
from hermesops.errors import UnavailableError
from hermesops.store.registry.database import Database
from hermesops.store.registry.schema.role_grants import API
from tests.support.real.stores import postgresql
from tests.support.real.stores.postgresql import PostgreSql, as_role, make_role
from tests.support.suite.prerequisites import require

pytestmark = [pytest.mark.postgres, pytest.mark.turns(4)]

TOKEN_BYTES = 2000
"""A token of IAM has some 1,500; libpq before version 14 read no more than 320 of a line."""


def _program() -> ModuleType:
    file = assets.folder("roles") / "hermes_platform_aws" / "files" / "database_passwords.py"
    spec = importlib.util.spec_from_file_location("database_passwords", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PASSWORDS = _program()


@pytest.fixture
def server() -> Iterator[PostgreSql]:
    """A server that asks the API's role for a password, in the clear as RDS asks for tokens within TLS."""
    require(postgresql.programs(), "PostgreSQL's programs (apt: postgresql-15)")
    with postgresql.running() as running:
        url = running.new_database()
        make_role(url, API)
        with psycopg.connect(url, autocommit=True) as admin:
            row = admin.execute("SHOW hba_file").fetchone()
            assert row
            rules = Path(row[0])
            rules.write_text(f"local all {API} password\n" + rules.read_text())
            admin.execute("SELECT pg_reload_conf()")
        yield running


def _give(url: str, token: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(psycopg.sql.SQL("ALTER ROLE {} PASSWORD {}").format(psycopg.sql.Identifier(API), token))


def test_each_new_connection_has_the_token_of_that_moment_and_open_ones_stay(
    server: PostgreSql, tmp_path: Path
) -> None:
    owner = server.new_database()
    host = owner.partition("host=")[2].partition("&")[0]
    file, me = tmp_path / "hermesops-api", pwd.getpwuid(os.geteuid()).pw_name
    settings = {"host": host, "port": "5432", "name": owner.removeprefix("postgresql:///").partition("?")[0]}
    first, second = f"a:\\{'x' * TOKEN_BYTES}", f"b\\:{'y' * TOKEN_BYTES}"

    _give(owner, first)
    PASSWORDS.write(file, PASSWORDS.line_of(settings, API, first), me)
    database = Database(f"{as_role(owner, API)}&passfile={file}")
    with database.reading() as open_connection:
        assert open_connection.execute(sa.text("SELECT current_user")).scalar() == API
        _give(owner, second)
        with pytest.raises(UnavailableError, match="password authentication failed"), database.reading() as refused:
            refused.execute(sa.text("SELECT 1"))
        PASSWORDS.write(file, PASSWORDS.line_of(settings, API, second), me)
        with database.reading() as another:
            assert another.execute(sa.text("SELECT current_user")).scalar() == API
        assert open_connection.execute(sa.text("SELECT 1")).scalar() == 1
    database.close()
