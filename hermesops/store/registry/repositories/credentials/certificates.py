"""Rows of ``certificates``, ``authorities`` and ``relay_callers``: certificates of machines and of services.

It must not know how certificates are made; that is ``hermesops.access.pki``.
"""

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.access.certificate import Caller, Certificate, KeyTakenError
from hermesops.model.ids import InstanceId, MachineId
from hermesops.store.registry.repositories.base import Repository
from hermesops.store.registry.schema.tables import (
    authorities,
    certificates,
    hermes_instances,
    instance_details,
    relay_callers,
    unassigned_machines,
)

MOST_AN_HOUR = 12
"""Certificates issued to one holder within an hour after which it may not renew; it needs one in days."""

_KEPT = timedelta(days=30)
"""How long the row of an expired certificate stays; the certificate is refused with or without its row."""


@dataclass(frozen=True)
class CertificateTable:
    """One table of issued certificates: valid rows, limit of renewals, and life of rows.

    Attributes:
        table: Has the columns ``serial``, ``issued_at``, ``not_after``, ``revoked_at`` and ``why``.
        holder: The column that names the holder of a certificate.
        kind: Noun for a holder, for messages.
    """

    table: sa.Table
    holder: sa.Column[str]
    kind: str

    def find_good(
        self, connection: sa.Connection, serial: str, now: datetime, *, locked: bool = False
    ) -> sa.Row[Any] | None:
        """The row of a certificate that is neither revoked nor expired; ``locked`` locks it for the transaction."""
        query = sa.select(self.table).where(self.table.c.serial == serial, self._is_good(now))
        return connection.execute(query.with_for_update() if locked else query).one_or_none()

    def delete_expired(self, connection: sa.Connection, now: datetime) -> None:
        """Delete the rows of certificates that expired long ago."""
        connection.execute(self.table.delete().where(self.table.c.not_after < now - _KEPT))

    def refuse_uncounted(self, connection: sa.Connection, serial: str, now: datetime) -> None:
        """Refuse to renew a certificate that is not valid.

        Raises:
            RefusedError: The certificate is unknown, revoked or expired.
        """
        if self.find_good(connection, serial, now, locked=True) is None:
            raise RefusedError(f"certificate {serial} is no longer valid")

    def refuse_many(self, connection: sa.Connection, holder: str, now: datetime) -> None:
        """Limit how often a holder renews.

        Raises:
            UnavailableError: Too many certificates were issued to it within the last hour.
        """
        recent = sa.and_(self.holder == holder, self.table.c.issued_at > now - timedelta(hours=1))
        count = connection.execute(sa.select(sa.func.count()).where(recent)).scalar() or 0
        if count >= MOST_AN_HOUR:
            raise UnavailableError(f"{self.kind} {holder} was issued {MOST_AN_HOUR} certificates within an hour")

    def revoke(self, connection: sa.Connection, holder: str, now: datetime, why: str) -> int:
        """Revoke every valid certificate of a holder; returns how many.

        The rows are locked first: the update then sees the certificate that a concurrent renewal adds.
        """
        locked = sa.select(self.table.c.serial).where(self.holder == holder, self._is_good(now)).with_for_update()
        connection.execute(locked).all()
        revoked = self.table.update().where(self.holder == holder, self._is_good(now))
        return connection.execute(revoked.values(revoked_at=now, why=why)).rowcount

    def revoke_where(self, connection: sa.Connection, which: sa.ColumnElement[bool], now: datetime, why: str) -> int:
        """Revoke the valid certificates that a condition names; returns how many."""
        revoked = self.table.update().where(which, self._is_good(now)).values(revoked_at=now, why=why)
        return connection.execute(revoked).rowcount

    def list_revoked(self, connection: sa.Connection, now: datetime) -> Sequence[str]:
        """Serials of certificates that were revoked and have not expired."""
        columns = self.table.c
        query = sa.select(columns.serial).where(columns.revoked_at.is_not(None), columns.not_after > now)
        return connection.scalars(query).all()

    def _is_good(self, now: datetime) -> sa.ColumnElement[bool]:
        return sa.and_(self.table.c.revoked_at.is_(None), self.table.c.not_after > now)


OF_MACHINES = CertificateTable(certificates, certificates.c.machine_id, "machine")
OF_SERVICES = CertificateTable(relay_callers, relay_callers.c.name, "service")


