"""Instances by words that occur in what names them: each table is scanned once by the database, which hands out ids.

No index: PostgreSQL's trigrams (``pg_trgm``) would need an extension, and a copy of eight columns of five tables.
Words are values and never patterns: ``%`` and ``_`` mean themselves.
"""

import re
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from hermesops.errors import UsageError
from hermesops.model.ids import InstanceId
from hermesops.store.registry.schema.tables import (
    LIVING,
    cells,
    hermes_instances,
    instance_details,
    instance_releases,
    users,
)

MOST_WORDS = 8
_LONGEST = 200
"""Characters of a search."""

_OF_UUID = re.compile(r"[0-9a-f-]{1,36}")
"""A word that a UUID may have: others are not looked for in any."""

_UUID_PARTS = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
"""Begin and length of the parts of a UUID in SQLite, which keeps it without dashes."""


def words_of(text: str) -> Sequence[str]:
    """The words of a search, small.

    Raises:
        UsageError: It is too long.
    """
    words = text.casefold().split()
    if len(words) > MOST_WORDS or len(text) > _LONGEST:
        raise UsageError(f"search with at most {MOST_WORDS} words and {_LONGEST} characters", field="q")
    return words


def ids_with(words: Sequence[str], connection: sa.Connection) -> tuple[InstanceId, ...]:
    """The ids of living instances, oldest first, in whose names each of these words occurs.

    A driver's UUID objects take longer than the scan, so the database hands out texts.
    """
    is_postgresql = connection.dialect.name == "postgresql"
    ids = connection.scalars(_with_words(words, is_postgresql=is_postgresql))
    if is_postgresql:
        return tuple(ids)
    return tuple(InstanceId(f"{id_[:8]}-{id_[8:12]}-{id_[12:16]}-{id_[16:20]}-{id_[20:]}") for id_ in ids)


def _with_words(words: Sequence[str], *, is_postgresql: bool) -> sa.Select[Any]:
    """Selects these ids; SQLite keeps them without dashes.

    Names are the user, the ids, plan, status, cell, region, machine and recorded release.
    """
    columns = hermes_instances.c
    names = _Names(is_postgresql=is_postgresql)
    return (
        sa.select(sa.cast(columns.id, sa.Text) if is_postgresql else sa.type_coerce(columns.id, sa.Text))
        .where(LIVING, *map(names.have, words))
        .order_by(columns.created_at, columns.id)
    )


class _Names:
    """Conditions on the names of an instance, in one of the two databases."""

    def __init__(self, *, is_postgresql: bool) -> None:
        self._is_postgresql = is_postgresql

    def have(self, word: str) -> sa.ColumnElement[bool]:
        """Whether a word occurs in one of the names."""
        columns, details, releases = hermes_instances.c, instance_details.c, instance_releases.c
        in_cells = sa.select(cells.c.name).where(self._has(cells.c.region, word))
        in_details = sa.or_(
            self._has(details.machine_name, word), self._has(details.cell, word), details.cell.in_(in_cells)
        )
        of_uuids = (columns.id, columns.user_id) if _OF_UUID.fullmatch(word) else ()
        return sa.or_(
            self._has(columns.plan, word),
            self._has(columns.status, word),
            self._has(columns.vm_id, word),
            *(self._position(self._dashed(column), word) > 0 for column in of_uuids),
            columns.user_id.in_(sa.select(users.c.id).where(self._has(users.c.alias, word))),
            columns.id.in_(sa.select(details.instance_id).where(in_details)),
            columns.id.in_(sa.select(releases.instance_id).where(self._has(releases.release, word))),
        )

    def _has(self, column: sa.Column[Any], word: str) -> sa.ColumnElement[bool]:
        """Whether a word occurs in a text, whatever its capitals; not in a missing one."""
        if not self._is_postgresql:
            return self._position(sa.func.lower(column), word) > 0
        # Names are of ASCII; the letters of a language take PostgreSQL several times as long.
        return self._position(sa.func.lower(sa.collate(sa.cast(column, sa.Text), "C")), word) > 0

    def _position(self, text: sa.ColumnElement[Any], word: str) -> sa.ColumnElement[int]:
        return (sa.func.strpos if self._is_postgresql else sa.func.instr)(text, word)

    def _dashed(self, column: sa.Column[str]) -> sa.ColumnElement[Any]:
        """A UUID with its dashes."""
        if self._is_postgresql:
            return sa.cast(column, sa.Text)
        first, *rest = (sa.func.substr(column, begin, length, type_=sa.Text) for begin, length in _UUID_PARTS)
        dashed: sa.ColumnElement[Any] = first
        for part in rest:
            dashed = dashed + "-" + part
        return dashed
