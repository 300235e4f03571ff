"""Removes a whole world: every row about its machines, in one transaction; users, releases and the audit stay."""

from dataclasses import dataclass

import sqlalchemy as sa

from hermesops.model.ids import InstanceId, OperationId
from hermesops.model.operation import OperationStatus
from hermesops.model.rollout.records import RolloutEvent, RolloutId, RolloutState, rollout_subject
from hermesops.store.registry.repositories.base import Repository, WriteContext
from hermesops.store.registry.repositories.operations import OperationRepository
from hermesops.store.registry.repositories.rollouts.rollout import append_event
from hermesops.store.registry.repositories.rollouts.targets import set_held
from hermesops.store.registry.schema.tables import (
    LIVING,
    UNFINISHED,
    backup_repositories,
    backups,
    cells,
    certificates,
    data_keys,
    exposures,
    health_samples,
    hermes_instances,
    images,
    instance_releases,
    leases,
    machine_observations,
    meta,
    operations,
    proxy_tokens,
    rollouts,
    ssh_hosts,
    unassigned_machines,
)
from hermesops.store.registry.transactions.terminate import TerminationTransactions

_OF_MACHINES = (
    unassigned_machines,
    images,
    proxy_tokens,
    machine_observations,
    health_samples,
    instance_releases,
    exposures,
    ssh_hosts,
)
_UNFINISHED_ROLLOUTS = rollouts.c.state.in_([state.value for state in RolloutState if not state.has_ended])


@dataclass(frozen=True)
class Fleet:
    """Row counts of a world's machines and backups.

    Attributes:
        instances: Instances that are not terminated.
        unassigned: Unassigned machines.
        backups: Backups, including those of terminated instances.
    """

    instances: int
    unassigned: int
    images: int
    backups: int
    operations: int
    rollouts: int

    def __bool__(self) -> bool:
        """Return whether any row is counted."""
        return any(vars(self).values())


class PurgeTransactions(Repository):
    """Removal of the rows of a whole world."""

    def __init__(self, context: WriteContext) -> None:
        super().__init__(context)
        self._operations = OperationRepository(context)
        self._terminations = TerminationTransactions(context)

    def count(self) -> Fleet:
        """Count the rows that ``purge`` would remove."""
        with self._database.reading() as connection:
            return _count(connection)

    def known_machines(self) -> frozenset[str]:
        """Ids of the machines of instances that are not terminated, and of unassigned ones."""
        of_instances = sa.select(hermes_instances.c.vm_id).where(LIVING, hermes_instances.c.vm_id.is_not(None))
        of_unassigned = sa.select(unassigned_machines.c.machine_id).where(unassigned_machines.c.machine_id.is_not(None))
        with self._database.reading() as connection:
            return frozenset(connection.scalars(of_instances.union(of_unassigned)))

    def purge(self, *, with_backups: bool, why: str) -> Fleet:
        """Remove everything about machines; writes nothing where there is nothing.

        Instances are terminated, as by ``terminations.terminate``; unassigned machines and images are deleted, rollouts
        aborted, operations abandoned, leases ended. Users, cells, releases, freezes and the audit stay.
        ``with_backups`` deletes the rows of backups and the keys of their repositories too: their bucket is gone.

        Returns:
            What was removed.
        """
        with self._database.writing() as connection:
            counted = _count(connection)
            ended = counted if with_backups else Fleet(**{**vars(counted), "backups": 0})
            if not ended:
                return ended
            self._note(connection, "world_purged", "world", before=vars(ended), why=why)
            for id_ in connection.scalars(sa.select(hermes_instances.c.id).where(LIVING)).all():
                self._terminations.terminate_in(connection, InstanceId(id_), why)
            self._end_rollouts(connection, why)
            self._end_operations(connection)
            self._forget_machines(connection, why)
            if with_backups:
                connection.execute(backups.delete())
                connection.execute(backup_repositories.delete())
            return ended

    def _end_rollouts(self, connection: sa.Connection, why: str) -> None:
        now = self._database.now(connection)
        for row in connection.execute(sa.select(rollouts).where(_UNFINISHED_ROLLOUTS)).all():
            aborted = {"state": RolloutState.ABORTED.value, "reason": why, "updated_at": now}
            connection.execute(rollouts.update().where(rollouts.c.id == row.id).values(aborted))
            set_held(connection, RolloutId(row.id), is_held=False)
            append_event(connection, RolloutId(row.id), RolloutEvent(now, "abort", {"why": why}, {}))
            before, after = {"state": row.state}, {"state": RolloutState.ABORTED.value}
            subject = rollout_subject(RolloutId(row.id))
            self._note(connection, "rollout_changed", subject, before=before, after=after, why=why)

    def _end_operations(self, connection: sa.Connection) -> None:
        for id_ in connection.scalars(sa.select(operations.c.id).where(UNFINISHED)).all():
            outcome = "abandoned: its world was purged"
            self._operations.move_in(connection, OperationId(id_), status=OperationStatus.ABANDONED, outcome=outcome)
        connection.execute(leases.update().values(holder=""))

    def _forget_machines(self, connection: sa.Connection, why: str) -> None:
        now = self._database.now(connection)
        revoked = {"revoked_at": now, "why": why}
        connection.execute(certificates.update().where(certificates.c.revoked_at.is_(None)).values(revoked))
        destroyed = {"key": None, "destroyed_at": now}
        connection.execute(data_keys.update().where(data_keys.c.destroyed_at.is_(None)).values(destroyed))
        connection.execute(cells.update().values(applied_at=None))
        connection.execute(meta.delete().where(meta.c.name.startswith("image/")))
        for table in _OF_MACHINES:
            connection.execute(table.delete())


def _count(connection: sa.Connection) -> Fleet:
    def count(table: sa.Table, *which: sa.ColumnElement[bool]) -> int:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table).where(*which)).scalar_one())

    return Fleet(
        instances=count(hermes_instances, LIVING),
        unassigned=count(unassigned_machines),
        images=count(images),
        backups=count(backups),
        operations=count(operations, UNFINISHED),
        rollouts=count(rollouts, _UNFINISHED_ROLLOUTS),
    )
