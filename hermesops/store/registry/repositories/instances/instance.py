"""Rows of ``hermes_instances`` and ``instance_details``: instances, their settings and their secrets."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from hermesops.errors import BrokenInvariantError, Hint, RefusedError, UsageError
from hermesops.model.fleet.health import gateway_health
from hermesops.model.fleet.instance import Instance, InstanceSettings, InstanceStatus
from hermesops.model.ids import (
    CellName,
    InstanceId,
    MachineId,
    MachineName,
    UserId,
    instance_subject,
    is_alias,
    is_beginning_of_id,
    user_id_of,
)
from hermesops.model.plan import Plan
from hermesops.model.providers.choice import ProviderChoice
from hermesops.model.unknown_name import unknown_name
from hermesops.store.registry.encryption.sealing import place
from hermesops.store.registry.repositories.base import Repository
from hermesops.store.registry.schema.tables import LIVING, hermes_instances, instance_details, unsealed, users
from hermesops.store.registry.schema.user_tables import settings_copies
from hermesops.store.registry.transactions.revoke_credentials import (
    give_up_machine,
    mark_unassigned_for_deletion,
    raise_token_floor,
)

ALL: sa.Select[Any] = sa.select(*unsealed(hermes_instances), *unsealed(instance_details), users.c.alias).select_from(
    hermes_instances.join(instance_details).join(users)
)
"""Selects instances with their details and their users' aliases."""

_ALIASES = (
    sa.select(users.c.alias)
    .where(users.c.id.in_(sa.select(hermes_instances.c.user_id)), users.c.alias.is_not(None))
    .order_by(users.c.alias)
)
"""Selects the aliases of users who have, or had, an instance."""


def _users_whose_id_begins(connection: sa.Connection, text: str) -> list[UserId]:
    begins = sa.cast(hermes_instances.c.user_id, sa.String).like(f"{text}%")
    ids = connection.scalars(sa.select(hermes_instances.c.user_id).where(begins).distinct())
    return [UserId(id_) for id_ in ids]


def _of_user_whose_id_begins(connection: sa.Connection, text: str) -> sa.Select[Any]:
    """Selects the instance of the only user whose id begins so: a living one first, then the newest; else none."""
    ids = _users_whose_id_begins(connection, text)
    if len(ids) > 1:
        raise UsageError(
            f"the ids of {len(ids)} users begin with {text}: {', '.join(sorted(ids))}",
            hint=Hint(("instance", "list", "-o", "wide"), "shows whole ids"),
        )
    is_meant = hermes_instances.c.user_id.in_(ids)
    return ALL.where(is_meant).order_by(LIVING.desc(), hermes_instances.c.created_at.desc()).limit(1)


