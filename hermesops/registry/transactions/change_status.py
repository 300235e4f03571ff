"""What happens to an instance between its first machine and its end: another plan, a sleep, the time before the end."""

from datetime import datetime

import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.model.ids import InstanceId, instance_subject
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.plan import Plan
from hermesops.registry.repositories.instances.instance import ALL, InstanceRows, instance_of
from hermesops.registry.schema.tables import LIVING, hermes_instances, instance_details
from hermesops.registry.transactions.revoke_credentials import raise_token_floor


class InstanceChangeRows(InstanceRows):
    """Changes of an instance's plan and of how it ends."""

    def is_machine_wanted(self, instance_id: InstanceId) -> bool:
        """Whether the instance's cell should have its machine."""
        with self._database.reading() as connection:
            return bool(self._details_in(connection, instance_id).machine_wanted)

    def change_plan(self, instance_id: InstanceId, plan: Plan, server_type: str, *, why: str = "") -> Instance:
        """Write an instance's plan and the server type of its machine; the next run of its cell resizes that.

        Raises:
            RefusedError: It is terminated.
        """
        is_it = hermes_instances.c.id == instance_id
        with self._database.writing() as connection:
            details = self._details_in(connection, instance_id, lock=True)
            held = instance_of(connection.execute(ALL.where(is_it)).one())
            if held.status is InstanceStatus.TERMINATED:
                raise RefusedError(f"instance {instance_id} is terminated; that is for good")
            before = {"plan": held.plan, "server_type": details.server_type}
            after = {"plan": plan, "server_type": server_type}
            if before != after:
                connection.execute(hermes_instances.update().where(is_it).values(plan=plan))
                connection.execute(
                    instance_details.update()
                    .where(instance_details.c.instance_id == instance_id)
                    .values(server_type=server_type)
                )
                self._note(
                    connection, "plan_changed", instance_subject(instance_id), before=before, after=after, why=why
                )
            return instance_of(connection.execute(ALL.where(is_it)).one())

    def begin_grace(self, instance_id: InstanceId, until: datetime, *, why: str = "") -> Instance:
        """Write that an agent is suspended, and terminated then unless that is cancelled; safe to call twice.

        Its tokens for the model router are revoked.

        Raises:
            RefusedError: It is terminated.
        """
        is_it = hermes_instances.c.id == instance_id
        with self._database.writing() as connection:
            self._details_in(connection, instance_id, lock=True)
            held = instance_of(connection.execute(ALL.where(is_it)).one())
            if held.status is InstanceStatus.TERMINATED:
                raise RefusedError(f"instance {instance_id} is terminated; that is for good")
            if (held.status, held.grace_until) != (InstanceStatus.SUSPENDED, until):
                connection.execute(hermes_instances.update().where(is_it).values(status=InstanceStatus.SUSPENDED))
                connection.execute(
                    instance_details.update()
                    .where(instance_details.c.instance_id == instance_id)
                    .values(grace_until=until)
                )
                raise_token_floor(connection, instance_id)
                self._note(
                    connection,
                    "grace_began",
                    instance_subject(instance_id),
                    before={"status": held.status},
                    after={"status": InstanceStatus.SUSPENDED, "until": until.isoformat()},
                    why=why,
                )
            return instance_of(connection.execute(ALL.where(is_it)).one())

    def instances_past_grace(self) -> tuple[Instance, ...]:
        """Those whose termination nobody cancelled in time, by the registry's clock."""
        with self._database.reading() as connection:
            now = self._database.now(connection)
            is_past = sa.and_(LIVING, instance_details.c.grace_until <= now)
            return tuple(instance_of(row) for row in connection.execute(ALL.where(is_past)))

    def now(self) -> datetime:
        """The registry's clock, which every computer that works on it shares."""
        with self._database.reading() as connection:
            return self._database.now(connection)