def revoke_former_roles(
    connection: sa.Connection, machine_id: str, instance_id: InstanceId | None, now: datetime, why: str
) -> None:
    """Revoke every valid certificate of a machine that names another instance than this one, or none."""
    columns = certificates.c
    is_former = sa.and_(columns.machine_id == machine_id, columns.instance_id.is_distinct_from(instance_id))
    connection.execute(sa.select(columns.serial).where(is_former).with_for_update()).all()  # as in ``revoke``
    OF_MACHINES.revoke_where(connection, is_former, now, why)


def _present_roles(connection: sa.Connection, machine_id: str) -> set[tuple[str | None, str | None]]:
    """Cell and instance that a machine's certificate may name: of the instance on it, or that it is kept for."""
    instances, details, unassigned = hermes_instances.c, instance_details, unassigned_machines.c
    on_it = (
        sa.select(details.c.cell, instances.id)
        .join(details, details.c.instance_id == instances.id)
        .where(instances.vm_id == machine_id)
    )
    of_unassigned = sa.select(unassigned.cell, unassigned.instance_id).where(
        unassigned.machine_id == machine_id, unassigned.wanted
    )
    roles = {(row.cell, row.id) for row in connection.execute(on_it)}
    for row in connection.execute(of_unassigned):
        roles |= {(row.cell, row.instance_id)} if row.instance_id else {(None, None)}
    return roles


def _refuse_former_role(connection: sa.Connection, certificate: Certificate) -> None:
    """Refuse a certificate that names a former cell or instance of its machine.

    Raises:
        RefusedError: The machine is another instance's, nobody's, or deleted.
    """
    if (certificate.cell, certificate.instance_id) not in _present_roles(connection, certificate.machine_id):
        whose = certificate.instance_id or "nobody"
        raise RefusedError(
            f"machine {certificate.machine_id} no longer belongs to {whose} in {certificate.cell or 'no cell'}"
        )


class CertificateRepository(Repository):
    """Certificates of machines, and the authorities that machines trust."""

    def list_authorities(self) -> tuple[str, ...]:
        """The certificates of the authorities that machines trust, PEM, the newest first."""
        query = sa.select(authorities.c.certificate).order_by(authorities.c.created_at.desc())
        return tuple(certificate for (certificate,) in self._rows(query))

    def trust_authority(self, certificate: str, *, only_first: bool = False) -> bool:
        """Let machines trust an authority (with ``only_first``, unless they trust one); whether they do now."""
        with self._database.writing() as connection:
            known = set(connection.scalars(sa.select(authorities.c.certificate).with_for_update()))
            if certificate not in known and not (known and only_first):
                values = {"certificate": certificate, "created_at": self._database.now(connection)}
                connection.execute(authorities.insert().values(values))
                self._note(connection, "authority_trusted", "authority", after={"authorities": len(known) + 1})
                return True
        return certificate in known

    def add(self, certificate: Certificate, *, renews: str = "") -> None:
        """Record a certificate before it is handed out; the registry's clock says when it was issued.

        Args:
            certificate: Its ``issued_at`` is ignored.
            renews: Serial of the valid certificate that the machine authenticated with; empty where an operator or a
                workflow issues one.

        Raises:
            KeyTakenError: Its key is another machine's, or was this machine's before it was this instance's.
            RefusedError: The certificate to renew is not valid, or names whom the machine belongs to no more.
            UnavailableError: The machine renewed too often within an hour.
        """
        columns = certificates.c
        with self._database.writing() as connection:
            now = self._database.now(connection)
            OF_MACHINES.delete_expired(connection, now)
            if renews:
                OF_MACHINES.refuse_uncounted(connection, renews, now)
                _refuse_former_role(connection, certificate)
            taken = columns.machine_id != certificate.machine_id
            if not renews:  # whoever had the machine before may have its key
                taken |= columns.instance_id.is_distinct_from(certificate.instance_id)
            same = sa.select(columns.machine_id).where(columns.key == certificate.key, taken)
            if (other := connection.execute(same.limit(1)).scalar()) is not None:
                whose = f"of machine {other}" if other != certificate.machine_id else "of a former owner"
                raise KeyTakenError(f"machine {certificate.machine_id} requests a certificate with the key {whose}")
            if renews:
                OF_MACHINES.refuse_many(connection, certificate.machine_id, now)
            connection.execute(certificates.insert().values({**vars(certificate), "issued_at": now}))

    def find_valid(self, serial: str) -> Certificate | None:
        """The certificate of that serial; ``None`` once it is revoked, or expired by the registry's clock."""
        with self._database.reading() as connection:
            row = OF_MACHINES.find_good(connection, serial, self._database.now(connection))
        return Certificate(**row._asdict()) if row else None

    def supersede(self, present: Certificate) -> int:
        """Revoke a machine's certificates that are older than the one it shows; returns their number.

        A renewed certificate is the machine's last one from the moment it is used: a copy of an older one is then
        worth nothing. Until then the older one counts, or a machine whose answer was lost could not ask again.
        """
        columns = certificates.c
        older = sa.and_(columns.machine_id == present.machine_id, columns.issued_at < present.issued_at)
        is_any = sa.select(columns.serial).where(older, columns.revoked_at.is_(None)).limit(1)
        if self._row(is_any) is None:
            return 0
        with self._database.writing() as connection:
            now = self._database.now(connection)
            return OF_MACHINES.revoke_where(connection, older, now, f"{present.serial} took its place")

    def find(self, serial: str) -> Certificate | None:
        """The certificate of that serial, valid or not."""
        row = self._row(sa.select(certificates).where(certificates.c.serial == serial))
        return Certificate(**row._asdict()) if row else None

    def list(self, machine_id: MachineId | None = None) -> tuple[Certificate, ...]:
        """Every certificate that has a row, or those of a machine; the newest first."""
        query = sa.select(certificates).order_by(certificates.c.issued_at.desc(), certificates.c.serial)
        if machine_id is not None:
            query = query.where(certificates.c.machine_id == machine_id)
        return tuple(Certificate(**row._asdict()) for row in self._rows(query))

    def list_revoked(self) -> builtins.list[str]:
        """Serials of certificates of machines and of services that were revoked and have not expired, in order."""
        with self._database.reading() as connection:
            now = self._database.now(connection)
            return sorted(
                serial for table in (OF_MACHINES, OF_SERVICES) for serial in table.list_revoked(connection, now)
            )

    def revoke(self, machine_id: MachineId, *, why: str) -> int:
        """Revoke every valid certificate of a machine; returns how many."""
        with self._database.writing() as connection:
            count = OF_MACHINES.revoke(connection, machine_id, self._database.now(connection), why)
            if count:
                after = {"certificates": count}
                self._note(connection, "certificates_revoked", f"machine/{machine_id}", after=after, why=why)
            return count


