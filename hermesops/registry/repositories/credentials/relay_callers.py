"""Rows of ``relay_callers``: the certificates of the platform's services that may call the relay.

It must not know how certificates are made; that is ``hermesops.pki``.
"""

from typing import Any

import sqlalchemy as sa

from hermesops.model.caller import Caller
from hermesops.registry.repositories.base import Repository
from hermesops.registry.repositories.credentials.issued_certificates import OF_SERVICES
from hermesops.registry.schema.tables import relay_callers


class RelayCallerRepository(Repository):
    """Certificates of services that may call the relay."""

    def add(self, made: Caller, *, renews: str = "") -> None:
        """Write a certificate down before it is handed out; the registry's clock says when it was issued.

        Args:
            made: The certificate.
            renews: Serial of the certificate that the service proved itself with; it must count now. Empty where an
                operator admits the service, which the audit log records.

        Raises:
            RefusedError: The certificate that it renews does not count.
            UnavailableError: The service renewed too often within an hour.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            OF_SERVICES.delete_expired(connection, now)
            if renews:
                OF_SERVICES.refuse_uncounted(connection, renews, now)
                OF_SERVICES.refuse_many(connection, made.name, now)
            connection.execute(relay_callers.insert().values({**vars(made), "issued_at": now}))
            if not renews:
                told = {"serial": made.serial}
                self._note(connection, "relay_caller_admitted", f"service/{made.name}", after=told, why=made.why)

    def find_valid(self, serial: str) -> Caller | None:
        """The certificate of that serial; ``None`` once it is revoked, or expired by the registry's clock."""
        with self._database.reading() as connection:
            row = OF_SERVICES.find_good(connection, serial, self._database.now(connection))
        return _caller(row) if row else None

    def list(self) -> tuple[Caller, ...]:
        """Every certificate that has a row, by service, the newest first."""
        query = sa.select(relay_callers).order_by(relay_callers.c.name, relay_callers.c.issued_at.desc())
        with self._database.reading() as connection:
            return tuple(_caller(row) for row in connection.execute(query))

    def revoke(self, name: str, *, why: str) -> int:
        """Revoke every certificate of a service that still counts; how many did."""
        with self._database.writing() as connection:
            count = OF_SERVICES.revoke(connection, name, self._database.now(connection), why)
            if count:
                told = {"certificates": count}
                self._note(connection, "relay_caller_revoked", f"service/{name}", after=told, why=why)
            return count


def _caller(row: sa.Row[Any]) -> Caller:
    return Caller(row.serial, row.name, row.key, row.issued_at, row.not_after, row.revoked_at, row.why)
