"""The registry's epoch: opened anew when the database is restored, so that numbers given out since are outranked."""

import sqlalchemy as sa

from hermesops.registry.rows import Rows
from hermesops.registry.schema import leases, meta

_NAME = "epoch"


class EpochRows(Rows):
    """The epoch."""

    def epoch(self) -> int:
        """The present epoch; the first one is 1."""
        with self._database.reading() as connection:
            return read_epoch(connection)

    def open_epoch(self, why: str) -> int:
        """Begin a new epoch: every lease of the epochs before has ended.

        Returns:
            The new epoch.
        """
        with self._database.writing() as connection:
            before = read_epoch(connection, lock=True)
            connection.execute(meta.update().where(meta.c.name == _NAME).values(value=str(before + 1)))
            connection.execute(leases.update().values(holder=""))
            self._note(
                connection, "epoch_opened", "registry", before={"epoch": before}, after={"epoch": before + 1}, why=why
            )
            return before + 1


def read_epoch(connection: sa.Connection, *, lock: bool = False) -> int:
    """The present epoch, as the transaction sees it."""
    query = sa.select(meta.c.value).where(meta.c.name == _NAME)
    return int(connection.execute(query.with_for_update() if lock else query).scalar_one())
