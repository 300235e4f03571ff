"""Rows of ``rollouts`` and ``rollout_events``: each rollout's release, state and decisions.

It must not know how a rollout is decided; that is ``hermesops.agents.rollout``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from hermesops.errors import Hint, Parameter, RefusedError, UsageError
from hermesops.model.ids import InstanceId, OperationId
from hermesops.model.operation import Lease, Operation, OperationKind
from hermesops.model.rollout.records import (
    OperatorDecisions,
    Rollout,
    RolloutEvent,
    RolloutId,
    RolloutState,
    RolloutTarget,
    rollout_subject,
)
from hermesops.model.rollout.spec import Action, Spec
from hermesops.model.unknown_name import find_by_id, unknown_name
from hermesops.store.registry.repositories.base import Repository, WriteContext
from hermesops.store.registry.repositories.leases import require_lease
from hermesops.store.registry.repositories.operations import OperationRepository
from hermesops.store.registry.repositories.rollouts.targets import (
    RolloutTargetRepository,
    from_json,
    plain,
    set_held,
    targets_of,
    to_json,
    values_of,
)
from hermesops.store.registry.schema.tables import hermes_instances, rollout_events, rollout_targets, rollouts, users

_LIST = Hint(("rollout", "list"))
_ENDED = [state.value for state in RolloutState if state.has_ended]


class RolloutRepository(Repository):
    """Rows of ``rollouts``, unfinished and past."""

    def __init__(self, context: WriteContext) -> None:
        super().__init__(context)
        self._operations = OperationRepository(context)
        self._targets = RolloutTargetRepository(context)

    def add(self, rollout: Rollout, targets: Sequence[RolloutTarget], event: RolloutEvent) -> Operation:
        """Write a rollout with its targets, in their order, and its first event; open its operation.

        Raises:
            RefusedError: Another unfinished rollout has one of the instances.
        """
        subject = rollout_subject(rollout.id)
        with self._database.writing() as connection:
            _refuse_held(connection, [target.id for target in targets])
            connection.execute(rollouts.insert().values(_row_of(rollout)))
            rows = [values_of(rollout.id, target) | {"held": True} for target in targets]
            connection.execute(rollout_targets.insert(), rows)
            append_event(connection, rollout.id, event)
            operation = self._open_in(connection, rollout)
            after = {"release": rollout.release, "targets": len(targets)}
            self._note(connection, "rollout_started", subject, after=after, why=rollout.reason)
        return operation

    def reopen_operation(self, rollout: Rollout) -> Operation:
        """The operation that runs a rollout: the unfinished one, else a new one."""
        with self._database.writing() as connection:
            return self._open_in(connection, rollout)

    def find(self, text: str) -> Rollout:
        """A rollout by an unambiguous beginning of its id; for an empty text the newest unfinished, else the newest.

        Raises:
            UsageError: There is none, or more than one.
        """
        every = self.list()
        if not text and every:
            return next((rollout for rollout in every if not rollout.state.has_ended), every[0])
        if not text:
            raise UsageError("there is no rollout yet", hint=_LIST)
        by_id = {rollout.id: rollout for rollout in every}
        return by_id[RolloutId(find_by_id("rollout", text, by_id))]

    def list(self, *, unfinished: bool = False, limit: int = 1000) -> tuple[Rollout, ...]:
        """Return rollouts, the newest first, ended ones too unless ``unfinished``."""
        query = sa.select(rollouts).order_by(rollouts.c.created_at.desc(), rollouts.c.id).limit(limit)
        if unfinished:
            query = query.where(rollouts.c.state.not_in(_ENDED))
        return tuple(map(_rollout, self._rows(query)))

    def get(self, rollout_id: RolloutId) -> Rollout:
        """Return the rollout with that id.

        Raises:
            UsageError: No rollout has that id.
        """
        row = self._row(sa.select(rollouts).where(rollouts.c.id == rollout_id))
        if row is None:
            raise unknown_name("rollout", rollout_id)
        return _rollout(row)

    def state(self, rollout_id: RolloutId) -> RolloutState:
        """A rollout's state, without the rest of its row."""
        with self._database.reading() as connection:
            return RolloutState(
                connection.execute(sa.select(rollouts.c.state).where(rollouts.c.id == rollout_id)).scalar_one()
            )

    def change(
        self,
        was: Rollout,
        rollout: Rollout,
        event: RolloutEvent,
        *,
        targets: Sequence[RolloutTarget] = (),
        lease: Lease | None = None,
    ) -> bool:
        """Write a rollout's state and decisions, with an event and targets; nothing if the row differs from ``was``.

        The end of a rollout releases its instances for others; a rollout that continues after its end takes them again.
        Without ``who``, the registry's actor changed it. An operator's command has no ``lease``.

        Returns:
            True if the row was written.

        Raises:
            RefusedError: The rollout had ended, and another rollout has some of its instances now.
            LeaseLostError: Another process has taken the lease.
        """
        is_it = rollouts.c.id == rollout.id
        with self._database.writing() as connection:
            require_lease(connection, lease)
            stored = _rollout(connection.execute(sa.select(rollouts).where(is_it).with_for_update()).one())
            if (stored.state, stored.reason, stored.who, stored.decisions) != (
                was.state,
                was.reason,
                was.who,
                was.decisions,
            ):
                return False
            values = {
                "state": rollout.state.value,
                "reason": rollout.reason,
                "who": rollout.who or self._context.audit_log.actor,
                "decisions": to_json(rollout.decisions),
                "updated_at": self._database.now(connection),
            }
            connection.execute(rollouts.update().where(is_it).values(values))
            is_release = rollout.action is Action.SLOT
            self._targets.put_in(connection, rollout.id, rollout.release, targets, is_release=is_release)
            if rollout.state.has_ended:
                set_held(connection, rollout.id, is_held=False)
            elif was.state.has_ended:
                _refuse_held(connection, targets_of(connection, rollout.id))
                set_held(connection, rollout.id, is_held=True)
            append_event(connection, rollout.id, event)
            before = {"state": was.state.value, **to_json(was.decisions)}
            after = {"state": rollout.state.value, **to_json(rollout.decisions)}
            if before != after:
                subject = rollout_subject(rollout.id)
                self._note(connection, "rollout_changed", subject, before=before, after=after, why=rollout.reason)
        return True

    def _open_in(self, connection: sa.Connection, rollout: Rollout) -> Operation:
        subject, intent = rollout_subject(rollout.id), {"rollout": rollout.id, "release": rollout.release}
        operation = self._operations.open_in(connection, OperationKind.ROLLOUT, subject, intent=intent)
        connection.execute(
            rollouts.update().where(rollouts.c.id == rollout.id).values(operation_id=OperationId(operation.id))
        )
        return operation


