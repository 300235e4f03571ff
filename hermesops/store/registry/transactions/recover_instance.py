"""Writes rows from what machines say of themselves, after the registry was lost or is out of date."""

import sqlalchemy as sa

from hermesops.model.ids import InstanceId, MachineId, MachineName, UserId, instance_subject
from hermesops.model.instance import InstanceStatus
from hermesops.model.recovery import Recovered
from hermesops.store.registry.repositories.base import Repository, WriteContext, insert_if_absent
from hermesops.store.registry.repositories.instances.instance import (
    InstanceSecretRepository,
    details_in,
    update_details,
)
from hermesops.store.registry.schema.tables import LIVING, cells, hermes_instances, instance_details, users


class RecoveryTransactions(Repository):
    """Recovery of rows from machines."""

    def __init__(self, context: WriteContext) -> None:
        super().__init__(context)
        self._secrets = InstanceSecretRepository(context)

    def recover_instance(self, one: Recovered, *, why: str) -> bool:
        """Write the rows of an instance, its user and its cell; whether the instance was missing.

        Nothing is changed where the instance has a row, or its user another living instance.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            insert_if_absent(connection, cells, {"name": one.cell, "region": one.region, "created_at": now})
            insert_if_absent(connection, users, {"id": one.user_id, "alias": None, "created_at": now})
            if one.user_alias:
                give_alias(connection, one.user_id, one.user_alias)
            row = {
                "id": one.id,
                "user_id": one.user_id,
                "plan": one.plan,
                "vm_id": one.machine_id or None,
                "status": one.status,
                "created_at": one.created_at,
            }
            if not insert_if_absent(connection, hermes_instances, row):
                return False
            details = {
                "instance_id": one.id,
                "cell": one.cell,
                "machine_name": one.machine_name,
                "machine_wanted": one.status is not InstanceStatus.TERMINATED,
                "server_type": one.server_type,
                "region": one.region,
                "image_id": one.image_id,
                "epoch": one.epoch,
                "settings": self._secrets.seal_settings_in(connection, one.settings, "settings", one.id),
                "api_server_key": self._secrets.seal_in(connection, one.api_server_key, "api_server_key", one.id),
                "model_token_generation": one.model_token_generation,
                "model_token_expires_at": one.model_token_expires_at,
                "model_token_handed_at": now if one.model_token_expires_at else None,
            }
            connection.execute(instance_details.insert().values(details))
            after: dict[str, object] = {"machine": one.machine_name, "cell": one.cell, "plan": one.plan.value}
            self._note(connection, "instance_recovered", instance_subject(one.id), after=after, why=why)
        return True

    def call_user(self, user_id: UserId, alias: str, *, why: str) -> bool:
        """Give a user without an alias this one, unless it is empty or another's; whether it was given."""
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
    """Give a user without an alias this one, unless it is another's; whether it was given."""
    is_taken = sa.exists().where(users.alias("other").c.alias == alias)
    giving = users.update().where(users.c.id == user_id, users.c.alias.is_(None), ~is_taken)
    return connection.execute(giving.values(alias=alias).returning(users.c.id)).first() is not None
