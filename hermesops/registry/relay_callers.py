"""Rows of ``relay_callers``: which service of the platform proves itself to the relay with what.

It must not know how certificates are made; that is ``hermesops.access``.
"""

from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.caller import Caller
from hermesops.registry.rows import Rows
from hermesops.registry.schema import relay_callers

_REMEMBERED = timedelta(days=30)
"""For how long the row of a certificate stays that has run out: it opens nothing with or without."""


class RelayCallerRows(Rows):
    """Certificates of services that may call the relay."""

    def add_caller(self, made: Caller, *, renews: str = "", at_most: int = 0) -> None:
        """Write a certificate down before it is handed out; the registry's clock says when it was issued.

        Args:
            made: It.
            renews: Serial of the one that asked for it, which must count at this very moment; empty where an operator
                admits the service, which the audit tells of.
            at_most: Certificates a service may be issued within an hour; 0 sets no bound.

        Raises:
            RefusedError: The one that it renews counts no more.
            UnavailableError: The service was issued too many.
        """
        columns = relay_callers.c
        with self._database.writing() as connection:
            now = self._database.now(connection)
            connection.execute(relay_callers.delete().where(columns.not_after < now - _REMEMBERED))
            if renews and self._good_caller_in(connection, renews) is None:
                raise RefusedError(f"certificate {renews} counts no more")
            lately = sa.and_(columns.name == made.name, columns.issued_at > now - timedelta(hours=1))
            count = sa.select(sa.func.count()).where(lately)
            if at_most and (connection.execute(count).scalar() or 0) >= at_most:
                raise UnavailableError(f"service {made.name} was issued {at_most} certificates within an hour")
            connection.execute(relay_callers.insert().values({**vars(made), "issued_at": now}))
            if not renews:
                told = {"serial": made.serial}
                self._note(connection, "relay_caller_admitted", f"service/{made.name}", after=told, why=made.why)

    def good_caller(self, serial: str) -> Caller | None:
        """The certificate of that serial, while it counts: neither revoked nor run out by the registry's clock."""
        with self._database.reading() as connection:
            return self._good_caller_in(connection, serial)

    def list_callers(self) -> tuple[Caller, ...]:
        """Every certificate that is remembered, by service; the newest first."""
        query = sa.select(relay_callers).order_by(relay_callers.c.name, relay_callers.c.issued_at.desc())
        with self._database.reading() as connection:
            return tuple(_caller(row) for row in connection.execute(query))

    def revoke_caller(self, name: str, *, why: str) -> int:
        """Let no certificate of a service count from now on; how many still did."""
        columns = relay_callers.c
        with self._database.writing() as connection:
            now = self._database.now(connection)
            good = sa.and_(columns.name == name, columns.revoked_at.is_(None), columns.not_after > now)
            revoked = relay_callers.update().where(good).values(revoked_at=now, why=why)
            count = len(connection.execute(revoked.returning(columns.serial)).all())
            if count:
                told = {"certificates": count}
                self._note(connection, "relay_caller_revoked", f"service/{name}", after=told, why=why)
            return count

    def _good_caller_in(self, connection: sa.Connection, serial: str) -> Caller | None:
        columns = relay_callers.c
        good = sa.and_(
            columns.serial == serial,
            columns.revoked_at.is_(None),
            columns.not_after > self._database.now(connection),
        )
        row = connection.execute(sa.select(relay_callers).where(good)).one_or_none()
        return _caller(row) if row else None


def _caller(row: sa.Row[Any]) -> Caller:
    return Caller(row.serial, row.name, row.key, row.issued_at, row.not_after, row.revoked_at, row.why)
