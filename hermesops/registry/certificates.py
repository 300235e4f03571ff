"""Rows of ``certificates`` and ``authorities``: which machine proves itself with what, and who may have signed it.

It must not know how certificates are made; that is ``hermesops.access``.
"""

from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.certificate import Certificate, KeyTakenError
from hermesops.model.ids import CellName, InstanceId, MachineId
from hermesops.registry.revocation import revoke_machine
from hermesops.registry.rows import Rows
from hermesops.registry.schema import authorities, certificates

_REMEMBERED = timedelta(days=30)
"""For how long the row of a certificate stays that has run out: it opens nothing with or without."""


class CertificateRows(Rows):
    """Certificates of machines."""

    def list_authorities(self) -> tuple[str, ...]:
        """The certificates of the authorities that machines trust, PEM, the newest first."""
        query = sa.select(authorities.c.certificate).order_by(authorities.c.created_at.desc())
        with self._database.reading() as connection:
            return tuple(connection.scalars(query))

    def trust_authority(self, certificate: str, *, only_first: bool = False) -> bool:
        """Have machines trust an authority, with ``only_first`` only where they trust none; whether they do now."""
        with self._database.writing() as connection:
            known = set(connection.scalars(sa.select(authorities.c.certificate).with_for_update()))
            if certificate not in known and not (known and only_first):
                values = {"certificate": certificate, "created_at": self._database.now(connection)}
                connection.execute(authorities.insert().values(values))
                self._note(connection, "authority_trusted", "authority", after={"authorities": len(known) + 1})
                return True
        return certificate in known

    def add_certificate(self, made: Certificate, *, renews: str = "", at_most: int = 0) -> None:
        """Write a certificate down before it is handed out; the registry's clock says when it was issued.

        Args:
            made: It.
            renews: Serial of the one that asked for it; it must count at this very moment.
            at_most: Certificates a machine may be issued within an hour; 0 sets no bound.

        Raises:
            KeyTakenError: Its key is another machine's.
            RefusedError: The one that it renews counts no more.
            UnavailableError: The machine was issued too many.
        """
        columns = certificates.c
        with self._database.writing() as connection:
            now = self._database.now(connection)
            connection.execute(certificates.delete().where(columns.not_after < now - _REMEMBERED))
            if renews and self._good_in(connection, renews) is None:
                raise RefusedError(f"certificate {renews} counts no more")
            same = sa.select(columns.machine_id).where(columns.key == made.key, columns.machine_id != made.machine_id)
            if (other := connection.execute(same.limit(1)).scalar()) is not None:
                raise KeyTakenError(f"machine {made.machine_id} asks with the key of machine {other}")
            lately = sa.and_(columns.machine_id == made.machine_id, columns.issued_at > now - timedelta(hours=1))
            count = sa.select(sa.func.count()).where(lately)
            if at_most and (connection.execute(count).scalar() or 0) >= at_most:
                raise UnavailableError(f"machine {made.machine_id} was issued {at_most} certificates within an hour")
            connection.execute(certificates.insert().values({**vars(made), "issued_at": now}))

    def good_certificate(self, serial: str) -> Certificate | None:
        """The certificate of that serial, while it counts: neither revoked nor run out by the registry's clock."""
        with self._database.reading() as connection:
            return self._good_in(connection, serial)

    def find_certificate(self, serial: str) -> Certificate | None:
        """The certificate of that serial, whether it counts or not."""
        with self._database.reading() as connection:
            row = connection.execute(sa.select(certificates).where(certificates.c.serial == serial)).one_or_none()
        return _certificate(row) if row else None

    def list_certificates(self, machine_id: MachineId | None = None) -> tuple[Certificate, ...]:
        """Every certificate that is remembered, or those of a machine; the newest first."""
        query = sa.select(certificates).order_by(certificates.c.issued_at.desc(), certificates.c.serial)
        if machine_id is not None:
            query = query.where(certificates.c.machine_id == machine_id)
        with self._database.reading() as connection:
            return tuple(_certificate(row) for row in connection.execute(query))

    def revoke_certificates(self, machine_id: MachineId, *, why: str) -> int:
        """Let no certificate of a machine count from now on; how many still did."""
        with self._database.writing() as connection:
            count = revoke_machine(connection, machine_id, self._database.now(connection), why)
            if count:
                told = {"certificates": count}
                self._note(connection, "certificates_revoked", f"machine/{machine_id}", after=told, why=why)
            return count

    def _good_in(self, connection: sa.Connection, serial: str) -> Certificate | None:
        columns = certificates.c
        good = sa.and_(columns.serial == serial, columns.revoked_at.is_(None))
        row = connection.execute(sa.select(certificates).where(good).with_for_update()).one_or_none()
        if row is None or row.not_after <= self._database.now(connection):
            return None
        return _certificate(row)


def _certificate(row: sa.Row[Any]) -> Certificate:
    return Certificate(
        serial=row.serial,
        key=row.key,
        machine_id=MachineId(row.machine_id),
        instance_id=InstanceId(row.instance_id) if row.instance_id else None,
        cell=CellName(row.cell) if row.cell else None,
        issued_at=row.issued_at,
        not_after=row.not_after,
        revoked_at=row.revoked_at,
        why=row.why,
    )