class InstanceRepository(Repository):
    """Instances: at most one per user that is not terminated."""

    def get(self, instance_id: InstanceId) -> Instance:
        """Return the instance with that id, terminated or not.

        Raises:
            UsageError: No instance has that id.
        """
        row = self._row(ALL.where(hermes_instances.c.id == instance_id))
        if row is None:
            raise _no_instance(instance_id)
        return instance_of(row)

    def of_user(self, user_id: UserId) -> Instance | None:
        """The user's instance that is not terminated."""
        row = self._row(ALL.where(hermes_instances.c.user_id == user_id, LIVING))
        return instance_of(row) if row else None

    def find(self, text: str) -> Instance:
        """The instance with that user alias, user id or instance id: a living one first, then the newest.

        A user's id may be given by its first eight characters, as lists show it, where no alias is the same.

        Raises:
            UsageError: There is none, or ids of several users begin so.
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
            if row is None and is_beginning_of_id(text):
                row = connection.execute(_of_user_whose_id_begins(connection, text)).one_or_none()
            if row is None:
                raise unknown_name("user", text, connection.scalars(_ALIASES))
        return instance_of(row)

    def users_whose_id_begins(self, text: str) -> list[UserId]:
        """Ids of users with an instance that begin with these eight characters, as lists show them."""
        if not is_beginning_of_id(text):
            return []
        with self._database.reading() as connection:
            return _users_whose_id_begins(connection, text)

    def list(
        self,
        *,
        plan: Plan | None = None,
        status: InstanceStatus | None = None,
        cell: CellName | None = None,
        terminated: bool = False,
    ) -> tuple[Instance, ...]:
        """Instances, oldest first; terminated ones only with ``terminated`` or with that ``status``."""
        query = ALL.order_by(hermes_instances.c.created_at, hermes_instances.c.id)
        if plan:
            query = query.where(hermes_instances.c.plan == plan)
        if cell:
            query = query.where(instance_details.c.cell == cell)
        if status:
            query = query.where(hermes_instances.c.status == status)
        elif not terminated:
            query = query.where(LIVING)
        return tuple(map(instance_of, self._rows(query)))

    def list_by_id(self, ids: Sequence[InstanceId]) -> tuple[Instance, ...]:
        """Instances by their ids, in the order of these; without those that are not there."""
        rows = {row.id: instance_of(row) for row in self._rows(ALL.where(hermes_instances.c.id.in_(ids)))}
        return tuple(rows[instance_id] for instance_id in ids if instance_id in rows)

    def set_machine(
        self, instance_id: InstanceId, machine_id: MachineId | None, *, ip: str | None = None, why: str = ""
    ) -> Instance:
        """Set the instance's machine, and its internal address where the vendor returns one."""
        return self._set(instance_id, "machine_set", why, {"vm_id": machine_id, "vm_ip": ip})

    def set_status(self, instance_id: InstanceId, status: InstanceStatus, *, why: str = "") -> Instance:
        """Set the instance's status; ``terminations.terminate`` sets the last one.

        ``SUSPENDED`` revokes its tokens for the model router. Any status cancels a scheduled termination.

        Raises:
            RefusedError: It is terminated.
        """
        if status is InstanceStatus.TERMINATED:
            raise ValueError("an instance is ended by terminations.terminate, which erases its secrets too")
        return self._set(instance_id, "status_changed", why, {"status": status})

    def mark_for_deletion(self, instance_id: InstanceId, *, why: str = "") -> None:
        """Let the next run of its cell destroy the instance's machine, and its replacement and previous ones.

        Their certificates are revoked and the keys of their data destroyed.
        """
        with self._database.writing() as connection:
            changed = self._leave(connection, instance_id)
            unassigned = mark_unassigned_for_deletion(connection, instance_id, self._database.now(connection))
            if changed or unassigned:
                after = {"unassigned": unassigned} if unassigned else None
                self._note(connection, "machine_given_up", instance_subject(instance_id), after=after, why=why)

    def leave_machine(self, instance_id: InstanceId, *, why: str = "") -> None:
        """``mark_for_deletion`` for the present machine only: the instance may still need its previous one."""
        with self._database.writing() as connection:
            if self._leave(connection, instance_id):
                self._note(connection, "machine_given_up", instance_subject(instance_id), why=why)

    def is_machine_wanted(self, instance_id: InstanceId) -> bool:
        """Return whether the instance's cell should have its machine: it was not given up."""
        with self._database.reading() as connection:
            return bool(details_in(connection, instance_id).machine_wanted)

    def change_plan(self, instance_id: InstanceId, plan: Plan, server_type: str, *, why: str = "") -> Instance:
        """Set an instance's plan and its machine's server type; the next run of its cell resizes the machine.

        Raises:
            RefusedError: It is terminated.
        """
        is_it = hermes_instances.c.id == instance_id
        with self._database.writing() as connection:
            details, instance = _lock_living(connection, instance_id)
            before = {"plan": instance.plan, "server_type": details.server_type}
            after = {"plan": plan, "server_type": server_type}
            if before != after:
                connection.execute(hermes_instances.update().where(is_it).values(plan=plan))
                update_details(connection, instance_id, server_type=server_type)
                subject = instance_subject(instance_id)
                self._note(connection, "plan_changed", subject, before=before, after=after, why=why)
            return instance_of(connection.execute(ALL.where(is_it)).one())

    def begin_grace(self, instance_id: InstanceId, until: datetime, *, why: str = "") -> Instance:
        """Suspend an instance that is to be terminated at ``until`` unless that is cancelled; safe to call twice.

        Its tokens for the model router are revoked.

        Raises:
            RefusedError: It is terminated.
        """
        is_it = hermes_instances.c.id == instance_id
        with self._database.writing() as connection:
            _, instance = _lock_living(connection, instance_id)
            if (instance.status, instance.grace_until) != (InstanceStatus.SUSPENDED, until):
                connection.execute(hermes_instances.update().where(is_it).values(status=InstanceStatus.SUSPENDED))
                update_details(connection, instance_id, grace_until=until)
                raise_token_floor(connection, instance_id)
                self._note(
                    connection,
                    "grace_began",
                    instance_subject(instance_id),
                    before={"status": instance.status},
                    after={"status": InstanceStatus.SUSPENDED, "until": until.isoformat()},
                    why=why,
                )
            return instance_of(connection.execute(ALL.where(is_it)).one())

    def list_ending(self) -> tuple[Instance, ...]:
        """Return instances with a scheduled termination, the first to end first."""
        with self._database.reading() as connection:
            is_meant = sa.and_(LIVING, instance_details.c.grace_until.is_not(None))
            query = ALL.where(is_meant).order_by(instance_details.c.grace_until)
            return tuple(map(instance_of, connection.execute(query)))

    def past_grace(self) -> tuple[Instance, ...]:
        """Return instances with a due termination, by the registry's clock."""
        with self._database.reading() as connection:
            now = self._database.now(connection)
            is_past = sa.and_(LIVING, instance_details.c.grace_until <= now)
            return tuple(map(instance_of, connection.execute(ALL.where(is_past))))

    def _leave(self, connection: sa.Connection, instance_id: InstanceId) -> bool:
        is_its_own = sa.and_(instance_details.c.instance_id == instance_id, instance_details.c.machine_wanted)
        left = connection.execute(instance_details.update().where(is_its_own).values(machine_wanted=False)).rowcount
        if left:
            machine_id = sa.select(hermes_instances.c.vm_id).where(hermes_instances.c.id == instance_id)
            give_up_machine(connection, connection.execute(machine_id).scalar(), self._database.now(connection))
        return bool(left)

    def _set(self, instance_id: InstanceId, action: str, why: str, values: Mapping[str, Any]) -> Instance:
        columns = hermes_instances.c
        with self._database.writing() as connection:
            row = connection.execute(
                sa.select(hermes_instances).where(columns.id == instance_id).with_for_update()
            ).one_or_none()
            if row is None:
                raise _no_instance(instance_id)
            before = {name: getattr(row, name) for name in values}
            if before != dict(values):
                if row.status == InstanceStatus.TERMINATED:
                    raise RefusedError(f"instance {instance_id} is terminated for good")
                connection.execute(hermes_instances.update().where(columns.id == instance_id).values(values))
                if "status" in values:  # only begin_grace keeps a termination scheduled
                    update_details(connection, instance_id, grace_until=None)
                    if values["status"] == InstanceStatus.SUSPENDED:
                        raise_token_floor(connection, instance_id)
                self._note(connection, action, instance_subject(instance_id), before=before, after=values, why=why)
            return instance_of(connection.execute(ALL.where(columns.id == instance_id)).one())


