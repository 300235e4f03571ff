"""Rows of ``hermes_instances`` and ``instance_details``: instances, their settings and their secrets."""

import dataclasses
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from hermesops.errors import BrokenInvariantError, RefusedError, UsageError
from hermesops.model.ids import (
    CellName,
    InstanceId,
    MachineId,
    MachineName,
    UserId,
    instance_subject,
    is_alias,
    user_id_of,
)
from hermesops.model.instance import Instance, InstanceSettings, InstanceStatus
from hermesops.model.plan import Plan
from hermesops.model.unknown_name import unknown_name
from hermesops.registry.encryption.sealing import place
from hermesops.registry.repositories.base import Repository
from hermesops.registry.repositories.machines.data_keys import destroy_data_keys
from hermesops.registry.schema.tables import LIVING, hermes_instances, instance_details, users
from hermesops.registry.transactions.revoke_credentials import (
    mark_spares_for_deletion,
    raise_token_floor,
    revoke_machine,
)

ALL = sa.select(hermes_instances, instance_details, users.c.alias).select_from(
    hermes_instances.join(instance_details, instance_details.c.instance_id == hermes_instances.c.id).join(
        users, users.c.id == hermes_instances.c.user_id
    )
)
"""Selects instances with their details and their users' aliases."""

_ALIASES = (
    sa.select(users.c.alias)
    .where(users.c.id.in_(sa.select(hermes_instances.c.user_id)), users.c.alias.is_not(None))
    .order_by(users.c.alias)
)
"""Selects the aliases of users who have, or had, an instance."""


