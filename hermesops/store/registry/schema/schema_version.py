"""Makes a new database's tables, migrates older ones to this code's revision, and refuses newer ones."""

import re
from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa

from hermesops.errors import BrokenInvariantError, Hint, RefusedError
from hermesops.store.registry.database import RESTORE, Database
from hermesops.store.registry.meta import EPOCH
from hermesops.store.registry.schema.calling_tables import metadata
from hermesops.store.registry.schema.tables import meta

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010", "0011", "0012", "0013")
"""Every revision that this code knows, oldest first; it works with the last one."""

MIGRATIONS = Path(__file__).parent.parent / "migrations"
"""Folder of the scripts, one for each revision."""

VERSION = sa.Table("alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True))
"""Alembic's own table; it has one row."""

_REVISION = re.compile(r"\d{4}")

_LOCK = 0x6865726D6573
"""Number of the advisory lock under which PostgreSQL migrates once at a time."""


def current(database: Database) -> str | None:
    """The revision the database is at; ``None`` before its first one."""
    if database.is_missing():
        return None
    with database.reading() as connection:
        return _current(connection)


def refuse_newer(database: Database) -> None:
    """Check that the tables are not of a newer hermesops.

    Raises:
        RefusedError: They are.
    """
    _refuse_newer(database, current(database))


def require(database: Database) -> None:
    """Check that the tables are those of this code.

    Raises:
        RefusedError: They are older (``registry migrate`` helps) or newer (only a newer hermesops does).
    """
    revision = current(database)
    if revision == REVISIONS[-1]:
        return
    _refuse_newer(database, revision)
    raise RefusedError(
        f"the registry {database.title} is at revision {revision or 'none'}, this hermesops needs {REVISIONS[-1]}",
        hint=Hint(("registry", "migrate")),
    )


def is_foreign(database: Database) -> bool:
    """Whether another hermesops made the tables, so that this one neither reads nor migrates them."""
    if database.is_missing():
        return False
    with database.reading() as connection:
        inspector = sa.inspect(connection)
        if not inspector.has_table(VERSION.name):
            return bool(inspector.get_table_names())
        revision = connection.execute(sa.select(VERSION)).scalar()
        if revision != REVISIONS[-1]:
            return revision not in REVISIONS
        return any(not _has_columns(inspector, table) for table in metadata.sorted_tables)


def _has_columns(inspector: sa.Inspector, table: sa.Table) -> bool:
    if not inspector.has_table(table.name):
        return False
    return {column.name for column in table.columns} <= {
        str(column["name"]) for column in inspector.get_columns(table.name)
    }


def migrate(database: Database, copy: Callable[[str], object] | None = None) -> str | None:
    """Make or migrate the tables in one transaction; safe to call twice and from two processes.

    ``copy`` is called with a reason before existing tables are changed, and may refuse.

    Returns:
        The revision found before; equal to the last of ``REVISIONS`` when nothing was done.

    Raises:
        RefusedError: The tables are of a newer hermesops.
    """
    revision = current(database)
    if revision == REVISIONS[-1]:
        return revision
    _refuse_newer(database, revision)
    with database.writing() as connection:
        lock(database, connection)
        revision = _current(connection)
        _refuse_newer(database, revision)
        if copy and revision not in {None, REVISIONS[-1]}:
            copy(f"before-{REVISIONS[-1]}")
        if revision is None:
            _make(connection)
        elif revision != REVISIONS[-1]:
            _upgrade(connection)
    return revision


def lock(database: Database, connection: sa.Connection) -> None:
    """Wait until no other process changes tables or rights, and let none begin until the transaction's end."""
    if not database.is_sqlite:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))


def _current(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(VERSION.name):
        return None
    version: object = connection.execute(sa.select(VERSION)).scalar()
    if not isinstance(version, str) or not _REVISION.fullmatch(version):
        # The table and its row are made in one transaction; a damaged page may hold anything.
        raise BrokenInvariantError("the registry is damaged: it has no revision", hint=RESTORE)
    return version


def _refuse_newer(database: Database, revision: str | None) -> None:
    if revision is not None and revision not in REVISIONS:
        raise RefusedError(
            f"an older hermesops: it knows revision {REVISIONS[-1]}, the registry {database.title} is at {revision}",
            hint="install the hermesops that the registry was last migrated with",
        )


def _make(connection: sa.Connection) -> None:
    """Make the tables as code knows them, at this code's revision: no script has to repeat them."""
    from hermesops.store.registry.schema import indexes  # noqa: PLC0415 - imports the dialects of both databases

    VERSION.create(connection)
    indexes.metadata.create_all(connection)
    connection.execute(VERSION.insert().values(version_num=REVISIONS[-1]))
    connection.execute(meta.insert().values(name=EPOCH, value="1"))


def _upgrade(connection: sa.Connection) -> None:
    # Alembic costs a third of a second to import and is needed only here.
    from alembic import command  # noqa: PLC0415 - as above
    from alembic.config import Config  # noqa: PLC0415 - as above

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
