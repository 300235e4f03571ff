"""The whole fleet: every living instance with the machine its row orders, and the cells in numbers."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.model.fleet.health import GatewayHealth, gateway_health
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.overview import (
    GONE,
    CellTally,
    ExpectedFleet,
    ExpectedInstance,
    Ordered,
    RecordedInstance,
    Repair,
    RepairKind,
)
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedStatus, machine_subject
from hermesops.model.ids import CellName, InstanceId, MachineName, OperationId, instance_subject
from hermesops.model.operation import OperationKind, OperationStatus
from hermesops.model.plan import Plan
from hermesops.model.rollout.records import TargetState
from hermesops.store.registry.meta import read_meta
from hermesops.store.registry.repositories.base import Repository
from hermesops.store.registry.repositories.instances.instance import ALL, instance_of
from hermesops.store.registry.repositories.instances.search import ids_with, words_of
from hermesops.store.registry.repositories.machines.observations import GONE_SEEN, LISTED_AT
from hermesops.store.registry.schema.tables import (
    LIVING,
    UNFINISHED,
    audit,
    cells,
    hermes_instances,
    instance_details,
    leases,
    machine_observations,
    operations,
    rollout_targets,
    unassigned_machines,
    users,
)

_DAY = timedelta(days=1)
_PLANS = {plan.value: plan for plan in Plan}
_STATUSES = {status.value: status for status in InstanceStatus}
_GATEWAYS: Mapping[str | None, GatewayHealth] = {health.value: health for health in GatewayHealth}
_AT_ONCE = 500
"""How many values one question names."""


class FleetRepository(Repository):
    """Reads and writes of all instances at once."""

    def list_ordered(self, cell: CellName | None = None) -> tuple[Ordered, ...]:
        """Every living instance, or those of a cell, with the machine its row orders, by machine name."""
        details = instance_details.c
        query = ALL.add_columns(details.server_type, details.region, details.image_id, details.machine_wanted)
        if cell is not None:
            query = query.where(details.cell == cell)
        rows = self._rows(query.where(LIVING).order_by(details.machine_name))
        return tuple(
            Ordered(instance_of(row), row.server_type, row.region, row.image_id, row.machine_wanted) for row in rows
        )

    def ended_machines(self) -> Mapping[MachineName, InstanceId]:
        """The machines of terminated instances, by name: the vendor should list none of them."""
        details = instance_details.c
        query = (
            sa.select(details.machine_name, details.instance_id)
            .join_from(instance_details, hermes_instances)
            .where(sa.not_(LIVING))
        )
        return {MachineName(name): InstanceId(id_) for name, id_ in self._rows(query)}

    def tally_cells(self, names: Collection[str] = ()) -> tuple[CellTally, ...]:
        """The cells by name, with their instances and other machines; without terminated instances.

        Args:
            names: Of the cells; none for all.
        """
        unassigned = unassigned_machines.c

        def within(cell: sa.Column[Any]) -> sa.ColumnElement[bool]:
            return cell.in_(list(names)) if names else sa.true()

        named = sa.select(cells.c.name, cells.c.region).where(within(cells.c.name)).order_by(cells.c.name)
        beside = sa.select(unassigned.cell, unassigned.role, unassigned.status).where(within(unassigned.cell))
        with self._database.reading() as connection:
            regions = connection.execute(named).all()
            living = connection.execute(_light(connection).where(within(instance_details.c.cell))).all()
            extra = connection.execute(beside).all()
        instances: defaultdict[str, list[RecordedInstance]] = defaultdict(list)
        for place, (cell, id_, alias, user_id, plan, status, machine_status, beat_s, gateway) in enumerate(living):
            instances[cell].append(
                RecordedInstance(
                    id_,
                    alias or user_id,
                    _PLANS[plan],
                    _STATUSES[status],
                    machine_status or "",
                    beat_s,
                    _GATEWAYS.get(gateway),
                    place,
                )
            )
        kinds: dict[str, Counter[tuple[MachineRole, UnassignedStatus]]] = {}
        for cell, role, status in extra:
            kinds.setdefault(cell, Counter())[MachineRole(role), UnassignedStatus(status)] += 1
        return tuple(
            CellTally(name, region, tuple(instances.get(name, ())), dict(kinds.get(name, {})))
            for name, region in regions
        )

    def search(self, text: str) -> tuple[InstanceId, ...]:
        """The ids of living instances, oldest first, in whose names each word of a text occurs; all without words.

        Raises:
            UsageError: The text is too long.
        """
        words = words_of(text)
        if not all(map(str.isprintable, words)):
            return ()  # no name has such a character, and PostgreSQL takes no text with NUL
        with self._database.reading() as connection:
            return ids_with(words, connection)

    def expected(self, *, reason: str) -> ExpectedFleet:
        """Return every instance that should run, with the reason that blocks repairs and its recent repairs.

        Args:
            reason: Beginning of the reasons of the caller's own repairs.
        """
        columns, details = hermes_instances.c, instance_details.c
        observed = machine_observations.c
        query = (
            sa.select(
                columns.id,
                users.c.alias,
                columns.user_id,
                details.cell,
                details.machine_name,
                observed.status,
                columns.last_heartbeat,
                details.reported_gateway,
            )
            .select_from(hermes_instances.join(instance_details).join(users))
            .outerjoin(machine_observations, observed.machine_id == columns.vm_id)
            .where(columns.status == InstanceStatus.RUNNING, details.machine_wanted, details.grace_until.is_(None))
        )
        with self._database.reading() as connection:
            now = self._database.now(connection)
            listed_at = read_meta(connection, LISTED_AT)
            rows = connection.execute(query).all()
            busy, unfinished, leased = self._busy(connection, now)
            gone_at = _gone_since(connection, [row.machine_name for row in rows if row.status == GONE])
            repairs = [
                (row, repair) for row in connection.execute(_repairs_since(now - _DAY)) if (repair := _repair(row))
            ]
        instances = tuple(
            ExpectedInstance(
                InstanceId(id_),
                alias or user_id,
                CellName(cell),
                status or "",
                heartbeat,
                gone_at.get(name),
                busy.get(id_, ""),
                gateway_health(gateway),
            )
            for id_, alias, user_id, cell, name, status, heartbeat, gateway in rows
        )
        ours = {row.id for row, _ in repairs if str(row.intent.get("reason", "")).startswith(reason)}
        left = tuple(
            operation_id
            for operation_id, subject in unfinished.items()
            if operation_id in ours and subject not in leased
        )
        return ExpectedFleet(
            now,
            datetime.fromisoformat(listed_at) if listed_at else None,
            instances,
            tuple(repair for _, repair in repairs),
            left,
        )

    def _busy(
        self, connection: sa.Connection, now: datetime
    ) -> tuple[dict[str, str], dict[OperationId, str], frozenset[str]]:
        """Read the work that blocks repairs of instances.

        Returns:
            Reasons by instance; unfinished operations with their subjects; subjects with held leases.
        """
        working = operations.c
        targets = rollout_targets.c
        in_flight = [state for state in TargetState if state.is_in_flight]
        rolling = sa.select(targets.instance_id, targets.rollout_id).where(targets.held, targets.state.in_(in_flight))
        leased = frozenset(
            connection.scalars(sa.select(leases.c.subject).where(leases.c.holder != "", leases.c.expires_at > now))
        )
        unfinished = connection.execute(
            sa.select(working.id, working.kind, working.subject, working.instance_id).where(UNFINISHED)
        ).all()
        prefix = instance_subject(InstanceId(""))
        reasons = {
            subject.removeprefix(prefix): "somebody works on it" for subject in leased if subject.startswith(prefix)
        }
        reasons |= {row.instance_id: f"rollout {row.rollout_id} changes it" for row in connection.execute(rolling)}
        reasons |= {
            row.instance_id: f"operation {row.id} ({row.kind}) has not ended" for row in unfinished if row.instance_id
        }
        return reasons, {OperationId(row.id): row.subject for row in unfinished}, leased

    def record_reported(self, reported: Mapping[InstanceId, GatewayHealth | None]) -> None:
        """Record the gateway health that machines reported; ``None`` for no report. The audit does not list it."""
        if not reported:
            return
        which = sa.bindparam("which", type_=instance_details.c.instance_id.type)
        update = instance_details.update().where(instance_details.c.instance_id == which)
        rows = [{"which": instance_id, "gateway": health} for instance_id, health in reported.items()]
        with self._database.writing() as connection:
            connection.execute(update.values(reported_gateway=sa.bindparam("gateway")), rows)

    def record_heartbeats(self, beats: Mapping[InstanceId, datetime]) -> int:
        """Record newer heartbeats of many instances; returns the number of updated rows.

        One statement for all: ten thousand come every half minute. The audit does not list them.
        """
        if not beats:
            return 0
        columns = hermes_instances.c
        with self._database.writing() as connection:
            if connection.dialect.name == "postgresql":
                return _update_from_arrays(connection, beats)
            which = sa.bindparam("which", type_=columns.id.type)
            at = sa.bindparam("at", type_=columns.last_heartbeat.type)
            is_older = sa.or_(columns.last_heartbeat.is_(None), columns.last_heartbeat < at)
            newer = hermes_instances.update().where(columns.id == which, is_older).values(last_heartbeat=at)
            rows = [{"which": instance_id, "at": timestamp} for instance_id, timestamp in beats.items()]
            return connection.execute(newer, rows).rowcount


def _light(connection: sa.Connection) -> sa.Select[Any]:
    """Every living instance, oldest first, in values that the driver hands out as they are: texts and whole seconds.

    At a hundred thousand instances, dates, UUIDs and enumerations made of values take most of the time of a look.
    """
    columns, is_postgresql = hermes_instances.c, connection.dialect.name == "postgresql"
    beat_s: sa.ColumnElement[Any] = sa.extract("epoch", columns.last_heartbeat)
    return (
        sa.select(
            instance_details.c.cell,
            # SQLite keeps UUIDs in another form, and counts whole seconds by itself.
            sa.cast(columns.id, sa.Text) if is_postgresql else columns.id,
            users.c.alias,
            sa.case((users.c.alias.is_(None), columns.user_id)),
            sa.type_coerce(columns.plan, sa.String),
            sa.type_coerce(columns.status, sa.String),
            machine_observations.c.status,
            sa.cast(sa.func.floor(beat_s), sa.BigInteger) if is_postgresql else beat_s,
            instance_details.c.reported_gateway,
        )
        .select_from(hermes_instances.join(instance_details).join(users))
        .outerjoin(machine_observations, machine_observations.c.machine_id == columns.vm_id)
        .where(LIVING)
        .order_by(columns.created_at, columns.id)
    )


def _update_from_arrays(connection: sa.Connection, beats: Mapping[InstanceId, datetime]) -> int:
    """The update for PostgreSQL, which would take one round trip for each row otherwise."""
    columns = hermes_instances.c
    ids = sa.func.unnest(sa.cast(list(beats), sa.ARRAY(columns.id.type)))
    moments = sa.func.unnest(sa.cast(list(beats.values()), sa.ARRAY(columns.last_heartbeat.type)))
    newer = sa.select(ids.label("id"), moments.label("at")).subquery()
    is_older = sa.or_(columns.last_heartbeat.is_(None), columns.last_heartbeat < newer.c.at)
    updating = hermes_instances.update().where(columns.id == newer.c.id, is_older).values(last_heartbeat=newer.c.at)
    return connection.execute(updating).rowcount


def _gone_since(connection: sa.Connection, names: list[str]) -> dict[str, datetime]:
    """Return since when the vendor has not listed these machines, by name; listed machines are absent."""
    gone_at = {}
    for begin in range(0, len(names), _AT_ONCE):
        subjects = [machine_subject(MachineName(name)) for name in names[begin : begin + _AT_ONCE]]
        newest = (
            sa.select(audit.c.subject, sa.func.max(audit.c.at, type_=audit.c.at.type))
            .where(audit.c.action == GONE_SEEN, audit.c.subject.in_(subjects))
            .group_by(audit.c.subject)
        )
        prefix = machine_subject(MachineName(""))
        gone_at.update({subject.removeprefix(prefix): at for subject, at in connection.execute(newest)})
    return gone_at


def _repairs_since(begin: datetime) -> sa.Select[Any]:
    columns = operations.c
    kinds = [OperationKind.REBOOT.value, OperationKind.RELOCATE.value]
    recent = sa.select(operations.c.id).where(columns.kind.in_(kinds), columns.created_at >= begin)
    unfinished = sa.select(operations.c.id).where(columns.kind.in_(kinds), UNFINISHED)
    return sa.select(operations).where(columns.id.in_(recent.union(unfinished)))  # each of the two has an index


def _repair(row: sa.Row[Any]) -> Repair | None:
    """The repair of an operation; ``None`` for one that is about something else, as a move with the present state."""
    is_reboot = row.kind == OperationKind.REBOOT
    if row.instance_id is None or not (is_reboot or row.intent.get("snapshot")):
        return None
    return Repair(
        InstanceId(row.instance_id),
        RepairKind.REBOOT if is_reboot else RepairKind.REPLACE,
        row.created_at,
        row.updated_at if row.status.has_ended else None,
        row.status.has_ended and row.status is not OperationStatus.DONE,
    )
