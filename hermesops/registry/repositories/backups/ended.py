"""What is left of terminated instances outside the vendor: their repositories, and what opens them."""

from collections.abc import Mapping
from datetime import datetime

import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.model.ids import InstanceId, instance_subject
from hermesops.model.instance import InstanceStatus
from hermesops.model.operation import OperationKind
from hermesops.registry.repositories.base import Repository
from hermesops.registry.schema.tables import LIVING, backup_repositories, backups, hermes_instances, operations


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
