"""Rows of ``rollout_targets``, ``instance_releases`` and ``exposures``: targets, and releases that instances run."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

import sqlalchemy as sa
from pydantic import TypeAdapter

from hermesops.model.ids import InstanceId, instance_subject
from hermesops.model.operation import Lease
from hermesops.model.rollout.records import (
    OperatorDecisions,
    Progress,
    RolloutId,
    RolloutState,
    RolloutTarget,
    Target,
    TargetState,
)
from hermesops.model.rollout.release import RecordedRelease, ReleaseId
from hermesops.model.rollout.spec import Action, Spec
from hermesops.store.registry.repositories.base import Repository, insert_if_absent, insert_or_update
from hermesops.store.registry.repositories.leases import require_lease
from hermesops.store.registry.schema.tables import (
    LIVING,
    exposures,
    hermes_instances,
    instance_releases,
    rollout_targets,
    rollouts,
)

Part = TypeVar("Part", bound=Spec | OperatorDecisions | Target | Progress)

_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)

_OFF_RELEASE = frozenset({TargetState.ROLLED_BACK, TargetState.FAILED})


class RolloutTargetRepository(Repository):
    """Rows of ``rollout_targets``, with the releases of their instances."""

    def list(self, rollout_id: RolloutId) -> tuple[RolloutTarget, ...]:
        """A rollout's targets, in their order."""
        columns = rollout_targets.c
        query = sa.select(rollout_targets).where(columns.rollout_id == rollout_id).order_by(columns.position)
        return tuple(map(_target, self._rows(query)))

    def put(self, rollout_id: RolloutId, targets: Sequence[RolloutTarget], *, lease: Lease | None = None) -> None:
        """Write the states of targets, all or none, and the release that each runs where that follows from them.

        Raises:
            LeaseLostError: Another process has taken the lease.
        """
        with self._database.writing() as connection:
            require_lease(connection, lease)
            query = sa.select(rollouts.c.release, rollouts.c.action).where(rollouts.c.id == rollout_id)
            row = connection.execute(query).one()
            self.put_in(connection, rollout_id, row.release, targets, is_release=row.action == Action.SLOT)

    def outdated(self) -> tuple[tuple[RolloutId, ReleaseId, RolloutTarget], ...]:
        """Targets that a finished rollout left without its release, if it was the last rollout they were in."""
        columns, later = rollout_targets.c, rollout_targets.alias()
        newer = rollouts.alias()
        is_last = ~sa.exists().where(
            later.c.instance_id == columns.instance_id,
            newer.c.id == later.c.rollout_id,
            newer.c.created_at > rollouts.c.created_at,
        )
        query = (
            sa.select(rollout_targets, rollouts.c.release)
            .select_from(rollout_targets.join(rollouts).join(hermes_instances))
            .where(
                columns.state == TargetState.OUTDATED.value,
                rollouts.c.state == RolloutState.DONE.value,
                LIVING,
                is_last,
            )
            .order_by(rollouts.c.created_at, columns.position)
        )
        return tuple((RolloutId(row.rollout_id), ReleaseId(row.release), _target(row)) for row in self._rows(query))

    def of_instance(self, instance_id: InstanceId) -> tuple[tuple[RolloutId, ReleaseId, RolloutTarget], ...]:
        """An instance as a target of each rollout that it was in, oldest rollout first."""
        query = (
            sa.select(rollout_targets, rollouts.c.release)
            .select_from(rollout_targets.join(rollouts))
            .where(rollout_targets.c.instance_id == instance_id)
            .order_by(rollouts.c.created_at, rollouts.c.id)
        )
        return tuple((RolloutId(row.rollout_id), ReleaseId(row.release), _target(row)) for row in self._rows(query))

    def add_exposure(self, instance_id: InstanceId, release: ReleaseId, *, lease: Lease | None = None) -> None:
        """Record that an instance was among the first to get a release; safe to call twice.

        Raises:
            LeaseLostError: Another process has taken the lease.
        """
        with self._database.writing() as connection:
            require_lease(connection, lease)
            values = {"instance_id": instance_id, "release": release, "at": self._database.now(connection)}
            insert_if_absent(connection, exposures, values)

    def exposures(self) -> Mapping[InstanceId, Mapping[ReleaseId, datetime]]:
        """Return the releases that each instance was among the first to get, with the time."""
        exposed_at: dict[InstanceId, dict[ReleaseId, datetime]] = {}
        for row in self._rows(sa.select(exposures)):
            exposed_at.setdefault(row.instance_id, {})[row.release] = row.at
        return exposed_at

    def instance_releases(self) -> Mapping[InstanceId, ReleaseId]:
        """The release that each instance last ran, for those that were observed."""
        return {instance_id: recorded.id for instance_id, recorded in self.recorded_releases().items()}

    def recorded_releases(self, ids: Collection[InstanceId] | None = None) -> Mapping[InstanceId, RecordedRelease]:
        """The release that each instance last ran, and since when, for those that were observed.

        Args:
            ids: Of these instances; ``None`` for all.
        """
        which = sa.true() if ids is None else instance_releases.c.instance_id.in_(list(ids))
        rows = self._rows(sa.select(instance_releases).where(which))
        return {InstanceId(row.instance_id): RecordedRelease(ReleaseId(row.release), row.seen_at) for row in rows}

    def record_release(self, instance_id: InstanceId, release: ReleaseId, *, lease: Lease | None = None) -> None:
        """Record the release that an instance was observed to run; writes nothing where that is recorded already.

        Raises:
            LeaseLostError: Another process has taken the lease.
        """
        query = sa.select(instance_releases.c.release).where(instance_releases.c.instance_id == instance_id)
        if any(row.release == release for row in self._rows(query)):
            return
        with self._database.writing() as connection:
            require_lease(connection, lease)
            self._note_release(connection, instance_id, release)

    def record_releases(self, releases: Mapping[InstanceId, ReleaseId]) -> None:
        """Record the releases that instances were observed to run."""
        if not releases:
            return
        with self._database.writing() as connection:
            for instance_id, release in releases.items():
                self._note_release(connection, instance_id, release)

    def record_rolled_back(self, instance_id: InstanceId, release: ReleaseId, *, before: ReleaseId, why: str) -> None:
        """Record that an instance was rolled back to a release; audited unless it ran that before."""
        with self._database.writing() as connection:
            self._note_release(connection, instance_id, release)
            if release != before:
                was, now = {"release": before}, {"release": release}
                subject = instance_subject(instance_id)
                self._note(connection, "release_rolled_back", subject, before=was, after=now, why=why)

    def put_in(
        self,
        connection: sa.Connection,
        rollout_id: RolloutId,
        release: str,
        targets: Sequence[RolloutTarget],
        *,
        is_release: bool,
    ) -> None:
        """``put`` within a transaction; ``is_release`` is whether the rollout changes the release, not the image."""
        columns = rollout_targets.c
        for target in targets:
            is_it = sa.and_(columns.rollout_id == rollout_id, columns.instance_id == target.id)
            connection.execute(rollout_targets.update().where(is_it).values(_moving_values(target)))
            if not is_release:
                continue  # an image does not say which release an agent runs
            if target.progress.on_release:
                self._note_release(connection, target.id, release)
            elif target.state in _OFF_RELEASE and target.facts.release_before:
                self._note_release(connection, target.id, target.facts.release_before)

    def _note_release(self, connection: sa.Connection, instance_id: InstanceId, release: str) -> None:
        columns = instance_releases.c
        query = sa.select(columns.release).where(columns.instance_id == instance_id)
        if connection.scalar(query) == release:
            return  # ``seen_at`` is when it was first seen
        values = {"instance_id": instance_id, "release": release, "seen_at": self._database.now(connection)}
        insert_or_update(connection, instance_releases, values)


