"""Migrates rows that were written under a newer release into the databases of the older one.

It runs as the agent's own user. A row that does not fit the older database, in part or at all, is listed as a line of
JSON instead. A row that was there before and that the newer release's own migration changed is only migrated where the
two releases' tables are alike.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from hermesops.wire.state import databases

_NOT_ROWS = frozenset({"schema_version"})
"""Tables that say how a database is built."""

_LONGEST_S = 1800.0
"""Processor time after which it is abandoned: triggers and computed columns of the agent's own may have no end."""


@dataclass(frozen=True)
class MigratedRows:
    """The result of migrating rows.

    Attributes:
        migrated: Rows that are in the older database now.
        listed: Rows that are not in it, or not with every column.
    """

    migrated: int = 0
    listed: int = 0

    def __add__(self, other: "MigratedRows") -> "MigratedRows":
        return MigratedRows(self.migrated + other.migrated, self.listed + other.listed)


ListRow = Callable[[str, dict[str, object]], None]
"""Takes the table and the columns of a row that is not migrated."""


def migrate_rows(older: Path, newer: Path, list_row: ListRow, *, dry_run: bool = False) -> MigratedRows:
    """Copy rows that only the newer database has into the older one, in one transaction.

    The newer database is only read, and in a dry run, which only counts, the older one too. ``list_row`` is called with
    each row that is listed.

    Raises:
        sqlite3.DatabaseError: A database cannot be read, or there is no room; the older one is unchanged.
    """
    with (
        databases.damage_told(),
        closing(sqlite3.connect(f"file:{quote(os.fspath(older))}", uri=True, isolation_level=None, timeout=10)) as db,
    ):
        databases.limit_work(db, _LONGEST_S)
        db.execute("ATTACH ? AS newer", (f"file:{quote(os.fspath(newer))}?mode=ro",))
        db.execute("BEGIN IMMEDIATE")
        try:
            done = sum((_table(db, name, list_row) for name in _tables(db, "newer")), MigratedRows())
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("ROLLBACK" if dry_run else "COMMIT")
    return done


def _tables(db: sqlite3.Connection, schema: str) -> list[str]:
    entries = db.execute(f"SELECT name, sql FROM {schema}.sqlite_master WHERE type = 'table'").fetchall()  # noqa: S608 - ours
    virtual = [name for name, sql in entries if (sql or "").upper().startswith("CREATE VIRTUAL")]
    # What a full-text index keeps is made again from its table's own rows, by the older database's triggers.
    return sorted(
        name
        for name, _ in entries
        if name not in _NOT_ROWS
        and not name.startswith("sqlite_")
        and not any(name == table or name.startswith(f"{table}_") for table in virtual)
    )


def _columns(db: sqlite3.Connection, schema: str, table: str) -> dict[str, int]:
    """Each column with its place in the primary key, or 0."""
    rows = db.execute(f"PRAGMA {schema}.table_info({_q(table)})").fetchall()
    return {row[1]: row[5] for row in rows}


def _table(db: sqlite3.Connection, table: str, list_row: ListRow) -> MigratedRows:
    new, old = _columns(db, "newer", table), _columns(db, "main", table)
    common = [name for name in new if name in old]
    key = [name for name in common if old[name]] if any(old.values()) else ["rowid"]
    if not common or [name for name in old if old[name] and name not in new]:
        return MigratedRows(0, _list(db, f"SELECT * FROM newer.{_q(table)}", table, list_row))  # noqa: S608 - quoted
    done = _insert(db, table, common, key, [name for name in new if name not in old], list_row)
    return done + _change(db, table, common, key, list_row, is_alike=new.keys() == old.keys())


def _insert(
    db: sqlite3.Connection,
    table: str,
    common: Sequence[str],
    key: Sequence[str],
    beyond: Sequence[str],
    list_row: ListRow,
) -> MigratedRows:
    name, same = _q(table), _same(key)
    copied = ["rowid", *common] if key == ["rowid"] else common
    columns = ", ".join(_q(column) for column in copied)
    values = ", ".join(f"n.{_q(column)}" for column in copied)
    lacking = f"newer.{name} n WHERE NOT EXISTS (SELECT 1 FROM main.{name} o WHERE {same})"  # noqa: S608 - quoted
    listed = 0
    if beyond:
        more = " OR ".join(f"n.{_q(column)} IS NOT NULL" for column in beyond)
        listed = _list(db, f"SELECT n.* FROM {lacking} AND ({more})", table, list_row)  # noqa: S608 - quoted
    # rowcount, since changes() would count what the older database's triggers do, too
    migrated = db.execute(f"INSERT OR IGNORE INTO main.{name} ({columns}) SELECT {values} FROM {lacking}").rowcount  # noqa: S608 - quoted
    listed += _list(db, f"SELECT n.* FROM {lacking}", table, list_row)  # noqa: S608 - what a constraint has kept out
    return MigratedRows(migrated, listed)


def _change(
    db: sqlite3.Connection,
    table: str,
    common: Sequence[str],
    key: Sequence[str],
    list_row: ListRow,
    *,
    is_alike: bool,
) -> MigratedRows:
    values = [column for column in common if column not in key]
    if not values:
        return MigratedRows()
    name = _q(table)
    differs = " OR ".join(f"o.{_q(column)} IS NOT n.{_q(column)}" for column in values)
    where = f"{_same(key)} AND ({differs})"
    if not is_alike:
        rows = f"SELECT n.* FROM newer.{name} n JOIN main.{name} o ON {where}"  # noqa: S608 - quoted
        return MigratedRows(0, _list(db, rows, table, list_row))
    sets = ", ".join(f"{_q(column)} = n.{_q(column)}" for column in values)
    done = db.execute(f"UPDATE OR IGNORE main.{name} AS o SET {sets} FROM newer.{name} n WHERE {where}").rowcount  # noqa: S608 - quoted
    return MigratedRows(done, 0)


def _same(key: Sequence[str]) -> str:
    return " AND ".join(f"o.{_q(column)} IS n.{_q(column)}" for column in key)


def _list(db: sqlite3.Connection, query: str, table: str, list_row: ListRow) -> int:
    cursor, count = db.execute(query), 0
    names = [column[0] for column in cursor.description]
    for row in cursor:
        shown = (value.hex() if isinstance(value, bytes) else value for value in row)
        list_row(table, dict(zip(names, shown, strict=True)))
        count += 1
    return count


def line(database: str, table: str, row: dict[str, object]) -> str:
    """A row that was not migrated, as one line."""
    return json.dumps({"database": database, "table": table, "row": row}, sort_keys=True) + "\n"


def _q(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
