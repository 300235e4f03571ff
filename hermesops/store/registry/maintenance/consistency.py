"""Finds rows that contradict each other. Changes nothing, and shows nothing secret."""

import uuid
from collections import Counter
from collections.abc import Callable, Iterator

import sqlalchemy as sa

from hermesops.errors import Hint, RefusedError
from hermesops.model.check import Contradiction
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.unassigned_machine import MachineRole, machine_subject
from hermesops.model.ids import instance_subject, is_machine_name
from hermesops.model.operation import LEASE_S, OperationKind
from hermesops.store.registry.audit.entries import AuditRepository
from hermesops.store.registry.encryption.sealing import sealed_cells
from hermesops.store.registry.meta import read_epoch
from hermesops.store.registry.repositories.base import Repository
from hermesops.store.registry.schema.tables import (
    LIVING,
    UNFINISHED,
    cells,
    hermes_connections,
    hermes_instances,
    instance_details,
    leases,
    operations,
    unassigned_machines,
)

_RESTORE = Hint(("registry", "copies"), "; a copy from before may have the row whole")
_OF_INSTANCES = frozenset(kind for kind in OperationKind if kind.needs_instance)


def contradictions_of(consistency: "ConsistencyRepository", audit: AuditRepository) -> tuple[Contradiction, ...]:
    """Contradictions between rows, and breaks of the audit's chain."""
    breaks = audit.check().findings
    chain = (Contradiction(f"audit/{broken.id}", broken.what, Hint(("audit", "verify"))) for broken in breaks)
    return (*consistency.contradictions(), *chain)