def to_json(part: Part) -> dict[str, Any]:
    """A part of a rollout as it is stored."""
    stored: dict[str, Any] = _adapter(type(part)).dump_python(part, mode="json")
    return stored


def from_json(kind: type[Part], stored: Mapping[str, Any]) -> Part:
    """Parse a stored part of a rollout; fields of a later hermesops are ignored."""
    part: Part = _adapter(kind).validate_python(stored)
    return part


def plain(value: Mapping[str, object]) -> dict[str, Any]:
    """A decision, or its evidence, as it is stored."""
    stored: dict[str, Any] = _adapter(dict[str, Any]).dump_python(value, mode="json")
    return stored


def targets_of(connection: sa.Connection, rollout_id: RolloutId) -> list[InstanceId]:
    """Read the ids of a rollout's instances."""
    query = sa.select(rollout_targets.c.instance_id).where(rollout_targets.c.rollout_id == rollout_id)
    return [InstanceId(instance_id) for instance_id in connection.scalars(query)]


def set_held(connection: sa.Connection, rollout_id: RolloutId, *, is_held: bool) -> None:
    """Reserve a rollout's instances, or free them for other rollouts."""
    connection.execute(rollout_targets.update().where(rollout_targets.c.rollout_id == rollout_id).values(held=is_held))


def values_of(rollout_id: RolloutId, target: RolloutTarget) -> dict[str, Any]:
    """Return the values of a target's row, without the column ``held``."""
    facts = to_json(target.facts)
    return {"rollout_id": rollout_id, "instance_id": target.id, "facts": facts, **_moving_values(target)}


def _moving_values(target: RolloutTarget) -> dict[str, Any]:
    values = vars(target) | {"progress": to_json(target.progress), "state": target.state.value}
    del values["facts"]
    return values


def _target(row: sa.Row[Any]) -> RolloutTarget:
    return RolloutTarget(
        facts=from_json(Target, row.facts),
        stage=row.stage,
        batch=row.batch,
        position=row.position,
        state=TargetState(row.state),
        detail=row.detail,
        touched_at=row.touched_at,
        updated_at=row.updated_at,
        progress=from_json(Progress, row.progress),
    )
