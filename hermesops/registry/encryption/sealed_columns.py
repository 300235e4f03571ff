"""Every field of every row that holds something sealed, as the schema marks them."""

from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy as sa

from hermesops.registry.encryption.sealing import place
from hermesops.registry.schema.tables import SEALED, metadata


@dataclass(frozen=True)
class SealedCell:
    """One field of one row.

    Attributes:
        column: Which.
        is_row: Finds its row.
        place: What its value is bound to.
        sealed: Its value.
    """

    column: sa.Column[str]
    is_row: sa.ColumnElement[bool]
    place: str
    sealed: str


def sealed_columns() -> tuple[sa.Column[str], ...]:
    """The columns that hold sealed values."""
    return tuple(column for table in metadata.sorted_tables for column in table.c if column.info.get(SEALED))


def sealed_cells(
    connection: sa.Connection, *, but_with: str = "", limit: int | None = None, lock: bool = False
) -> Iterator[SealedCell]:
    """Sealed values.

    Args:
        connection: Of the transaction that looks.
        but_with: Only those that this key did not seal.
        limit: So many of each column at most.
        lock: Keep others from writing these rows until the transaction ends.
    """
    for column in sealed_columns():
        table = column.table
        key = list(table.primary_key)
        wanted = sa.and_(column.is_not(None), column != "")
        if but_with:
            wanted = sa.and_(wanted, sa.not_(column.startswith(f"hs1.{but_with}.", autoescape=True)))
        query = sa.select(*key, column.label("sealed_value")).where(wanted).order_by(*key).limit(limit)
        for *parts, sealed in connection.execute(query.with_for_update() if lock else query).all():
            is_row = sa.and_(*(part == value for part, value in zip(key, parts, strict=True)))
            yield SealedCell(column, is_row, place(table.name, column.name, "/".join(map(str, parts))), sealed)