class InstanceRepository(Repository):
    """Instances: one per user that is not terminated."""

    def get(self, instance_id: InstanceId) -> Instance:
        """One instance, terminated or not.

        Raises:
            UsageError: There is none with that id.
        """
        with self._database.reading() as connection:
            row = connection.execute(ALL.where(hermes_instances.c.id == instance_id)).one_or_none()
        if row is None:
            raise UsageError(f"no instance with id {instance_id}", hint="hermesops instance list")
        return instance_of(row)

    def of_user(self, user_id: UserId) -> Instance | None:
        """The user's instance that is not terminated."""
        with self._database.reading() as connection:
            row = connection.execute(ALL.where(hermes_instances.c.user_id == user_id, LIVING)).one_or_none()
        return instance_of(row) if row else None

    def find(self, text: str) -> Instance:
        """The instance an operator means by a user's alias, a user id or an instance id.

        A living one comes before a terminated one, a later one before an earlier one.

        Raises:
            UsageError: There is none.
        """
        id_ = user_id_of(text)
        if id_:
            is_meant = sa.or_(hermes_instances.c.id == id_, hermes_instances.c.user_id == id_)
        else:
            is_meant = users.c.alias == text if is_alias(text) else sa.false()
        with self._database.reading() as connection:
            row = connection.execute(
                ALL.where(is_meant).order_by(LIVING.desc(), hermes_instances.c.created_at.desc()).limit(1)
            ).one_or_none()
            if row is None:
                raise unknown_name("user", text, connection.scalars(_ALIASES))
        return instance_of(row)

    def list(
        self,
        *,
        plan: Plan | None = None,
        status: InstanceStatus | None = None,
        cell: CellName | None = None,
        terminated: bool = False,
    ) -> tuple[Instance, ...]:
        """Instances by age, oldest first.

        Args:
            plan: Only of that plan.
            status: Only in that state.
            cell: Only of that cell.
            terminated: Whether terminated ones are listed too; asking for that ``status`` lists them anyway.
        """
        query = ALL.order_by(hermes_instances.c.created_at, hermes_instances.c.id)
        if plan:
            query = query.where(hermes_instances.c.plan == plan)
        if cell:
            query = query.where(instance_details.c.cell == cell)
        if status:
            query = query.where(hermes_instances.c.status == status)
        elif not terminated:
            query = query.where(LIVING)
        with self._database.reading() as connection:
            return tuple(instance_of(row) for row in connection.execute(query))

    def set_machine(
        self, instance_id: InstanceId, machine_id: MachineId | None, *, ip: str | None = None, why: str = ""
    ) -> Instance:
        """Write which machine the instance is on, and its internal address where the vendor tells it."""
        return self._set(instance_id, "machine_set", why, {"vm_id": machine_id, "vm_ip": ip})

    def set_status(self, instance_id: InstanceId, status: InstanceStatus, *, why: str = "") -> Instance:
        """Write what state the instance is in; ``terminations.terminate`` writes the last one.

        With ``SUSPENDED`` its tokens for the model router are revoked.

        Raises:
            RefusedError: It is terminated, and that is for good.
        """
        if status is InstanceStatus.TERMINATED:
            raise ValueError("an instance is ended by terminations.terminate, which erases its secrets too")
        return self._set(instance_id, "status_changed", why, {"status": status})

    def record_heartbeat(self, instance_id: InstanceId, at: datetime) -> None:
        """Write when the instance was last heard of; not audited, it comes every 30 s."""
        with self._database.writing() as connection:
            connection.execute(
                hermes_instances.update().where(hermes_instances.c.id == instance_id).values(last_heartbeat=at)
            )

    def mark_for_deletion(self, instance_id: InstanceId, *, why: str = "") -> None:
        """Take the instance's machine out of what its cell should have, and name it as one that may be destroyed.

        So are the ones it was on before, and the one it was to be on next: nothing of an instance that ends stays.
        """
        with self._database.writing() as connection:
            changed = self._leave(connection, instance_id)
            spares = mark_spares_for_deletion(connection, instance_id, self._database.now(connection))
            if changed or spares:
                after = {"spares": spares} if spares else None
                self._note(connection, "machine_given_up", instance_subject(instance_id), after=after, why=why)

    def leave_machine(self, instance_id: InstanceId, *, why: str = "") -> None:
        """The same for its machine alone: an instance that lives on may still want one that it was on before."""
        with self._database.writing() as connection:
            if self._leave(connection, instance_id):
                self._note(connection, "machine_given_up", instance_subject(instance_id), why=why)

    def is_machine_wanted(self, instance_id: InstanceId) -> bool:
        """Whether the instance's cell should have its machine."""
        with self._database.reading() as connection:
            return bool(details_in(connection, instance_id).machine_wanted)

    def change_plan(self, instance_id: InstanceId, plan: Plan, server_type: str, *, why: str = "") -> Instance:
        """Write an instance's plan and the server type of its machine; the next run of its cell resizes that.

        Raises:
            RefusedError: It is terminated.
        """
        is_it = hermes_instances.c.id == instance_id
        with self._database.writing() as connection:
            details = details_in(connection, instance_id, lock=True)
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
            details_in(connection, instance_id, lock=True)
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

    def past_grace(self) -> tuple[Instance, ...]:
        """Those whose termination nobody cancelled in time, by the registry's clock."""
        with self._database.reading() as connection:
            now = self._database.now(connection)
            is_past = sa.and_(LIVING, instance_details.c.grace_until <= now)
            return tuple(instance_of(row) for row in connection.execute(ALL.where(is_past)))

    def _leave(self, connection: sa.Connection, instance_id: InstanceId) -> bool:
        is_its_own = sa.and_(instance_details.c.instance_id == instance_id, instance_details.c.machine_wanted)
        left = connection.execute(instance_details.update().where(is_its_own).values(machine_wanted=False)).rowcount
        if left:
            machine_id = sa.select(hermes_instances.c.vm_id).where(hermes_instances.c.id == instance_id)
            now = self._database.now(connection)
            left_id = connection.execute(machine_id).scalar()
            revoke_machine(connection, left_id, now, "its machine was given up")
            destroy_data_keys(connection, now, machine_id=left_id)
        return bool(left)

    def _set(self, instance_id: InstanceId, action: str, why: str, values: Mapping[str, Any]) -> Instance:
        columns = hermes_instances.c
        with self._database.writing() as connection:
            row = connection.execute(
                sa.select(hermes_instances).where(columns.id == instance_id).with_for_update()
            ).one_or_none()
            if row is None:
                raise UsageError(f"no instance with id {instance_id}", hint="hermesops instance list")
            before = {name: getattr(row, name) for name in values}
            if before != dict(values):
                if row.status == InstanceStatus.TERMINATED:
                    raise RefusedError(f"instance {instance_id} is terminated; that is for good")
                connection.execute(hermes_instances.update().where(columns.id == instance_id).values(values))
                if (
                    "status" in values
                ):  # whatever it is now, the termination was cancelled: only begin_grace says otherwise
                    had_back = instance_details.update().where(instance_details.c.instance_id == instance_id)
                    connection.execute(had_back.values(grace_until=None))
                    if values["status"] == InstanceStatus.SUSPENDED:
                        raise_token_floor(connection, instance_id)
                self._note(connection, action, instance_subject(instance_id), before=before, after=values, why=why)
            return instance_of(connection.execute(ALL.where(columns.id == instance_id)).one())