def _lock_living(connection: sa.Connection, instance_id: InstanceId) -> tuple[sa.Row[Any], Instance]:
    """Lock an instance's details; returns them and the instance.

    Raises:
        RefusedError: It is terminated.
    """
    details = details_in(connection, instance_id, lock=True)
    instance = instance_of(connection.execute(ALL.where(hermes_instances.c.id == instance_id)).one())
    if instance.status is InstanceStatus.TERMINATED:
        raise RefusedError(f"instance {instance_id} is terminated for good")
    return details, instance


def instance_of(row: sa.Row[Any]) -> Instance:
    """Convert a row of ``ALL`` to an instance."""
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
        reported_gateway=gateway_health(row.reported_gateway),
        grace_until=row.grace_until,
    )


NO_SETTINGS = "{}"
"""Default settings, before they are sealed."""

_FIELDS = frozenset(field.name for field in dataclasses.fields(InstanceSettings))
_OF_PROVIDER = frozenset(field.name for field in dataclasses.fields(ProviderChoice))


class InstanceSecretRepository(Repository):
    """Encrypted columns of instances: their settings and their API keys."""

    def settings(self, instance_id: InstanceId) -> InstanceSettings:
        """The settings that the instance's user chose."""
        with self._database.reading() as connection:
            return self.settings_in(connection, instance_id)

    def settings_and_revision(self, instance_id: InstanceId) -> tuple[InstanceSettings, int]:
        """The settings, and the number of their last change.

        Raises:
            UsageError: There is no such instance.
        """
        with self._database.reading() as connection:
            details = details_in(connection, instance_id)
        return self._open_settings(details.settings, "settings", instance_id), details.settings_revision

    def uncopied(self, *, limit: int = 500) -> tuple[InstanceId, ...]:
        """Instances that are not terminated and whose settings have changed since they were copied for the API."""
        details, copies = instance_details.c, settings_copies.c
        query = (
            sa.select(hermes_instances.c.id)
            .select_from(hermes_instances)
            .join(instance_details, details.instance_id == hermes_instances.c.id)
            .outerjoin(settings_copies, copies.instance_id == hermes_instances.c.id)
            .where(LIVING, details.settings_revision != sa.func.coalesce(copies.revision, 0))
            .order_by(hermes_instances.c.id)
            .limit(limit)
        )
        return tuple(InstanceId(row.id) for row in self._rows(query))

    def settings_before(self, instance_id: InstanceId) -> InstanceSettings | None:
        """The last settings before the present ones that a machine accepted; ``None`` when never changed."""
        with self._database.reading() as connection:
            return self.settings_before_in(connection, instance_id)

    def settings_before_in(self, connection: sa.Connection, instance_id: InstanceId) -> InstanceSettings | None:
        """``settings_before`` within a transaction."""
        sealed = details_in(connection, instance_id).settings_before
        return self._open_settings(sealed, "settings_before", instance_id) if sealed else None

    def settings_in(
        self, connection: sa.Connection, instance_id: InstanceId, *, lock: bool = False
    ) -> InstanceSettings:
        """``settings`` within a transaction; ``lock`` locks the row until it ends."""
        details = details_in(connection, instance_id, lock=lock)
        return self._open_settings(details.settings, "settings", instance_id)

    def _open_settings(self, sealed: str, column: str, instance_id: InstanceId) -> InstanceSettings:
        values = json.loads(self._context.sealer.unseal(sealed, place=_place(column, instance_id)))
        unknown = values.keys() - _FIELDS
        unknown |= (values.get("provider") or {}).keys() - _OF_PROVIDER
        if unknown:
            raise BrokenInvariantError(
                f"instance {instance_id} has settings that this hermesops does not know: {', '.join(sorted(unknown))}"
            )
        return InstanceSettings.from_values(values)

    def seal_settings_in(
        self, connection: sa.Connection, settings: InstanceSettings, column: str, instance_id: InstanceId
    ) -> str:
        """Encrypt settings for that column of the instance."""
        plain = json.dumps(settings.to_values(), default=dict)
        return self.seal_in(connection, plain, column, instance_id)

    def seal_in(self, connection: sa.Connection, plain: str, column: str, instance_id: InstanceId) -> str:
        """Encrypt a value for that column of the instance."""
        return self._seal_in(connection, plain, _place(column, instance_id))

    def api_server_key(self, instance_id: InstanceId) -> str:
        """The bearer token of the agent's own HTTP API."""
        with self._database.reading() as connection:
            sealed = details_in(connection, instance_id).api_server_key
        return self._context.sealer.unseal(sealed, place=_place("api_server_key", instance_id))


def details_in(connection: sa.Connection, instance_id: InstanceId, *, lock: bool = False) -> sa.Row[Any]:
    """An instance's row of ``instance_details``; ``lock`` locks it until the transaction ends.

    Raises:
        UsageError: There is no such instance.
    """
    query = sa.select(instance_details).where(instance_details.c.instance_id == instance_id)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise _no_instance(instance_id)
    return row


def update_details(connection: sa.Connection, instance_id: InstanceId, **values: object) -> None:
    """Set columns of an instance's row of ``instance_details``."""
    is_it = instance_details.c.instance_id == instance_id
    connection.execute(instance_details.update().where(is_it).values(values))


def _no_instance(instance_id: InstanceId) -> UsageError:
    return UsageError(f"no instance with id {instance_id}", hint=Hint(("instance", "list")))


def _place(column: str, instance_id: InstanceId) -> str:
    return place("instance_details", column, instance_id)
