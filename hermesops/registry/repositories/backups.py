"""Rows of ``backups`` and ``backup_repositories``: what was copied of each instance, and what opens it."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.model.backup import Backup, Credential, Loss, RepositoryKeys
from hermesops.model.fleet import SHARE, LowOnDisk
from hermesops.model.ids import InstanceId, OperationId, instance_subject
from hermesops.model.instance import InstanceStatus
from hermesops.model.operation import OperationKind
from hermesops.model.plan import Plan
from hermesops.model.state import State
from hermesops.model.unknown_name import find_by_id
from hermesops.registry.encryption.sealing import place
from hermesops.registry.repositories.base import Repository, insert_if_absent
from hermesops.registry.schema.tables import LIVING, backup_repositories, backups, hermes_instances, operations, users
from hermesops.registry.transactions.revoke_credentials import raise_token_floor

_TABLE = "backup_repositories"


class BackupRepository(Repository):
    """Backups and the keys to them. They outlive the instance: whoever wants them gone says so."""

    def repository_keys(self, instance_id: InstanceId) -> RepositoryKeys | None:
        """What opens an instance's repository; ``None`` while it has none."""
        with self._database.reading() as connection:
            row = self._repository_in(connection, instance_id)
        if row is None:
            return None
        password = self._unseal_key(row.password, "password", instance_id)
        if not row.access_key:
            return RepositoryKeys(password)
        access, secret = (
            self._unseal_key(getattr(row, name), name, instance_id) for name in ("access_key", "secret_key")
        )
        return RepositoryKeys(password, Credential(access, secret))

    def make_repository(self, instance_id: InstanceId, password: str) -> str:
        """Give an instance a repository's password, unless it has one; the one that counts."""
        with self._database.writing() as connection:
            sealed = self._seal_key(connection, password, "password", instance_id)
            values = {"instance_id": instance_id, "password": sealed}
            if insert_if_absent(connection, backup_repositories, values):
                self._note(connection, "backup_repository_made", instance_subject(instance_id))
                return password
            kept = self._repository_in(connection, instance_id)
        return self._unseal_key(kept.password, "password", instance_id) if kept else password

    def keep_credential(self, instance_id: InstanceId, credential: Credential, *, why: str) -> None:
        """Remember a credential instead of the one before it."""
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
        values = {
            "id": backup.id,
            "instance_id": backup.instance_id,
            "at": backup.at,
            "why": backup.why,
            "bytes": backup.bytes,
            "added": backup.added,
            "state": backup.state.to_json(),
            "checked_at": backup.checked_at,
            "checked": backup.checked,
        }
        with self._database.writing() as connection:
            if insert_if_absent(connection, backups, values):
                after = {"backup": backup.id, "bytes": backup.bytes, "added": backup.added}
                subject = instance_subject(backup.instance_id)
                self._note(connection, "backed_up", subject, after=after, why=backup.why)

    def record_check(self, backup_id: str, problem: str, *, where: str = "") -> None:
        """Record that a backup was restored and compared, what was wrong, empty for nothing, and where it was."""
        with self._database.writing() as connection:
            row = connection.execute(sa.select(backups).where(backups.c.id == backup_id)).one()
            connection.execute(
                backups.update()
                .where(backups.c.id == backup_id)
                .values(checked_at=self._database.now(connection), checked=problem)
            )
            after = {"backup": backup_id, "problem": problem}
            subject = instance_subject(InstanceId(row.instance_id))
            self._note(connection, "backup_checked", subject, after=after, why=where)

    def record_restored(self, instance_id: InstanceId, backup_id: str, operation_id: OperationId, *, why: str) -> None:
        """Record that an operation's backup is in place, so that it is not put there a second time.

        What was there before may have been somebody else's work: its tokens for the model router are revoked.
        """
        with self._database.writing() as connection:
            if self._is_recorded(connection, instance_id, operation_id):
                return
            raise_token_floor(connection, instance_id)
            connection.execute(
                backup_repositories.update()
                .where(backup_repositories.c.instance_id == instance_id)
                .values(restored_by=operation_id)
            )
            after = {"backup": backup_id}
            self._note(connection, "state_restored", instance_subject(instance_id), after=after, why=why)

    def _is_recorded(self, connection: sa.Connection, instance_id: InstanceId, operation_id: OperationId) -> bool:
        row = self._repository_in(connection, instance_id)
        return row is not None and row.restored_by == operation_id

    def restored_by(self, instance_id: InstanceId) -> OperationId | None:
        """The operation that put a backup in place last."""
        with self._database.reading() as connection:
            row = self._repository_in(connection, instance_id)
        return OperationId(row.restored_by) if row and row.restored_by else None

    def list(self, instance_id: InstanceId | None = None) -> tuple[Backup, ...]:
        """Backups, newest first; of one instance or of all."""
        query = sa.select(backups).order_by(backups.c.at.desc(), backups.c.id)
        if instance_id is not None:
            query = query.where(backups.c.instance_id == instance_id)
        with self._database.reading() as connection:
            return tuple(_backup(row) for row in connection.execute(query))

    def get(self, instance_id: InstanceId, text: str) -> Backup:
        """The one backup of an instance whose id begins so; the newest for an empty text.

        Raises:
            UsageError: None begins so, or several do.
            RefusedError: There is none at all.
        """
        by_id = {backup.id: backup for backup in self.list(instance_id)}
        if text:
            return by_id[find_by_id("backup", text, by_id, of=instance_id)]
        if not by_id:
            raise RefusedError(f"instance {instance_id} has no backup", hint=f"hermesops backup create {instance_id}")
        return next(iter(by_id.values()))

    def is_backed_up(self, instance_id: InstanceId) -> bool:
        """Whether there is a backup of an instance."""
        query = sa.select(sa.exists().where(backups.c.instance_id == instance_id))
        with self._database.reading() as connection:
            return bool(connection.scalar(query))

    def newest(self) -> Mapping[InstanceId, datetime | None]:
        """When each living instance was backed up last; ``None`` for never."""
        query = (
            sa.select(hermes_instances.c.id, sa.func.max(backups.c.at, type_=backups.c.at.type))
            .select_from(hermes_instances.outerjoin(backups, backups.c.instance_id == hermes_instances.c.id))
            .where(LIVING)
            .group_by(hermes_instances.c.id)
        )
        with self._database.reading() as connection:
            return {InstanceId(id_): at for id_, at in connection.execute(query)}

    def loss(self, objective: timedelta) -> Loss:
        """How long ago the agents that run were backed up, held against how long that may be."""
        of, made = hermes_instances.c.id, hermes_instances.c.created_at
        newest = sa.select(sa.func.max(backups.c.at, type_=backups.c.at.type)).where(backups.c.instance_id == of)
        query = sa.select(made, newest.scalar_subquery()).where(hermes_instances.c.status == InstanceStatus.RUNNING)
        with self._database.reading() as connection:
            now = self._database.now(connection)
            found = [(now - (at or born), at is None) for born, at in connection.execute(query)]
        ages = [age for age, _ in found]
        return Loss(
            agents=len(found),
            oldest_s=int(max(ages, default=timedelta()).total_seconds()),
            late=sum(age > objective for age in ages),
            never=sum(never for _, never in found),
            objective_s=int(objective.total_seconds()),
        )

    def newest_checks(self) -> Mapping[InstanceId, datetime | None]:
        """When a backup of each living instance that has any was last restored and compared; ``None`` for never."""
        query = (
            sa.select(backups.c.instance_id, sa.func.max(backups.c.checked_at, type_=backups.c.checked_at.type))
            .join(hermes_instances, hermes_instances.c.id == backups.c.instance_id)
            .where(LIVING)
            .group_by(backups.c.instance_id)
        )
        with self._database.reading() as connection:
            return {InstanceId(id_): at for id_, at in connection.execute(query)}

    def first_at(self) -> datetime | None:
        """When the oldest backup that is kept was made."""
        with self._database.reading() as connection:
            query = sa.select(sa.func.min(backups.c.at, type_=backups.c.at.type))
            return connection.execute(query).scalar()

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

    def _repository_in(self, connection: sa.Connection, instance_id: InstanceId) -> sa.Row[Any] | None:
        query = sa.select(backup_repositories).where(backup_repositories.c.instance_id == instance_id)
        return connection.execute(query).one_or_none()

    def _seal_key(self, connection: sa.Connection, plain: str, column: str, instance_id: InstanceId) -> str:
        return self._seal_in(connection, plain, place(_TABLE, column, instance_id))

    def _unseal_key(self, sealed: str, column: str, instance_id: InstanceId) -> str:
        return self._context.sealer.unseal(sealed, place=place(_TABLE, column, instance_id))


