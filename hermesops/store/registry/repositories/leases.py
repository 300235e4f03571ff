"""Rows of ``leases``, and the registry's epoch: the holder of each subject, with its fencing token.

A fencing token is ``(epoch, counter)``. A restore begins a new epoch, which outranks the tokens of lost leases.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.errors import Hint
from hermesops.model.operation import LEASE_S, Lease, LeaseHeldError, LeaseLostError
from hermesops.store.registry.meta import EPOCH, read_epoch
from hermesops.store.registry.repositories.base import Repository, insert_if_absent
from hermesops.store.registry.schema.tables import leases, meta

LEASE_LIFE = timedelta(seconds=LEASE_S)

_NOBODY = ""


class LeaseRepository(Repository):
    """Leases. Rows stay when a lease ends, so that their counters only rise."""

    def take(self, subject: str, holder: str, *, over: str = "") -> Lease:
        """Take a lease that is free or has expired.

        ``holder`` is as ``operations.leases.holder`` writes it; the present one is refused too. ``over`` is a holder
        known to be dead: its lease is taken before it expires.

        Raises:
            LeaseHeldError: Another process holds the lease; the message names it and the time of expiry.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            epoch = read_epoch(connection)
            free = {"subject": subject, "holder": _NOBODY, "epoch": epoch, "counter": 0, "expires_at": now}
            insert_if_absent(connection, leases, free)
            row = _locked(connection, subject)
            if row.holder not in {_NOBODY, over} and row.expires_at > now:
                left = (row.expires_at - now).total_seconds()
                raise LeaseHeldError(
                    f"{subject} is being worked on by {row.holder}",
                    hint=Hint(("operation", "list"), f"; unless renewed, the lease ends in {left:.0f} s"),
                    holder=row.holder,
                )
            # A new epoch starts counting anew: (epoch, counter) rises all the same.
            counter = row.counter + 1 if row.epoch == epoch else 1
            lease = Lease(subject, holder, epoch, counter, now + LEASE_LIFE)
            _write(connection, lease)
            return lease

    def renew(self, own_leases: Sequence[Lease]) -> frozenset[str]:
        """Renew leases, all in one write. An expired lease that nobody took is renewed too.

        Returns:
            The subjects of leases that were released or taken: work on them must stop at once.
        """
        columns = leases.c
        which = sa.tuple_(columns.subject, columns.holder, columns.epoch, columns.counter)
        ours = [(lease.subject, lease.holder, lease.epoch, lease.counter) for lease in own_leases]
        with self._database.writing() as connection:
            renewing = leases.update().values(expires_at=self._database.now(connection) + LEASE_LIFE)
            renewed = connection.execute(renewing.where(which.in_(ours)).returning(columns.subject)).scalars()
            return frozenset(lease.subject for lease in own_leases).difference(renewed)

    def release(self, lease: Lease) -> None:
        """Release a lease; does nothing when it is no longer held."""
        with self._database.writing() as connection:
            row = _locked(connection, lease.subject)
            if row is not None and _is_held(row, lease):
                now = self._database.now(connection)
                _write(connection, Lease(lease.subject, _NOBODY, lease.epoch, lease.counter, now))

    def list(self) -> tuple[Lease, ...]:
        """The leases that are held now."""
        with self._database.reading() as connection:
            now = self._database.now(connection)
            query = sa.select(leases).where(leases.c.holder != _NOBODY, leases.c.expires_at > now)
            return tuple(
                Lease(row.subject, row.holder, row.epoch, row.counter, row.expires_at)
                for row in connection.execute(query.order_by(leases.c.subject))
            )


class EpochRepository(Repository):
    """The registry's epoch, which a restore increments."""

    def now(self) -> int:
        """Read the number of the present epoch."""
        with self._database.reading() as connection:
            return read_epoch(connection)

    def try_to_write(self) -> None:
        """Change the epoch's row and change it back, in one transaction: SQLite writes nothing for a row that stays.

        Raises:
            UnavailableError, RefusedError: As any other write; the registry is as it was.
        """
        with self._database.writing(guarded=False) as connection:
            epoch = str(read_epoch(connection, lock=True))
            for value in (f"{epoch} ", epoch):
                connection.execute(meta.update().where(meta.c.name == EPOCH).values(value=value))

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


def require_lease(connection: sa.Connection, lease: Lease | None) -> None:
    """Refuse the transaction if another process took its lease; ``None`` needs no lease.

    Raises:
        LeaseLostError: Another process took the lease; the message names it.
    """
    if lease is None:
        return
    row = _locked(connection, lease.subject)
    if row is None or not _is_held(row, lease):
        holder = "nobody" if row is None or row.holder == _NOBODY else row.holder
        raise LeaseLostError(f"the lease of {lease.subject} is lost: {holder} holds it now")


def _locked(connection: sa.Connection, subject: str) -> Any:  # noqa: ANN401 - SQLAlchemy's row, or None
    query = sa.select(leases).where(leases.c.subject == subject).with_for_update()
    return connection.execute(query).one_or_none()


def _is_held(row: sa.Row[Any], lease: Lease) -> bool:
    return (row.holder, row.epoch, row.counter) == (lease.holder, lease.epoch, lease.counter)


def _write(connection: sa.Connection, lease: Lease) -> None:
    connection.execute(
        leases.update()
        .where(leases.c.subject == lease.subject)
        .values(holder=lease.holder, epoch=lease.epoch, counter=lease.counter, expires_at=lease.expires_at)
    )
