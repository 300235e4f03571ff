"""Rules of every table of issued certificates: which rows count, how often a holder renews, how long rows stay."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.errors import RefusedError, UnavailableError
from hermesops.registry.schema.tables import certificates, relay_callers

MOST_AN_HOUR = 12
"""Certificates issued to one holder within an hour after which it may not renew; it needs one in days."""

_KEPT = timedelta(days=30)
"""How long the row of an expired certificate stays; the certificate is refused with or without its row."""


@dataclass(frozen=True)
class CertificateTable:
    """One table of issued certificates.

    Attributes:
        table: Has the columns ``serial``, ``issued_at``, ``not_after``, ``revoked_at`` and ``why``.
        holder: The column that names the holder of a certificate.
        kind: What a holder is, for messages.
    """

    table: sa.Table
    holder: sa.Column[str]
    kind: str

    def find_good(
        self, connection: sa.Connection, serial: str, now: datetime, *, locked: bool = False
    ) -> sa.Row[Any] | None:
        """The row of a certificate that is neither revoked nor expired.

        Args:
            connection: Of the transaction.
            serial: Of the certificate.
            now: By the registry's clock.
            locked: Keep others from changing the row until the transaction ends.
        """
        query = sa.select(self.table).where(self.table.c.serial == serial, self._is_good(now))
        return connection.execute(query.with_for_update() if locked else query).one_or_none()

    def delete_expired(self, connection: sa.Connection, now: datetime) -> None:
        """Delete the rows of certificates that expired long ago."""
        connection.execute(self.table.delete().where(self.table.c.not_after < now - _KEPT))

    def refuse_uncounted(self, connection: sa.Connection, serial: str, now: datetime) -> None:
        """Let only a certificate that counts be renewed.

        Raises:
            RefusedError: The certificate is unknown, revoked or expired.
        """
        if self.find_good(connection, serial, now, locked=True) is None:
            raise RefusedError(f"certificate {serial} counts no more")

    def refuse_many(self, connection: sa.Connection, holder: str, now: datetime) -> None:
        """Let a holder renew only so often.

        Raises:
            UnavailableError: Too many certificates were issued to it within the last hour.
        """
        recent = sa.and_(self.holder == holder, self.table.c.issued_at > now - timedelta(hours=1))
        count = connection.execute(sa.select(sa.func.count()).where(recent)).scalar() or 0
        if count >= MOST_AN_HOUR:
            raise UnavailableError(f"{self.kind} {holder} was issued {MOST_AN_HOUR} certificates within an hour")

    def revoke(self, connection: sa.Connection, holder: str, now: datetime, why: str) -> int:
        """Revoke every certificate of a holder that still counts; how many did.

        The rows are locked first: a renewal under way ends before, and the update then sees what it added.
        """
        locked = sa.select(self.table.c.serial).where(self.holder == holder, self._is_good(now)).with_for_update()
        connection.execute(locked).all()
        revoked = self.table.update().where(self.holder == holder, self._is_good(now))
        return connection.execute(revoked.values(revoked_at=now, why=why)).rowcount

    def _is_good(self, now: datetime) -> sa.ColumnElement[bool]:
        return sa.and_(self.table.c.revoked_at.is_(None), self.table.c.not_after > now)


OF_MACHINES = CertificateTable(certificates, certificates.c.machine_id, "machine")
OF_SERVICES = CertificateTable(relay_callers, relay_callers.c.name, "service")
