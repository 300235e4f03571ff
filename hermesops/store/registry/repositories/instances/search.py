"""Instances by words that occur in what names them: a scan of texts by the database, which hands out ids alone.

No index: PostgreSQL's trigrams (``pg_trgm``) would need an extension, and a copy of seven columns of five tables.
Words are values and never patterns: ``%`` and ``_`` mean themselves.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from hermesops.errors import UsageError
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

_BETWEEN = "\n"
"""Stands between the texts: no word has one, so none begins in one text and ends in the next."""

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


def with_words(words: Sequence[str], *, is_postgresql: bool) -> sa.Select[Any]:
    """Selects the ids of living instances, oldest first, in whose names each of these words occurs.

    Names are the user, the ids, plan, status, cell, region, machine and recorded release.
    """
    columns = hermes_instances.c
    # As in the light rows of the fleet: a driver's UUID objects take longer than the scan.
    query = (
        sa.select(sa.cast(columns.id, sa.Text) if is_postgresql else columns.id)
        .select_from(hermes_instances.join(instance_details).join(users).join(cells))
        .where(LIVING)
        .order_by(columns.created_at, columns.id)
    )
    if not words:
        return query
    query = query.outerjoin(instance_releases, instance_releases.c.instance_id == columns.id)
    place = sa.func.strpos if is_postgresql else sa.func.instr
    names = _names(is_postgresql=is_postgresql)
    return query.where(*(place(names, word) > 0 for word in words))


def _names(*, is_postgresql: bool) -> sa.ColumnElement[str]:
    """What names an instance, as one small text."""
    columns, details = hermes_instances.c, instance_details.c
    texts: tuple[sa.ColumnElement[Any], ...] = (
        sa.func.coalesce(users.c.alias, ""),
        *(_uuid(column, is_postgresql=is_postgresql) for column in (columns.id, columns.user_id)),
        sa.cast(columns.plan, sa.Text),
        sa.cast(columns.status, sa.Text),
        details.cell,
        cells.c.region,
        details.machine_name,
        sa.func.coalesce(columns.vm_id, ""),
        sa.func.coalesce(instance_releases.c.release, ""),
    )
    joined = texts[0]
    for text in texts[1:]:
        joined = sa.type_coerce(joined, sa.Text) + _BETWEEN + sa.type_coerce(text, sa.Text)
    return sa.func.lower(joined)


def _uuid(column: sa.Column[str], *, is_postgresql: bool) -> sa.ColumnElement[str]:
    """A UUID with its dashes."""
    if is_postgresql:
        return sa.cast(column, sa.Text)
    text = sa.type_coerce(column, sa.Text)
    first, *rest = (sa.func.substr(text, begin, length) for begin, length in _UUID_PARTS)
    dashed: sa.ColumnElement[str] = sa.type_coerce(first, sa.Text)
    for part in rest:
        dashed = dashed + "-" + sa.type_coerce(part, sa.Text)
    return dashed
