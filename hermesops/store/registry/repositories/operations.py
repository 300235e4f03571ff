"""Rows of ``operations`` and ``operation_steps``: intent, steps and outcome of everything long."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.model.ids import InstanceId, OperationId
from hermesops.model.operation import (
    BACKUPS_SUBJECT,
    MONITOR_SUBJECT,
    BackgroundWork,
    Lease,
    LeasedWork,
    Operation,
    OperationKind,
    OperationStatus,
    OperationStep,
    background_work,
)
from hermesops.model.unknown_name import find_by_id, unknown_name
from hermesops.store.registry.repositories.base import Repository, insert_if_absent, new_id
from hermesops.store.registry.repositories.leases import require_lease
from hermesops.store.registry.schema.columns import UtcTimestamp
from hermesops.store.registry.schema.tables import UNFINISHED, leases, operation_steps, operations

_STEP_LENGTH = 255


class OperationRepository(Repository):
    """Operations, unfinished and past, with their steps."""

    def open(
        self,
        kind: OperationKind,
        subject: str,
        *,
        intent: Mapping[str, object] | None = None,
        instance_id: InstanceId | None = None,
    ) -> Operation:
        """Record an intent before anything is done, or return the unfinished operation of that kind and subject.

        There is at most one: a second caller, in any process, gets the first one's row with the first one's intent.
        ``subject`` is named as in a lease (``instance/<id>``); ``intent`` is JSON without secrets.
        """
        with self._database.writing() as connection:
            return self.open_in(connection, kind, subject, intent=intent, instance_id=instance_id)

    def record_step(self, operation_id: OperationId, step: str, *, lease: Lease | None = None) -> None:
        """Record that a step begins; the operation is ``running`` from here on.

        Raises:
            RefusedError: The operation has ended.
            LeaseLostError: Another process has taken the lease.
        """
        step = step[:_STEP_LENGTH]
        with self._database.writing() as connection:
            require_lease(connection, lease)
            self.move_in(connection, operation_id, status=OperationStatus.RUNNING, step=step)
            self._begin_step(connection, operation_id, step, lease)

    def record_problem(self, operation_id: OperationId, problem: str, *, lease: Lease | None = None) -> None:
        """Record why work on an operation stopped, in one line without secrets; its status stays.

        Raises:
            LeaseLostError: Another process has taken the lease.
        """
        with self._database.writing() as connection:
            require_lease(connection, lease)
            last = connection.execute(
                sa.select(operation_steps)
                .where(operation_steps.c.operation_id == operation_id)
                .order_by(operation_steps.c.id.desc())
                .limit(1)
            ).one_or_none()
            # A step that another holder began keeps the problem that it recorded.
            if last is None or last.problem or (lease and last.holder != lease.holder):
                number = self._begin_step(connection, operation_id, "looking", lease)
            else:
                number = last.id
            connection.execute(operation_steps.update().where(operation_steps.c.id == number).values(problem=problem))

    def steps(self, operation_id: OperationId) -> tuple[OperationStep, ...]:
        """The steps that an operation has begun, oldest first, repetitions included."""
        query = (
            sa.select(operation_steps)
            .where(operation_steps.c.operation_id == operation_id)
            .order_by(operation_steps.c.id)
        )
        return tuple(map(_step, self._rows(query)))

    def steps_of(
        self, instance_id: InstanceId, *, since: datetime | None = None
    ) -> tuple[tuple[OperationId, OperationStep], ...]:
        """The steps of an instance's operations since a moment, ``None`` for all, oldest first."""
        query = (
            sa.select(operation_steps)
            .join(operations)
            .where(operations.c.instance_id == instance_id)
            .order_by(operation_steps.c.id)
        )
        if since:
            query = query.where(operation_steps.c.at >= since)
        return tuple((OperationId(row.operation_id), _step(row)) for row in self._rows(query))

    def finish(
        self, operation_id: OperationId, status: OperationStatus, outcome: str, *, lease: Lease | None = None
    ) -> None:
        """End the operation, with its outcome in one line and without secrets.

        Raises:
            RefusedError: It has another outcome already.
            LeaseLostError: Another process has taken the lease.
        """
        with self._database.writing() as connection:
            require_lease(connection, lease)
            self.move_in(connection, operation_id, status=status, outcome=outcome)

    def get(self, operation_id: str) -> Operation:
        """Return the operation with this id, or with the only id that begins with it.

        Raises:
            UsageError: There is none, or more than one.
        """
        with self._database.reading() as connection:
            ids = connection.scalars(sa.select(operations.c.id)).all()
            meant = find_by_id("operation", operation_id, ids)
            return _operation(connection.execute(sa.select(operations).where(operations.c.id == meant)).one())

    def list(
        self,
        *,
        unfinished: bool = False,
        instance_id: InstanceId | None = None,
        kind: OperationKind | None = None,
        limit: int = 1000,
    ) -> tuple[Operation, ...]:
        """Return operations, newest first, with optional filters."""
        query = sa.select(operations).order_by(operations.c.created_at.desc(), operations.c.id).limit(limit)
        if unfinished:
            query = query.where(UNFINISHED)
        if instance_id:
            query = query.where(operations.c.instance_id == instance_id)
        if kind:
            query = query.where(operations.c.kind == kind)
        return tuple(map(_operation, self._rows(query)))

    def unfinished(self, *, limit: int = 2000) -> tuple[Operation, ...]:
        """Operations that have not ended, oldest first, of the kinds that this hermesops knows."""
        query = (
            sa.select(operations)
            .where(UNFINISHED, operations.c.kind.in_([kind.value for kind in OperationKind]))
            .order_by(operations.c.created_at, operations.c.id)
            .limit(limit)
        )
        return tuple(map(_operation, self._rows(query)))

    def background(self) -> BackgroundWork:
        """Return whether operations wait that no process works on, and whether a monitor acts; one indexed query."""
        lease, columns = leases.c, operations.c
        of_operations = (
            sa.select(columns.created_at, columns.subject, lease.holder, lease.expires_at)
            .select_from(operations.outerjoin(leases, lease.subject == columns.subject))
            .where(UNFINISHED)
        )
        of_others = sa.select(sa.cast(sa.null(), UtcTimestamp), lease.subject, lease.holder, lease.expires_at).where(
            lease.subject.in_((MONITOR_SUBJECT, BACKUPS_SUBJECT))
        )
        with self._database.reading() as connection:
            now = self._database.now(connection)
            rows = connection.execute(of_operations.union_all(of_others)).all()
        return background_work(
            (LeasedWork(at, subject, holder or "", until) for at, subject, holder, until in rows), now
        )

    def open_in(
        self,
        connection: sa.Connection,
        kind: OperationKind,
        subject: str,
        *,
        intent: Mapping[str, object] | None = None,
        instance_id: InstanceId | None = None,
    ) -> Operation:
        """Do ``open`` within the caller's transaction."""
        now = self._database.now(connection)
        values = {
            "id": new_id(),
            "kind": kind.value,
            "subject": subject,
            "instance_id": instance_id,
            "intent": dict(intent or {}),
            "status": OperationStatus.PENDING,
            "step": "",
            "outcome": "",
            "created_at": now,
            "updated_at": now,
        }
        is_it = (operations.c.kind == kind, operations.c.subject == subject, UNFINISHED)
        row = None
        while row is None:  # the unfinished one may end before it is read
            if insert_if_absent(connection, operations, values):
                self._note(connection, "operation_opened", subject, why=f"{kind} {values['id']}")
            row = connection.execute(sa.select(operations).where(*is_it)).one_or_none()
        return _operation(row)

    def _begin_step(self, connection: sa.Connection, operation_id: OperationId, step: str, lease: Lease | None) -> int:
        values = {
            "operation_id": operation_id,
            "at": self._database.now(connection),
            "step": step,
            "holder": lease.holder if lease else "",
            "problem": "",
        }
        adding = operation_steps.insert().values(values).returning(operation_steps.c.id)
        number: int = connection.execute(adding).scalar_one()
        return number

    def move_in(
        self, connection: sa.Connection, operation_id: OperationId, *, status: OperationStatus, **values: object
    ) -> None:
        """Set the status, and other columns with it, within a transaction.

        Raises:
            UsageError: There is no such operation.
            RefusedError: It has ended in another status.
        """
        row = connection.execute(
            sa.select(operations).where(operations.c.id == operation_id).with_for_update()
        ).one_or_none()
        if row is None:
            raise unknown_name("operation", operation_id)
        if row.status.has_ended:
            if row.status == status:
                return
            raise RefusedError(f"operation {operation_id} has ended: {row.status}")
        connection.execute(
            operations.update()
            .where(operations.c.id == operation_id)
            .values(status=status, updated_at=self._database.now(connection), **values)
        )
        if status.has_ended:
            self._note(
                connection,
                "operation_ended",
                row.subject,
                before={"status": row.status},
                after={"status": status, "outcome": values.get("outcome", "")},
                why=f"{row.kind} {operation_id}",
            )


def last_in(connection: sa.Connection, kind: OperationKind, subject: str) -> Operation | None:
    """The newest operation of a kind and subject; an unfinished one counts as the newest."""
    row = connection.execute(
        sa.select(operations)
        .where(operations.c.kind == kind, operations.c.subject == subject)
        .order_by(sa.case((UNFINISHED, 0), else_=1), operations.c.created_at.desc())
        .limit(1)
    ).one_or_none()
    return _operation(row) if row else None


def _step(row: sa.Row[Any]) -> OperationStep:
    return OperationStep(row.at, row.step, row.holder, row.problem)


def _operation(row: sa.Row[Any]) -> Operation:
    return Operation(**row._asdict() | {"kind": OperationKind(row.kind)})