def _backup(row: sa.Row[Any]) -> Backup:
    return Backup(
        row.id,
        InstanceId(row.instance_id),
        row.at,
        row.why,
        row.bytes,
        row.added,
        State.from_json(row.state),
        row.checked_at,
        row.checked,
    )


class EndedBackupRepository(Repository):
    """Repositories of instances that ended."""

    def list_repositories(self) -> Mapping[InstanceId, datetime]:
        """Since when instances are terminated that have a repository; the latest of what could tell it."""
        of = hermes_instances.c.id
        ends = sa.select(sa.func.max(operations.c.updated_at, type_=operations.c.updated_at.type)).where(
            operations.c.instance_id == of, operations.c.kind == OperationKind.TERMINATE.value
        )
        copies = sa.select(sa.func.max(backups.c.at, type_=backups.c.at.type)).where(backups.c.instance_id == of)
        query = (
            sa.select(of, hermes_instances.c.created_at, ends.scalar_subquery(), copies.scalar_subquery())
            .join(backup_repositories, backup_repositories.c.instance_id == of)
            .where(sa.not_(LIVING))
        )
        with self._database.reading() as connection:
            return {InstanceId(id_): max(at for at in told if at) for id_, *told in connection.execute(query)}

    def forget_repository(self, instance_id: InstanceId, *, why: str) -> None:
        """Drop what opened a repository that is gone, and the rows of its backups; safe to call twice.

        Raises:
            RefusedError: The instance has not ended.
        """
        with self._database.writing() as connection:
            status = sa.select(hermes_instances.c.status).where(hermes_instances.c.id == instance_id)
            if connection.execute(status.with_for_update()).scalar_one() != InstanceStatus.TERMINATED:
                raise RefusedError(f"instance {instance_id} has not ended: its backups stay")
            gone = connection.execute(backups.delete().where(backups.c.instance_id == instance_id)).rowcount
            held = backup_repositories.delete().where(backup_repositories.c.instance_id == instance_id)
            if connection.execute(held.returning(backup_repositories.c.instance_id)).first():
                before = {"backups": gone}
                self._note(connection, "repository_erased", instance_subject(instance_id), before=before, why=why)


