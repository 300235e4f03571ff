"""Rows of ``break_glass_orders`` and ``ssh_hosts``: present logins to machines, and machines' host keys.

It must not know how orders are signed; machines verify that themselves.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.model.access.break_glass import BreakGlass
from hermesops.model.ids import InstanceId, MachineId, instance_subject
from hermesops.store.registry.repositories.base import Repository, insert_or_update
from hermesops.store.registry.schema.tables import break_glass_orders, ssh_hosts
from hermesops.wire.documents.orders import Report, SshHost

_COLUMNS = break_glass_orders.c
_HOST_STAYS = timedelta(hours=1)
"""For how long a machine cannot change its host key or address again, so that none fills the audit log."""

_UNFINISHED = sa.and_(
    _COLUMNS.closed_at.is_(None), sa.or_(_COLUMNS.opened_at.is_not(None), _COLUMNS.withdrawn_at.is_(None))
)
"""Orders of which the machine may still have to say something."""


class BreakGlassRepository(Repository):
    """Orders to open machines' sshd, and the host keys that machines reported."""

    def ssh_host(self, machine_id: MachineId) -> SshHost | None:
        """Return host key and address of a machine's sshd; ``None`` if the machine has not reported them yet."""
        row = self._row(sa.select(ssh_hosts).where(ssh_hosts.c.machine_id == machine_id))
        return SshHost(row.key, row.address) if row else None

    def add(self, order: BreakGlass) -> BreakGlass:
        """Store a signed order, which its machine then finds; earlier ones of the instance are withdrawn.

        Its ``created_at`` and ``who`` are ignored: the registry's clock and actor replace them.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            stored = replace(order, created_at=now, who=self._context.audit_log.actor)
            self._withdraw(connection, order.instance_id, now)
            connection.execute(break_glass_orders.insert().values(vars(stored)))
            after = {
                "order": stored.id,
                "machine": stored.machine_id,
                "source": stored.source,
                "expires_at": stored.expires_at.isoformat(),
                "host_key": stored.host_key,
            }
            subject = instance_subject(stored.instance_id)
            self._note(connection, "break_glass_ordered", subject, after=after, why=stored.why)
        return stored

    def get(self, order_id: str) -> BreakGlass:
        """The order of that id, which exists."""
        with self._database.reading() as connection:
            return _order(connection.execute(sa.select(break_glass_orders).where(_COLUMNS.id == order_id)).one())

    def list(self, instance_id: InstanceId | None = None) -> tuple[BreakGlass, ...]:
        """Every order, or those of an instance; the newest first."""
        query = sa.select(break_glass_orders).order_by(_COLUMNS.created_at.desc(), _COLUMNS.id)
        if instance_id is not None:
            query = query.where(_COLUMNS.instance_id == instance_id)
        return tuple(map(_order, self._rows(query)))

    def list_open(self) -> tuple[BreakGlass, ...]:
        """Return orders that allow a login now, according to machines' reports."""
        query = sa.select(break_glass_orders).where(_COLUMNS.opened_at.is_not(None), _COLUMNS.closed_at.is_(None))
        with self._database.reading() as connection:
            now = self._database.now(connection)
            orders = map(_order, connection.execute(query.order_by(_COLUMNS.created_at)).all())
            return tuple(order for order in orders if order.is_open(now))

    def current(self, machine_id: MachineId, instance_id: InstanceId | None) -> BreakGlass | None:
        """The order that a machine of that instance is to carry out now."""
        is_its = sa.and_(_COLUMNS.machine_id == machine_id, _COLUMNS.instance_id == instance_id)
        waits = sa.and_(_COLUMNS.withdrawn_at.is_(None), _COLUMNS.closed_at.is_(None))
        query = sa.select(break_glass_orders).where(is_its, waits)
        with self._database.reading() as connection:
            query = query.where(_COLUMNS.expires_at > self._database.now(connection))
            row = connection.execute(query.order_by(_COLUMNS.created_at.desc()).limit(1)).one_or_none()
        return _order(row) if row else None

    def withdraw(self, instance_id: InstanceId, *, why: str) -> tuple[BreakGlass, ...]:
        """End an instance's orders early: its machine closes sshd at its next question. Those that were ended."""
        with self._database.writing() as connection:
            ended = self._withdraw(connection, instance_id, self._database.now(connection))
            if ended:
                after = {"orders": [order.id for order in ended]}
                subject = instance_subject(instance_id)
                self._note(connection, "break_glass_withdrawn", subject, after=after, why=why)
        return ended

    def _withdraw(self, connection: sa.Connection, instance_id: InstanceId, now: datetime) -> tuple[BreakGlass, ...]:
        which = sa.and_(_COLUMNS.instance_id == instance_id, _COLUMNS.withdrawn_at.is_(None), _COLUMNS.expires_at > now)
        rows = connection.execute(sa.select(break_glass_orders).where(which).with_for_update()).all()
        connection.execute(break_glass_orders.update().where(which).values(withdrawn_at=now))
        return tuple(map(_order, rows))

    def report(self, machine_id: MachineId, report: Report) -> None:
        """Record a machine's report of its sshd; writes nothing if the report is known, as most are."""
        if not self._is_news(machine_id, report):
            return
        with self._database.writing() as connection:
            now = self._database.now(connection)
            self._keep_host(connection, machine_id, report.host, now)
            mine = sa.and_(_COLUMNS.machine_id == machine_id, _UNFINISHED)
            for row in connection.execute(sa.select(break_glass_orders).where(mine).with_for_update()):
                self._follow(connection, _order(row), report, now)

    def _is_news(self, machine_id: MachineId, report: Report) -> bool:
        mine = sa.and_(_COLUMNS.machine_id == machine_id, _UNFINISHED)
        known = sa.select(ssh_hosts.c.key, ssh_hosts.c.address).where(ssh_hosts.c.machine_id == machine_id)
        host = report.host
        with self._database.reading() as connection:
            if host.key and connection.execute(known).one_or_none() != (host.key, host.address):
                return True
            orders = [_order(row) for row in connection.execute(sa.select(break_glass_orders).where(mine))]
        return any(_changes(order, report) for order in orders)

    def _keep_host(self, connection: sa.Connection, machine_id: MachineId, host: SshHost, now: datetime) -> None:
        query = sa.select(ssh_hosts).where(ssh_hosts.c.machine_id == machine_id).with_for_update()
        row = connection.execute(query).one_or_none()
        if not host.key or (row is not None and row.reported_at > now - _HOST_STAYS):
            return
        values = {"machine_id": machine_id, "key": host.key, "address": host.address, "reported_at": now}
        insert_or_update(connection, ssh_hosts, values)
        if row is not None and row.key == host.key:
            return
        before, after = {"key": row.key} if row else {}, {"key": host.key}
        self._note(connection, "ssh_host_key_reported", f"machine/{machine_id}", before=before, after=after)

    def _follow(self, connection: sa.Connection, order: BreakGlass, report: Report, now: datetime) -> None:
        changes = _changes(order, report)
        if not changes:
            return
        values = {name: now if value is True else value for name, value in changes.items()}
        connection.execute(break_glass_orders.update().where(_COLUMNS.id == order.id).values(values))
        refused = order.opened_at is None
        action = "opened" if "opened_at" in changes else "refused" if refused else "closed"
        after = {"order": order.id, "address": changes.get("address", order.address)}
        why = str(changes.get("outcome", order.why))
        self._note(connection, f"break_glass_{action}", instance_subject(order.instance_id), after=after, why=why)


def _changes(order: BreakGlass, report: Report) -> dict[str, Any]:
    """Return the changes of an unfinished order from a machine's report; ``True`` stands for now."""
    reported = report.break_glass
    is_open = reported is not None and reported.state == "open" and reported.order == order.id
    if order.opened_at is None:
        if is_open and reported is not None:
            return {"opened_at": True, "address": reported.address}
        if reported is not None and reported.state == "refused" and reported.order in {order.id, ""}:
            return {"closed_at": True, "outcome": reported.why}
        return {}
    if is_open:
        return {}
    return {
        "closed_at": True,
        "outcome": reported.why
        if reported is not None and reported.order == order.id
        else "the machine says that it is closed",
    }


def _order(row: sa.Row[Any]) -> BreakGlass:
    return BreakGlass(**row._asdict())