def _refuse_held(connection: sa.Connection, instances: Sequence[InstanceId]) -> None:
    """Refuse instances of another unfinished rollout; an index of the database refuses concurrent ones."""
    columns = rollout_targets.c
    query = (
        sa.select(columns.rollout_id, columns.instance_id, users.c.alias, users.c.id.label("user_id"))
        .select_from(rollout_targets.join(hermes_instances).join(users))
        .where(columns.held)
    )
    ours = set(instances)
    taken = [row for row in connection.execute(query) if row.instance_id in ours]
    if not taken:
        return
    ids = sorted({row.rollout_id for row in taken})
    some = ", ".join(sorted(row.alias or row.user_id for row in taken)[:3]) + (" …" if len(taken) > 3 else "")  # noqa: PLR2004 - enough to recognise
    raise RefusedError(
        f"rollout {', '.join(ids)} has not ended and has {len(taken)} of these instances: {some}",
        hint=Hint(
            ("rollout", "abort", ids[0]),
            "ends it,",
            Parameter("queue"),
            "waits for its end;",
            ("rollout", "status", ids[0]),
        ),
    )


def _row_of(rollout: Rollout) -> dict[str, Any]:
    stored = {
        "action": rollout.action.value,
        "spec": to_json(rollout.spec),
        "state": rollout.state.value,
        "decisions": to_json(rollout.decisions),
    }
    return vars(rollout) | stored


def _rollout(row: sa.Row[Any]) -> Rollout:
    read = {
        "action": Action(row.action),
        "spec": from_json(Spec, row.spec),
        "state": RolloutState(row.state),
        "decisions": from_json(OperatorDecisions, row.decisions),
    }
    fields = row._asdict() | read
    del fields["operation_id"]
    return Rollout(**fields)


class RolloutEventRepository(Repository):
    """Decisions of rollouts, as events; appended, never changed."""

    def add(self, rollout_id: RolloutId, event: RolloutEvent, *, lease: Lease | None = None) -> None:
        """Append an event.

        Raises:
            LeaseLostError: Another process has taken the lease.
        """
        with self._database.writing() as connection:
            require_lease(connection, lease)
            append_event(connection, rollout_id, event)

    def list(self, rollout_id: RolloutId) -> tuple[RolloutEvent, ...]:
        """A rollout's events, the oldest first."""
        query = sa.select(rollout_events).where(rollout_events.c.rollout_id == rollout_id).order_by(rollout_events.c.id)
        return tuple(map(_event, self._rows(query)))

    def latest(self, rollout_id: RolloutId) -> Mapping[str, RolloutEvent]:
        """The newest event of each kind."""
        newest = (
            sa.select(sa.func.max(rollout_events.c.id))
            .where(rollout_events.c.rollout_id == rollout_id)
            .group_by(rollout_events.c.kind)
        )
        return {
            row.kind: _event(row)
            for row in self._rows(sa.select(rollout_events).where(rollout_events.c.id.in_(newest)))
        }


def append_event(connection: sa.Connection, rollout_id: RolloutId, event: RolloutEvent) -> None:
    """Append an event in the transaction of the change."""
    values = {
        "rollout_id": rollout_id,
        "at": event.at,
        "kind": event.kind,
        "decision": plain(event.decision),
        "evidence": plain(event.evidence),
    }
    connection.execute(rollout_events.insert().values(values))


def _event(row: sa.Row[Any]) -> RolloutEvent:
    return RolloutEvent(row.at, row.kind, row.decision, row.evidence, row.id)
