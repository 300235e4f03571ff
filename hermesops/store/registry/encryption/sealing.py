"""Secrets in rows: the interface of the sealer, the present key, and every sealed field.

The registry has no key. After a rotation it names the key that seals, so that all computers change at one moment: a
transaction that seals reads the name first, and a rotation waits for those that have read it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.store.registry.database import Database, ending_of
from hermesops.store.registry.meta import read_meta
from hermesops.store.registry.schema.tables import SEALED, metadata

SEALING_KEY = "sealing_key"
"""Name of the row of ``meta`` that names the key; none where it was never rotated."""

_LOCK = 0x6865726D6575
"""Number of PostgreSQL's advisory lock: shared by transactions that seal, exclusive for a rotation."""


class Sealer(Protocol):
    """Encrypts and decrypts a value that belongs to one place.

    ``place`` is ``table/column/row id``: a sealed value copied to another row does not open there.
    """

    @property
    def key_ids(self) -> frozenset[str]:
        """The keys that this computer has."""

    @property
    def current(self) -> str:
        """The key that seals where the registry names none."""

    @property
    def source(self) -> str:
        """Path or title of the store of the keys, for messages."""

    def reload(self) -> None:
        """Read keys that were added since."""

    def seal(self, plain: str, *, place: str, key: str = "") -> str:
        """Encrypt with that key, or the current one; the result is text and names the key."""

    def mark(self, plain: str, *, place: str, key: str) -> str:
        """A keyed digest, by which equal texts of one place are known without being opened."""

    def unseal(self, sealed: str, *, place: str) -> str:
        """Decrypt a value that was sealed for this place.

        Raises:
            RefusedError: The key is missing, or the value was not sealed with it for this place.
        """


class NoKey:
    """The sealer of a process that has no key: it seals and opens nothing."""

    key_ids: frozenset[str] = frozenset()
    current = ""
    source = "no key"

    def reload(self) -> None:
        """There is nothing to read."""

    def seal(self, plain: str, *, place: str, key: str = "") -> str:  # noqa: ARG002 - as the interface has it
        """Refuse to encrypt."""
        raise self._refusal(place)

    def mark(self, plain: str, *, place: str, key: str) -> str:  # noqa: ARG002 - as above
        """Refuse to name a text."""
        raise self._refusal(place)

    def unseal(self, sealed: str, *, place: str) -> str:  # noqa: ARG002 - as above
        """Refuse to decrypt."""
        raise self._refusal(place)

    def _refusal(self, place: str) -> RefusedError:
        return RefusedError(f"this process has no key to {place.rpartition('/')[0]}")


def place(table: str, column: str, row: str) -> str:
    """Return the name of one field of one row."""
    return f"{table}/{column}/{row}"


def key_in(database: Database, connection: sa.Connection, sealer: Sealer) -> str:
    """Return the key that seals until the end of this transaction.

    Raises:
        RefusedError: The registry's key was rotated, and this computer has only the old one.
    """
    values = ending_of(connection).values
    if SEALING_KEY not in values:
        if not database.is_sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock_shared(_LOCK)))
        values[SEALING_KEY] = read_key(connection) or sealer.current
    key = values[SEALING_KEY]
    if key not in sealer.key_ids:
        sealer.reload()
    if key not in sealer.key_ids:
        raise RefusedError(
            f"the registry {database.title} is sealed with the new key {key}, which is not in {sealer.source}",
            hint=f"copy {sealer.source} from the computer that rotated it",
        )
    return key


def read_key(connection: sa.Connection) -> str:
    """Return the key id that the registry names; empty for none."""
    return read_meta(connection, SEALING_KEY) or ""


def stop_sealing(database: Database, connection: sa.Connection) -> None:
    """Wait for every transaction that seals, and block new ones until this one ends."""
    if not database.is_sqlite:  # SQLite allows one writer at a time anyway
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))


@dataclass(frozen=True)
class SealedCell:
    """One field of one row.

    Attributes:
        place: Name of the field, to which the sealed value is bound.
    """

    column: sa.Column[str]
    is_row: sa.ColumnElement[bool]
    place: str
    sealed: str


def sealed_columns() -> tuple[sa.Column[str], ...]:
    """The columns that hold values sealed with the registry's key ring, and no other ring's."""
    return tuple(column for table in metadata.sorted_tables for column in table.c if column.info.get(SEALED) is True)


def sealed_cells(
    connection: sa.Connection, *, but_with: str = "", limit: int | None = None, lock: bool = False
) -> Iterator[SealedCell]:
    """Sealed values, at most ``limit`` of each column; with ``but_with`` only those that another key sealed.

    ``lock`` locks the rows until the transaction ends.
    """
    for column in sealed_columns():
        table = column.table
        key = list(table.primary_key)
        condition = sa.and_(column.is_not(None), column != "")
        if but_with:
            condition = sa.and_(condition, sa.not_(column.startswith(f"hs1.{but_with}.", autoescape=True)))
        query = sa.select(*key, column.label("sealed_value")).where(condition).order_by(*key).limit(limit)
        for *parts, sealed in connection.execute(query.with_for_update() if lock else query).all():
            is_row = sa.and_(*(part == value for part, value in zip(key, parts, strict=True)))
            yield SealedCell(column, is_row, place(table.name, column.name, "/".join(map(str, parts))), sealed)