def instance_of(row: sa.Row[Any]) -> Instance:
    """The instance of a row of ``ALL``."""
    return Instance(
        id=InstanceId(row.id),
        user_id=UserId(row.user_id),
        user_alias=row.alias or "",
        plan=row.plan,
        status=row.status,
        cell=CellName(row.cell),
        machine_name=MachineName(row.machine_name),
        machine_id=MachineId(row.vm_id) if row.vm_id else None,
        epoch=row.epoch,
        created_at=row.created_at,
        last_heartbeat=row.last_heartbeat,
        grace_until=row.grace_until,
    )


NO_SETTINGS = "{}"
"""Settings of which nothing is chosen, before they are sealed."""

_FIELDS = frozenset(field.name for field in dataclasses.fields(InstanceSettings))


class InstanceSecretRepository(Repository):
    """What only the registry and the instance's own machine may hold."""

    def settings(self, instance_id: InstanceId) -> InstanceSettings:
        """What the instance's user chose."""
        with self._database.reading() as connection:
            return self.settings_in(connection, instance_id)

    def settings_before(self, instance_id: InstanceId) -> InstanceSettings | None:
        """The settings that counted before and were not found wanting; ``None`` when they were never changed."""
        with self._database.reading() as connection:
            sealed = details_in(connection, instance_id).settings_before
        return self._open_settings(sealed, "settings_before", instance_id) if sealed else None

    def settings_in(
        self, connection: sa.Connection, instance_id: InstanceId, *, lock: bool = False
    ) -> InstanceSettings:
        """``settings`` within a transaction; ``lock`` keeps the row from others to its end."""
        details = details_in(connection, instance_id, lock=lock)
        return self._open_settings(details.settings, "settings", instance_id)

    def _open_settings(self, sealed: str, column: str, instance_id: InstanceId) -> InstanceSettings:
        values = json.loads(self._context.sealer.unseal(sealed, place=_place(column, instance_id)))
        unknown = values.keys() - _FIELDS
        if unknown:
            raise BrokenInvariantError(
                f"instance {instance_id} has settings that this hermesops does not know: {', '.join(sorted(unknown))}"
            )
        for name in ("cron", "disabled_tools"):
            values[name] = tuple(values.get(name, ()))
        return InstanceSettings(**values)

    def seal_settings_in(
        self, connection: sa.Connection, settings: InstanceSettings, column: str, instance_id: InstanceId
    ) -> str:
        """Settings as they are written into that column of the instance."""
        plain = json.dumps(dataclasses.asdict(settings), default=dict)
        return self.seal_in(connection, plain, column, instance_id)

    def seal_in(self, connection: sa.Connection, plain: str, column: str, instance_id: InstanceId) -> str:
        """Encrypt what the transaction is about to write into that column of the instance."""
        return self._seal_in(connection, plain, _place(column, instance_id))

    def api_server_key(self, instance_id: InstanceId) -> str:
        """The bearer of the agent's own HTTP API."""
        return self._unseal(instance_id, "api_server_key")

    def model_token_generation(self, instance_id: InstanceId) -> int:
        """The generation below which the instance's tokens for the model router are revoked."""
        with self._database.reading() as connection:
            generation: int = details_in(connection, instance_id).model_token_generation
        return generation

    def _unseal(self, instance_id: InstanceId, column: str) -> str:
        with self._database.reading() as connection:
            sealed = getattr(details_in(connection, instance_id), column)
        return self._context.sealer.unseal(sealed, place=_place(column, instance_id))


def details_in(connection: sa.Connection, instance_id: InstanceId, *, lock: bool = False) -> sa.Row[Any]:
    """An instance's row of ``instance_details``, locked to the transaction's end where that is asked for.

    Raises:
        UsageError: There is no such instance.
    """
    query = sa.select(instance_details).where(instance_details.c.instance_id == instance_id)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise UsageError(f"no instance with id {instance_id}", hint="hermesops instance list")
    return row


def _place(column: str, instance_id: InstanceId) -> str:
    return place("instance_details", column, instance_id)
