"""The registry's epoch: opened anew when the database is restored, so that numbers given out since are outranked."""

from hermesops.registry.meta import EPOCH, read_epoch
from hermesops.registry.repositories.base import Repository
from hermesops.registry.schema.tables import leases, meta


class EpochRepository(Repository):
    """The epoch."""

    def current(self) -> int:
        """The present epoch; the first one is 1."""
        with self._database.reading() as connection:
            return read_epoch(connection)

    def open(self, why: str, *, above: int = 0) -> int:
        """Begin a new epoch: every lease of the epochs before has ended.

        Args:
            why: For the audit.
            above: An epoch known from elsewhere that must be outranked too, as a copy that is restored twice does not
                know of the epoch opened the first time; those of the audit's anchor are outranked anyway.

        Returns:
            The new epoch.
        """
        anchor = self._context.audit_log.anchor
        known = max(above, anchor.highest_epoch() if anchor else 0)
        with self._database.writing(guarded=False) as connection:
            before = read_epoch(connection, lock=True)
            opened = max(before, known) + 1
            connection.execute(meta.update().where(meta.c.name == EPOCH).values(value=str(opened)))
            connection.execute(leases.update().values(holder=""))
            change = {"before": {"epoch": before}, "after": {"epoch": opened}}
            self._note(connection, "epoch_opened", "registry", **change, why=why)
            return opened