class ConsistencyRepository(Repository):
    """Checks of all rows against each other."""

    def contradictions(self) -> tuple[Contradiction, ...]:
        """Contradictions, in the order of the checks; ``audit.check`` checks the audit's chain."""
        checks: tuple[Callable[[sa.Connection], Iterator[Contradiction]], ...] = (
            self._instances,
            self._machines,
            self._unassigned,
            self._operations,
            self._leases,
            self._secrets,
            self._left_secrets,
        )
        with self._database.reading() as connection:
            return tuple(contradiction for check in checks for contradiction in check(connection))

    def _instances(self, connection: sa.Connection) -> Iterator[Contradiction]:
        bare = sa.select(hermes_instances.c.id).where(
            LIVING, hermes_instances.c.id.not_in(sa.select(instance_details.c.instance_id))
        )
        for id_ in connection.scalars(bare):
            yield Contradiction(instance_subject(id_), "has no details: no cell, no machine, no keys", _RESTORE)
        known = set(connection.scalars(sa.select(cells.c.name)))
        living = sa.select(instance_details, hermes_instances.c.status, hermes_instances.c.vm_id).join_from(
            instance_details, hermes_instances
        )
        for row in connection.execute(living.where(LIVING)):
            subject, name = instance_subject(row.instance_id), row.machine_name
            if row.cell not in known:
                yield Contradiction(subject, f"is in cell {row.cell}, which has no row", _RESTORE)
            if not is_machine_name(name, self._context.environment):
                what = f"its machine {name} has no name of environment {self._context.environment}"
                yield Contradiction(
                    subject, what, Hint(("settings", "show"), ": check that this is the right registry")
                )
            if row.status == InstanceStatus.RUNNING and row.vm_id is None:
                what = f"is running, and no machine {name} is recorded"
                yield Contradiction(subject, what, Hint(("fleet", "drift"), "names the command that records it"))

    def _machines(self, connection: sa.Connection) -> Iterator[Contradiction]:
        rows = connection.execute(
            sa.select(instance_details.c.instance_id, instance_details.c.machine_name, hermes_instances.c.vm_id)
            .join_from(instance_details, hermes_instances)
            .where(LIVING)
        ).all()
        for field, title in (("machine_name", "machine's name"), ("vm_id", "machine")):
            counts = Counter(value for row in rows if (value := getattr(row, field)))
            for value in sorted(value for value, count in counts.items() if count > 1):
                claimed = ", ".join(sorted(row.instance_id for row in rows if getattr(row, field) == value))
                what = f"is the {title} of {counts[value]} instances: {claimed}"
                yield Contradiction(
                    f"machine/{value}", what, Hint(("fleet", "drift", "--deep"), "asks the machine for its owner")
                )

    def _unassigned(self, connection: sa.Connection) -> Iterator[Contradiction]:
        known = set(connection.scalars(sa.select(cells.c.name)))
        living = set(connection.scalars(sa.select(hermes_instances.c.id).where(LIVING)))
        on = sa.select(instance_details.c.machine_name, hermes_instances.c.vm_id).join_from(
            instance_details, hermes_instances
        )
        taken = {value for row in connection.execute(on.where(LIVING)) for value in row if value}
        for row in connection.execute(sa.select(unassigned_machines).order_by(unassigned_machines.c.name)):
            subject = machine_subject(row.name)
            if row.cell not in known:
                yield Contradiction(subject, f"is in cell {row.cell}, which has no row", _RESTORE)
            if taken & {row.name, row.machine_id}:
                yield Contradiction(
                    subject,
                    "is an unassigned machine, and a living instance is on it",
                    Hint(("fleet", "drift", "--deep")),
                )
            if (row.role == MachineRole.WARM) != (row.instance_id is None):
                yield Contradiction(subject, f"is a {row.role} machine of {row.instance_id or 'nobody'}", _RESTORE)
            elif row.wanted and row.instance_id and row.instance_id not in living:
                what = f"is still wanted for instance {row.instance_id}, which is not alive"
                yield Contradiction(subject, what, Hint(("job", "run", "pools", row.cell)))

    def _operations(self, connection: sa.Connection) -> Iterator[Contradiction]:
        rows = connection.execute(sa.select(hermes_instances.c.id, hermes_instances.c.status))
        status = {row.id: row.status for row in rows}
        for row in connection.execute(sa.select(operations).where(UNFINISHED)):
            hint = Hint(("operation", "abandon", row.id))
            if row.instance_id is None and row.kind in _OF_INSTANCES:
                yield Contradiction(f"operation/{row.id}", f"{row.kind} of no instance", hint)
            elif row.instance_id is not None and row.instance_id not in status:
                yield Contradiction(f"operation/{row.id}", f"{row.kind} of an instance that has no row", hint)
            elif status.get(row.instance_id) == InstanceStatus.TERMINATED and row.kind != OperationKind.TERMINATE:
                yield Contradiction(f"operation/{row.id}", f"{row.kind} of an instance that is terminated", hint)

    def _leases(self, connection: sa.Connection) -> Iterator[Contradiction]:
        epoch, now = read_epoch(connection), self._database.now(connection)
        instances = set(connection.scalars(sa.select(hermes_instances.c.id)))
        for row in connection.execute(sa.select(leases)):
            subject = f"lease/{row.subject}"
            kind, _, which = str(row.subject).partition("/")
            if row.epoch > epoch:
                what = f"is of epoch {row.epoch}, the registry is at {epoch}: it was put back by hand"
                yield Contradiction(
                    subject,
                    what,
                    Hint(("registry", "restore", "--already-restored", "--reason", "WHY"), "opens a new epoch"),
                )
            is_held = row.holder and row.expires_at > now
            if is_held and kind == "instance" and _is_uuid(which) and which not in instances:
                what = f"is held by {row.holder}, and there is no such instance"
                yield Contradiction(subject, what, Hint(f"wait {LEASE_S:.0f} s"))

    def _secrets(self, connection: sa.Connection) -> Iterator[Contradiction]:
        for cell in sealed_cells(connection):
            try:
                self._context.sealer.unseal(cell.sealed, place=cell.place)
            except RefusedError as error:
                yield Contradiction(cell.place, f"does not open: {error.message}", error.hint or _RESTORE)

    def _left_secrets(self, connection: sa.Connection) -> Iterator[Contradiction]:
        ended = sa.select(hermes_instances.c.id).where(sa.not_(LIVING))
        left = sa.select(hermes_connections.c.instance_id).where(hermes_connections.c.instance_id.in_(ended)).distinct()
        for id_ in connection.scalars(left):
            what = "is terminated, and tokens of its services are still stored"
            yield Contradiction(instance_subject(id_), what, _RESTORE)


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
