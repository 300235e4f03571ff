"""Termination of an instance: its status, its secrets and its unfinished operations, in one transaction."""

import sqlalchemy as sa

from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId, OperationId, instance_subject
from hermesops.model.operation import OperationKind, OperationStatus
from hermesops.store.registry.repositories.base import Repository, WriteContext
from hermesops.store.registry.repositories.instances.instance import (
    NO_SETTINGS,
    InstanceSecretRepository,
    details_in,
    update_details,
)
from hermesops.store.registry.repositories.machines.data_keys import destroy_data_keys
from hermesops.store.registry.repositories.operations import OperationRepository
from hermesops.store.registry.schema.tables import (
    UNFINISHED,
    hermes_connections,
    hermes_instances,
    operations,
    proxy_tokens,
)
from hermesops.store.registry.schema.user_tables import settings_copies
from hermesops.store.registry.transactions.revoke_credentials import (
    mark_unassigned_for_deletion,
    raise_token_floor,
    revoke_machine,
)


class TerminationTransactions(Repository):
    """Terminations of instances: row, credentials and data keys in one transaction."""

    def __init__(self, context: WriteContext) -> None:
        super().__init__(context)
        self._operations = OperationRepository(context)
        self._secrets = InstanceSecretRepository(context)

    def terminate(self, instance_id: InstanceId, *, why: str = "") -> None:
        """Mark an instance as terminated and erase its secrets; safe to call twice.

        Its API key, settings, connections, proxy tokens and data keys are deleted, its certificates and model tokens
        revoked, its unassigned machines given up, its unfinished operations abandoned.
        """
        with self._database.writing() as connection:
            self.terminate_in(connection, instance_id, why)

    def terminate_in(self, connection: sa.Connection, instance_id: InstanceId, why: str) -> None:
        """Do ``terminate`` within the caller's transaction."""
        columns = hermes_instances.c
        details_in(connection, instance_id, lock=True)
        row = connection.execute(sa.select(hermes_instances).where(columns.id == instance_id)).one()
        if row.status == InstanceStatus.TERMINATED:
            return
        connection.execute(
            hermes_instances.update().where(columns.id == instance_id).values(status=InstanceStatus.TERMINATED)
        )
        erased = {
            "settings": self._secrets.seal_in(connection, NO_SETTINGS, "settings", instance_id),
            "api_server_key": self._secrets.seal_in(connection, "", "api_server_key", instance_id),
            "settings_before": None,
            "machine_wanted": False,
        }
        update_details(connection, instance_id, **erased)
        raise_token_floor(connection, instance_id)
        connection.execute(settings_copies.delete().where(settings_copies.c.instance_id == instance_id))
        connection.execute(hermes_connections.delete().where(hermes_connections.c.instance_id == instance_id))
        connection.execute(proxy_tokens.delete().where(proxy_tokens.c.machine_id == row.vm_id))
        now = self._database.now(connection)
        mark_unassigned_for_deletion(connection, instance_id, now)
        revoke_machine(connection, row.vm_id, now, "its instance was terminated")
        destroy_data_keys(connection, now, machine_id=row.vm_id, instance_id=instance_id)
        before, after = {"status": row.status}, {"status": InstanceStatus.TERMINATED}
        self._note(connection, "status_changed", instance_subject(instance_id), before=before, after=after, why=why)
        self._abandon_others(connection, instance_id)

    def _abandon_others(self, connection: sa.Connection, instance_id: InstanceId) -> None:
        """Abandon the instance's unfinished operations, which cannot end any more."""
        others = sa.and_(
            operations.c.instance_id == instance_id, operations.c.kind != OperationKind.TERMINATE.value, UNFINISHED
        )
        for id_ in connection.scalars(sa.select(operations.c.id).where(others).with_for_update()).all():
            self._operations.move_in(
                connection,
                OperationId(id_),
                status=OperationStatus.ABANDONED,
                outcome="abandoned: its instance was terminated",
            )
