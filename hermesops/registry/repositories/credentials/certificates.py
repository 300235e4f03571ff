"""Rows of ``certificates`` and ``authorities``: the machines' certificates, and the authorities that machines trust.

It must not know how certificates are made; that is ``hermesops.pki``.
"""

from typing import Any

import sqlalchemy as sa

from hermesops.model.certificate import Certificate, KeyTakenError
from hermesops.model.ids import CellName, InstanceId, MachineId
from hermesops.registry.repositories.base import Repository
from hermesops.registry.repositories.credentials.issued_certificates import OF_MACHINES
from hermesops.registry.schema.tables import authorities, certificates


class CertificateRepository(Repository):
    """Certificates of machines."""

    def list_authorities(self) -> tuple[str, ...]:
        """The certificates of the authorities that machines trust, PEM, the newest first."""
        query = sa.select(authorities.c.certificate).order_by(authorities.c.created_at.desc())
        with self._database.reading() as connection:
            return tuple(connection.scalars(query))

    def trust_authority(self, certificate: str, *, only_first: bool = False) -> bool:
        """Make machines trust an authority, with ``only_first`` only where they trust none; whether they do now."""
        with self._database.writing() as connection:
            known = set(connection.scalars(sa.select(authorities.c.certificate).with_for_update()))
            if certificate not in known and not (known and only_first):
                values = {"certificate": certificate, "created_at": self._database.now(connection)}
                connection.execute(authorities.insert().values(values))
                self._note(connection, "authority_trusted", "authority", after={"authorities": len(known) + 1})
                return True
        return certificate in known

    def add(self, made: Certificate, *, renews: str = "") -> None:
        """Write a certificate down before it is handed out; the registry's clock says when it was issued.

        Args:
            made: The certificate.
            renews: Serial of the certificate that the machine proved itself with; it must count now. Empty where an
                operator or a workflow gives the machine one.

        Raises:
            KeyTakenError: Its key is another machine's.
            RefusedError: The certificate that it renews does not count.
            UnavailableError: The machine renewed too often within an hour.
        """
        columns = certificates.c
        with self._database.writing() as connection:
            now = self._database.now(connection)
            OF_MACHINES.delete_expired(connection, now)
            if renews:
                OF_MACHINES.refuse_uncounted(connection, renews, now)
            same = sa.select(columns.machine_id).where(columns.key == made.key, columns.machine_id != made.machine_id)
            if (other := connection.execute(same.limit(1)).scalar()) is not None:
                raise KeyTakenError(f"machine {made.machine_id} asks with the key of machine {other}")
            if renews:
                OF_MACHINES.refuse_many(connection, made.machine_id, now)
            connection.execute(certificates.insert().values({**vars(made), "issued_at": now}))

    def find_valid(self, serial: str) -> Certificate | None:
        """The certificate of that serial; ``None`` once it is revoked, or expired by the registry's clock."""
        with self._database.reading() as connection:
            row = OF_MACHINES.find_good(connection, serial, self._database.now(connection))
        return _certificate(row) if row else None

    def find(self, serial: str) -> Certificate | None:
        """The certificate of that serial, whether it counts or not."""
        with self._database.reading() as connection:
            row = connection.execute(sa.select(certificates).where(certificates.c.serial == serial)).one_or_none()
        return _certificate(row) if row else None

    def list(self, machine_id: MachineId | None = None) -> tuple[Certificate, ...]:
        """Every certificate that has a row, or those of a machine; the newest first."""
        query = sa.select(certificates).order_by(certificates.c.issued_at.desc(), certificates.c.serial)
        if machine_id is not None:
            query = query.where(certificates.c.machine_id == machine_id)
        with self._database.reading() as connection:
            return tuple(_certificate(row) for row in connection.execute(query))

    def revoke(self, machine_id: MachineId, *, why: str) -> int:
        """Revoke every certificate of a machine that still counts; how many did."""
        with self._database.writing() as connection:
            count = OF_MACHINES.revoke(connection, machine_id, self._database.now(connection), why)
            if count:
                told = {"certificates": count}
                self._note(connection, "certificates_revoked", f"machine/{machine_id}", after=told, why=why)
            return count


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
