"""What the registry needs in order to keep secrets: somebody who seals them. It holds no key itself.

Which key seals is the registry's to say once it was changed, so that all computers change at one moment: a transaction
that seals asks first, and the change itself waits for those that have asked and not committed yet.
"""

from typing import Protocol

import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.registry.database import Database, ending_of
from hermesops.registry.schema.tables import meta

SEALING_KEY = "sealing_key"
"""The row of ``meta`` that says which key seals; none where it was never changed."""

_LOCK = 0x6865726D6575
"""Number of the advisory lock of PostgreSQL's: shared by transactions that seal, exclusive for a change of the key."""


class Sealer(Protocol):
    """Encrypts and decrypts a value that belongs to one place and to no other.

    ``place`` is ``table/column/row id``: a sealed value copied to another row does not open there.
    """

    @property
    def key_ids(self) -> frozenset[str]:
        """The keys at hand."""

    @property
    def current(self) -> str:
        """The key that seals where the registry names none."""

    @property
    def source(self) -> str:
        """Where the keys are kept, for people."""

    def reload(self) -> None:
        """Look for keys that were added since."""

    def seal(self, plain: str, *, place: str, key: str = "") -> str:
        """Encrypt with that key, or the current one; the result is text and names the key."""

    def unseal(self, sealed: str, *, place: str) -> str:
        """Decrypt what was sealed for this very place.

        Raises:
            RefusedError: The key is not at hand, or the value does not open with it here.
        """


def place(table: str, column: str, row: str) -> str:
    """The name of one field of one row."""
    return f"{table}/{column}/{row}"


def key_in(database: Database, connection: sa.Connection, sealer: Sealer) -> str:
    """The key that seals in this transaction; it stays so until the transaction's end.

    Raises:
        RefusedError: The registry's key was changed, and this computer has only the old one.
    """
    found = ending_of(connection).found
    if SEALING_KEY not in found:
        if not database.is_sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock_shared(_LOCK)))
        found[SEALING_KEY] = read_key(connection) or sealer.current
    key = found[SEALING_KEY]
    if key not in sealer.key_ids:
        sealer.reload()
    if key not in sealer.key_ids:
        raise RefusedError(
            f"the registry {database.title} is sealed with key {key} by now, which is not in {sealer.source}",
            hint=f"copy {sealer.source} from the computer that rotated it",
        )
    return key


def read_key(connection: sa.Connection) -> str:
    """The key that the registry says; empty where it says none."""
    return connection.execute(sa.select(meta.c.value).where(meta.c.name == SEALING_KEY)).scalar() or ""


def stop_sealing(database: Database, connection: sa.Connection) -> None:
    """Wait for every transaction that seals, and hold up those to come until this one ends."""
    if not database.is_sqlite:  # SQLite lets one write at a time anyway
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