class RelayCallerRepository(Repository):
    """Certificates of services that may call the relay."""

    def add(self, caller: Caller, *, renews: str = "") -> None:
        """Record a certificate before it is handed out; the registry's clock says when it was issued.

        Args:
            caller: Its ``issued_at`` is ignored.
            renews: Serial of the valid certificate that the service authenticated with; empty where an operator admits
                the service, which is audited.

        Raises:
            RefusedError: The certificate to renew is not valid.
            UnavailableError: The service renewed too often within an hour.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            OF_SERVICES.delete_expired(connection, now)
            if renews:
                OF_SERVICES.refuse_uncounted(connection, renews, now)
                OF_SERVICES.refuse_many(connection, caller.name, now)
            connection.execute(relay_callers.insert().values({**vars(caller), "issued_at": now}))
            if not renews:
                after = {"serial": caller.serial}
                self._note(connection, "relay_caller_admitted", f"service/{caller.name}", after=after, why=caller.why)

    def find_valid(self, serial: str) -> Caller | None:
        """The certificate of that serial; ``None`` once it is revoked, or expired by the registry's clock."""
        with self._database.reading() as connection:
            row = OF_SERVICES.find_good(connection, serial, self._database.now(connection))
        return Caller(**row._asdict()) if row else None

    def list(self) -> tuple[Caller, ...]:
        """Every certificate that has a row, by service, the newest first."""
        query = sa.select(relay_callers).order_by(relay_callers.c.name, relay_callers.c.issued_at.desc())
        return tuple(Caller(**row._asdict()) for row in self._rows(query))

    def revoke(self, name: str, *, why: str) -> int:
        """Revoke every valid certificate of a service; returns how many."""
        with self._database.writing() as connection:
            count = OF_SERVICES.revoke(connection, name, self._database.now(connection), why)
            if count:
                after = {"certificates": count}
                self._note(connection, "relay_caller_revoked", f"service/{name}", after=after, why=why)
            return count