class StoragePressureRepository(Repository):
    """Agents that are low on disk."""

    def list(self, sizes: Mapping[Plan, int], *, share: float = SHARE) -> tuple[LowOnDisk, ...]:
        """Running agents whose newest backup takes more than that part of their plan's bytes, the fullest first."""
        columns, newer = backups.c, backups.alias()
        large = sa.or_(
            sa.false(),
            *(sa.and_(hermes_instances.c.plan == plan, columns.bytes >= size * share) for plan, size in sizes.items()),
        )
        is_newest = ~sa.exists().where(newer.c.instance_id == columns.instance_id, newer.c.at > columns.at)
        query = (
            sa.select(users.c.alias, hermes_instances.c.user_id, hermes_instances.c.plan, columns.bytes)
            .select_from(backups.join(hermes_instances, hermes_instances.c.id == columns.instance_id))
            .join(users, users.c.id == hermes_instances.c.user_id)
            .where(LIVING, large, is_newest)
        )
        with self._database.reading() as connection:
            found = connection.execute(query).all()
        crowded = [
            LowOnDisk(row.alias or row.user_id, Plan(row.plan), row.bytes, sizes[Plan(row.plan)]) for row in found
        ]
        return tuple(sorted(crowded, key=lambda one: (-one.bytes / one.size, one.user)))
