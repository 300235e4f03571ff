"""Writes rows from machines' own reports, after the registry was lost or is out of date."""

import sqlalchemy as sa

from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId, MachineId, MachineName, UserId, instance_subject
from hermesops.model.recovery.recovered import Recovered
from hermesops.store.registry.repositories.base import Repository, WriteContext, insert_if_absent
from hermesops.store.registry.repositories.instances.instance import (
    InstanceSecretRepository,
    details_in,
    update_details,
)
from hermesops.store.registry.schema.tables import LIVING, cells, hermes_instances, instance_details, users


class RecoveryTransactions(Repository):
    """Writes of lost rows from machines' reports."""

    def __init__(self, context: WriteContext) -> None:
        super().__init__(context)
        self._secrets = InstanceSecretRepository(context)

    def recover_instance(self, recovered: Recovered, *, why: str) -> bool:
        """Write the rows of an instance, its user and its cell; returns whether the instance was missing.

        Nothing is changed where the instance has a row, or its user another living instance.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            insert_if_absent(connection, cells, {"name": recovered.cell, "region": recovered.region, "created_at": now})
            insert_if_absent(connection, users, {"id": recovered.user_id, "alias": None, "created_at": now})
            if recovered.user_alias:
                give_alias(connection, recovered.user_id, recovered.user_alias)
            row = {
                "id": recovered.id,
                "user_id": recovered.user_id,
                "plan": recovered.plan,
                "vm_id": recovered.machine_id or None,
                "status": recovered.status,
                "created_at": recovered.created_at,
            }
            if not insert_if_absent(connection, hermes_instances, row):
                return False
            details = {
                "instance_id": recovered.id,
                "cell": recovered.cell,
                "machine_name": recovered.machine_name,
                "machine_wanted": recovered.status is not InstanceStatus.TERMINATED,
                "server_type": recovered.server_type,
                "region": recovered.region,
                "image_id": recovered.image_id,
                "epoch": recovered.epoch,
                "settings": self._secrets.seal_settings_in(connection, recovered.settings, "settings", recovered.id),
                "settings_revision": 1,
                "api_server_key": self._secrets.seal_in(
                    connection, recovered.api_server_key, "api_server_key", recovered.id
                ),
                "model_token_generation": recovered.model_token_generation,
                "model_token_expires_at": recovered.model_token_expires_at,
                "model_token_handed_at": now if recovered.model_token_expires_at else None,
            }
            connection.execute(instance_details.insert().values(details))
            after: dict[str, object] = {
                "machine": recovered.machine_name,
                "cell": recovered.cell,
                "plan": recovered.plan.value,
            }
            self._note(connection, "instance_recovered", instance_subject(recovered.id), after=after, why=why)
        return True

    def call_user(self, user_id: UserId, alias: str, *, why: str) -> bool:
        """Give a user without an alias this one, unless it is empty or another user's; returns whether it was given."""
        with self._database.writing() as connection:
            if not alias or not give_alias(connection, user_id, alias):
                return False
            self._note(connection, "user_named", f"user/{user_id}", after={"alias": alias}, why=why)
        return True

    def take_machine(
        self, instance_id: InstanceId, machine_id: MachineId, machine_name: MachineName, *, why: str
    ) -> None:
        """Assign a living instance the machine that has its state; the one before no longer exists."""
        columns = hermes_instances.c
        with self._database.writing() as connection:
            before = details_in(connection, instance_id)
            connection.execute(
                hermes_instances.update().where(columns.id == instance_id, LIVING).values(vm_id=machine_id, vm_ip=None)
            )
            update_details(connection, instance_id, machine_name=machine_name, machine_wanted=True)
            self._note(
                connection,
                "machine_taken",
                instance_subject(instance_id),
                before={"machine": before.machine_name},
                after={"machine": machine_name, "id": machine_id},
                why=why,
            )

    def accept_server_type(self, instance_id: InstanceId, server_type: str, *, why: str) -> str:
        """Make the server type that an instance's machine has the ordered one; returns the one ordered before."""
        with self._database.writing() as connection:
            before = str(details_in(connection, instance_id).server_type)
            if before != server_type:
                update_details(connection, instance_id, server_type=server_type)
                change = {"before": {"server_type": before}, "after": {"server_type": server_type}}
                self._note(connection, "size_accepted", instance_subject(instance_id), **change, why=why)
        return before


def give_alias(connection: sa.Connection, user_id: UserId, alias: str) -> bool:
    """Give a user without an alias this one, unless it is another user's; returns whether it was given."""
    is_taken = sa.exists().where(users.alias("other").c.alias == alias)
    giving = users.update().where(users.c.id == user_id, users.c.alias.is_(None), ~is_taken)
    return connection.execute(giving.values(alias=alias).returning(users.c.id)).first() is not None
