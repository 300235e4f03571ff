"""Rows of ``backups`` and ``backup_repositories``: backups of each instance, and the keys of its repository."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.errors import Hint, RefusedError
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.overview import SHARE, LowOnDisk
from hermesops.model.ids import InstanceId, OperationId, instance_subject
from hermesops.model.operation import OperationKind
from hermesops.model.plan import Plan
from hermesops.model.recovery.backup import Backup, Credential, Loss, RepositoryKeys
from hermesops.model.recovery.state import State
from hermesops.model.unknown_name import find_by_id
from hermesops.store.registry.encryption.sealing import place
from hermesops.store.registry.repositories.base import Repository, insert_if_absent
from hermesops.store.registry.schema.tables import (
    LIVING,
    backup_repositories,
    backups,
    hermes_instances,
    operations,
    users,
)
from hermesops.store.registry.transactions.revoke_credentials import raise_token_floor

_TABLE = "backup_repositories"


class BackupRepository(Repository):
    """Backups and the keys to them. They outlive the instance until they are deleted by name."""

    def repository_keys(self, instance_id: InstanceId) -> RepositoryKeys | None:
        """Return the keys of an instance's repository; ``None`` if it has none."""
        row = self._row(_repository(instance_id))
        if row is None:
            return None
        password = self._unseal_key(row.password, "password", instance_id)
        if not row.access_key:
            return RepositoryKeys(password)
        access = self._unseal_key(row.access_key, "access_key", instance_id)
        return RepositoryKeys(password, Credential(access, self._unseal_key(row.secret_key, "secret_key", instance_id)))

    def make_repository(self, instance_id: InstanceId, password: str) -> str:
        """Store a repository's password unless the instance has one; returns the stored one."""
        with self._database.writing() as connection:
            sealed = self._seal_key(connection, password, "password", instance_id)
            values = {"instance_id": instance_id, "password": sealed}
            if insert_if_absent(connection, backup_repositories, values):
                self._note(connection, "backup_repository_made", instance_subject(instance_id))
                return password
            row = connection.execute(_repository(instance_id)).one()
        return self._unseal_key(row.password, "password", instance_id)

    def keep_credential(self, instance_id: InstanceId, credential: Credential, *, why: str) -> None:
        """Store a credential in place of the one before."""
        with self._database.writing() as connection:
            connection.execute(
                backup_repositories.update()
                .where(backup_repositories.c.instance_id == instance_id)
                .values(
                    access_key=self._seal_key(connection, credential.access_key, "access_key", instance_id),
                    secret_key=self._seal_key(connection, credential.secret_key, "secret_key", instance_id),
                    issued_at=self._database.now(connection),
                )
            )
            self._note(connection, "backup_credential_issued", instance_subject(instance_id), why=why)

    def record(self, backup: Backup) -> None:
        """Record a backup; recording it again changes nothing."""
        with self._database.writing() as connection:
            if insert_if_absent(connection, backups, vars(backup) | {"state": backup.state.to_json()}):
                after = {"backup": backup.id, "bytes": backup.bytes, "added": backup.added}
                subject = instance_subject(backup.instance_id)
                self._note(connection, "backed_up", subject, after=after, why=backup.why)

    def record_check(self, backup_id: str, problem: str, *, where: str = "") -> None:
        """Record a test restore on machine ``where``: ``problem`` is empty for success."""
        with self._database.writing() as connection:
            checked = {"checked_at": self._database.now(connection), "checked": problem}
            recording = backups.update().where(backups.c.id == backup_id).values(checked)
            owner = connection.execute(recording.returning(backups.c.instance_id)).scalar_one()
            after = {"backup": backup_id, "problem": problem}
            self._note(connection, "backup_checked", instance_subject(InstanceId(owner)), after=after, why=where)

    def record_restored(self, instance_id: InstanceId, backup_id: str, operation_id: OperationId, *, why: str) -> None:
        """Record that an operation restored its backup, so that it does not restore it twice.

        The instance's tokens for the model router are revoked: the state before may have been an intruder's work.
        """
        with self._database.writing() as connection:
            row = connection.execute(_repository(instance_id)).one_or_none()
            if row is not None and row.restored_by == operation_id:
                return
            raise_token_floor(connection, instance_id)
            connection.execute(
                backup_repositories.update()
                .where(backup_repositories.c.instance_id == instance_id)
                .values(restored_by=operation_id)
            )
            self._note(
                connection, "state_restored", instance_subject(instance_id), after={"backup": backup_id}, why=why
            )

    def restored_by(self, instance_id: InstanceId) -> OperationId | None:
        """The operation that restored a backup last."""
        row = self._row(_repository(instance_id))
        return OperationId(row.restored_by) if row and row.restored_by else None

    def list(self, instance_id: InstanceId | None = None) -> tuple[Backup, ...]:
        """Backups, newest first; of one instance or of all."""
        query = sa.select(backups).order_by(backups.c.at.desc(), backups.c.id)
        if instance_id is not None:
            query = query.where(backups.c.instance_id == instance_id)
        return tuple(map(_backup, self._rows(query)))

    def get(self, instance_id: InstanceId, text: str) -> Backup:
        """Return an instance's backup by an unambiguous beginning of its id; the newest for an empty text.

        Raises:
            UsageError: No id, or more than one, begins with the text.
            RefusedError: The instance has no backup.
        """
        by_id = {backup.id: backup for backup in self.list(instance_id)}
        if text:
            return by_id[find_by_id("backup", text, by_id, of=instance_id)]
        if not by_id:
            raise RefusedError(f"instance {instance_id} has no backup", hint=Hint(("backup", "create", instance_id)))
        return next(iter(by_id.values()))

    def is_backed_up(self, instance_id: InstanceId) -> bool:
        """Return whether an instance has a backup."""
        row = self._row(sa.select(sa.exists().where(backups.c.instance_id == instance_id)))
        return bool(row and row[0])

    def newest(self) -> Mapping[InstanceId, datetime | None]:
        """When each living instance was backed up last; ``None`` for never."""
        query = (
            sa.select(hermes_instances.c.id, sa.func.max(backups.c.at, type_=backups.c.at.type))
            .select_from(hermes_instances.outerjoin(backups))
            .where(LIVING)
            .group_by(hermes_instances.c.id)
        )
        return {InstanceId(id_): at for id_, at in self._rows(query)}

    def never(self) -> Mapping[InstanceId, datetime]:
        """When each living instance that was never backed up was created."""
        query = (
            sa.select(hermes_instances.c.id, hermes_instances.c.created_at)
            .select_from(hermes_instances.outerjoin(backups))
            .where(LIVING, backups.c.id.is_(None))
        )
        return {InstanceId(id_): at for id_, at in self._rows(query)}

    def loss(self, objective: timedelta) -> Loss:
        """Compare the age of running agents' newest backups with the objective."""
        of, created_at = hermes_instances.c.id, hermes_instances.c.created_at
        newest = sa.select(sa.func.max(backups.c.at, type_=backups.c.at.type)).where(backups.c.instance_id == of)
        agents = (
            sa.select(created_at, newest.scalar_subquery().label("newest"))
            .where(hermes_instances.c.status == InstanceStatus.RUNNING)
            .subquery()
        )
        saved_at = sa.func.coalesce(agents.c.newest, agents.c.created_at, type_=created_at.type)
        with self._database.reading() as connection:
            now = self._database.now(connection)
            is_late = saved_at < sa.literal(now - objective, created_at.type)
            query = sa.select(
                sa.func.count(),
                sa.func.min(saved_at, type_=created_at.type),
                sa.func.sum(sa.case((is_late, 1), else_=0)),
                sa.func.sum(sa.case((agents.c.newest.is_(None), 1), else_=0)),
            ).select_from(agents)
            count, oldest, late, never = connection.execute(query).one()
        return Loss(
            agents=count,
            oldest_s=int((now - oldest).total_seconds()) if oldest else 0,
            late=late or 0,
            never=never or 0,
            objective_s=int(objective.total_seconds()),
        )

    def newest_checks(self) -> Mapping[InstanceId, datetime | None]:
        """When a backup of each living instance that has any was last restored and compared; ``None`` for never."""
        query = (
            sa.select(backups.c.instance_id, sa.func.max(backups.c.checked_at, type_=backups.c.checked_at.type))
            .join(hermes_instances)
            .where(LIVING)
            .group_by(backups.c.instance_id)
        )
        return {InstanceId(id_): at for id_, at in self._rows(query)}

    def first_at(self) -> datetime | None:
        """When the oldest backup that is kept was made."""
        row = self._row(sa.select(sa.func.min(backups.c.at, type_=backups.c.at.type)))
        return row[0] if row else None

    def forget(self, instance_id: InstanceId, ids: Collection[str], *, why: str) -> None:
        """Drop the rows of backups that are gone from the repository."""
        if not ids:
            return
        with self._database.writing() as connection:
            connection.execute(
                backups.delete().where(backups.c.instance_id == instance_id, backups.c.id.in_(list(ids)))
            )
            before = {"backups": sorted(ids)}
            self._note(connection, "backups_forgotten", instance_subject(instance_id), before=before, why=why)

    def list_ended_repositories(self) -> Mapping[InstanceId, datetime]:
        """When each terminated instance that still has a repository ended: its last operation or last backup."""
        of = hermes_instances.c.id
        ends = sa.select(sa.func.max(operations.c.updated_at, type_=operations.c.updated_at.type)).where(
            operations.c.instance_id == of, operations.c.kind == OperationKind.TERMINATE.value
        )
        copies = sa.select(sa.func.max(backups.c.at, type_=backups.c.at.type)).where(backups.c.instance_id == of)
        query = (
            sa.select(of, hermes_instances.c.created_at, ends.scalar_subquery(), copies.scalar_subquery())
            .join(backup_repositories)
            .where(sa.not_(LIVING))
        )
        return {InstanceId(id_): max(at for at in timestamps if at) for id_, *timestamps in self._rows(query)}

    def forget_repository(self, instance_id: InstanceId, *, why: str) -> None:
        """Delete the keys of a deleted repository and the rows of its backups; safe to call twice.

        Raises:
            RefusedError: The instance is not terminated.
        """
        with self._database.writing() as connection:
            status = sa.select(hermes_instances.c.status).where(hermes_instances.c.id == instance_id)
            if connection.execute(status.with_for_update()).scalar_one() != InstanceStatus.TERMINATED:
                raise RefusedError(f"instance {instance_id} has not ended: its backups stay")
            gone = connection.execute(backups.delete().where(backups.c.instance_id == instance_id)).rowcount
            deletion = backup_repositories.delete().where(backup_repositories.c.instance_id == instance_id)
            if connection.execute(deletion.returning(backup_repositories.c.instance_id)).first():
                before = {"backups": gone}
                self._note(connection, "repository_erased", instance_subject(instance_id), before=before, why=why)

    def list_low_on_disk(self, sizes: Mapping[Plan, int], *, share: float = SHARE) -> tuple[LowOnDisk, ...]:
        """Return agents whose newest backup exceeds that share of their plan's bytes, the fullest first."""
        columns, newer = backups.c, backups.alias()
        large = sa.or_(
            sa.false(),
            *(sa.and_(hermes_instances.c.plan == plan, columns.bytes >= size * share) for plan, size in sizes.items()),
        )
        is_newest = ~sa.exists().where(newer.c.instance_id == columns.instance_id, newer.c.at > columns.at)
        query = (
            sa.select(users.c.alias, hermes_instances.c.user_id, hermes_instances.c.plan, columns.bytes)
            .select_from(backups.join(hermes_instances).join(users))
            .where(LIVING, large, is_newest)
        )
        crowded = [
            LowOnDisk(row.alias or row.user_id, Plan(row.plan), row.bytes, sizes[Plan(row.plan)])
            for row in self._rows(query)
        ]
        return tuple(sorted(crowded, key=lambda agent: (-agent.bytes / agent.size, agent.user)))

    def _seal_key(self, connection: sa.Connection, plain: str, column: str, instance_id: InstanceId) -> str:
        return self._seal_in(connection, plain, place(_TABLE, column, instance_id))

    def _unseal_key(self, sealed: str, column: str, instance_id: InstanceId) -> str:
        return self._context.sealer.unseal(sealed, place=place(_TABLE, column, instance_id))


def _repository(instance_id: InstanceId) -> sa.Select[Any]:
    return sa.select(backup_repositories).where(backup_repositories.c.instance_id == instance_id)


def _backup(row: sa.Row[Any]) -> Backup:
    return Backup(**row._asdict() | {"state": State.from_json(row.state)})
