"""The registry's epoch: a restore begins a new one, so that fencing tokens of lost leases are outranked."""

from hermesops.registry.meta import EPOCH, read_epoch
from hermesops.registry.repositories.base import Repository
from hermesops.registry.schema.tables import leases, meta


class EpochRepository(Repository):
    """The present epoch."""

    def open(self, why: str, *, above: int = 0) -> int:
        """Begin a new epoch, which ends every lease; returns its number.

        It is higher than ``above``, an epoch known from elsewhere, and than all of the audit's anchor: a copy that is
        restored twice does not know the epoch of the first time.
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
