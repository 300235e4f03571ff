"""Rows of ``list``, and beside them which release instances run and who was among the first."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from hermesops.model.ids import InstanceId, instance_subject
from hermesops.model.operation import Lease
from hermesops.model.release import ReleaseId
from hermesops.model.rollout import Progress, RolloutId, RolloutState, RolloutTarget, Target, TargetState
from hermesops.model.rollout_spec import Action
from hermesops.registry.repositories.base import Repository, insert_if_absent, insert_or_update
from hermesops.registry.repositories.leases import require_lease
from hermesops.registry.repositories.rollouts import encoding
from hermesops.registry.schema.tables import (
    LIVING,
    exposures,
    hermes_instances,
    instance_releases,
    rollout_targets,
    rollouts,
)

_OFF_RELEASE = frozenset({TargetState.ROLLED_BACK, TargetState.FAILED})


class RolloutTargetRepository(Repository):
    """Targets of rollouts."""

    def list(self, rollout_id: RolloutId) -> tuple[RolloutTarget, ...]:
        """A rollout's targets, in the order of its course."""
        columns = rollout_targets.c
        query = sa.select(rollout_targets).where(columns.rollout_id == rollout_id).order_by(columns.position)
        with self._database.reading() as connection:
            return tuple(_target(row) for row in connection.execute(query))

    def put(self, rollout_id: RolloutId, targets: Sequence[RolloutTarget], *, lease: Lease | None = None) -> None:
        """Write where targets stand, all or none; and which release each runs, where that follows.

        Raises:
            LeaseLostError: The lease is somebody else's by now.
        """
        with self._database.writing() as connection:
            if lease:
                require_lease(connection, lease)
            query = sa.select(rollouts.c.release, rollouts.c.action).where(rollouts.c.id == rollout_id)
            row = connection.execute(query).one()
            self.put_in(connection, rollout_id, row.release, targets, is_release=row.action == Action.SLOT)

    def outdated(self) -> tuple[tuple[RolloutId, ReleaseId, RolloutTarget], ...]:
        """Who did not get what a rollout that has ended was to bring, by the last rollout that each was in."""
        columns, later = rollout_targets.c, rollout_targets.alias()
        newer = rollouts.alias()
        is_last = ~sa.exists().where(
            later.c.instance_id == columns.instance_id,
            newer.c.id == later.c.rollout_id,
            newer.c.created_at > rollouts.c.created_at,
        )
        query = (
            sa.select(rollout_targets, rollouts.c.release)
            .join_from(rollout_targets, rollouts, rollouts.c.id == columns.rollout_id)
            .join(hermes_instances, hermes_instances.c.id == columns.instance_id)
            .where(
                columns.state == TargetState.OUTDATED.value,
                rollouts.c.state == RolloutState.DONE.value,
                LIVING,
                is_last,
            )
            .order_by(rollouts.c.created_at, columns.position)
        )
        with self._database.reading() as connection:
            found = connection.execute(query)
            return tuple((RolloutId(row.rollout_id), ReleaseId(row.release), _target(row)) for row in found)

    def add_exposure(self, instance_id: InstanceId, release: ReleaseId, *, lease: Lease | None = None) -> None:
        """Note that an instance was among the first to get a release; harmless when it stands there.

        Raises:
            LeaseLostError: The lease is somebody else's by now.
        """
        with self._database.writing() as connection:
            if lease:
                require_lease(connection, lease)
            values = {"instance_id": instance_id, "release": release, "at": self._database.now(connection)}
            insert_if_absent(connection, exposures, values)

    def exposures(self) -> Mapping[InstanceId, Mapping[ReleaseId, datetime]]:
        """Which releases each instance was among the first to get, and when."""
        found: dict[InstanceId, dict[ReleaseId, datetime]] = {}
        with self._database.reading() as connection:
            for row in connection.execute(sa.select(exposures)):
                found.setdefault(InstanceId(row.instance_id), {})[ReleaseId(row.release)] = row.at
        return found

    def instance_releases(self) -> Mapping[InstanceId, ReleaseId]:
        """The release that each instance was last seen to run; those never looked at are absent."""
        columns = instance_releases.c
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(columns.instance_id, columns.release))
            return {InstanceId(row.instance_id): ReleaseId(row.release) for row in rows}

    def record_releases(self, seen: Mapping[InstanceId, ReleaseId]) -> None:
        """Write down which releases instances were seen to run."""
        if not seen:
            return
        with self._database.writing() as connection:
            for instance_id, release in seen.items():
                self._note_release(connection, instance_id, release)

    def record_rolled_back(self, instance_id: InstanceId, release: ReleaseId, *, before: ReleaseId, why: str) -> None:
        """Write down that one instance was put back on a release; nothing where it was there already."""
        with self._database.writing() as connection:
            self._note_release(connection, instance_id, release)
            if release != before:
                told, after = {"release": before}, {"release": release}
                subject = instance_subject(instance_id)
                self._note(connection, "release_rolled_back", subject, before=told, after=after, why=why)

    def put_in(
        self,
        connection: sa.Connection,
        rollout_id: RolloutId,
        release: str,
        targets: Sequence[RolloutTarget],
        *,
        is_release: bool,
    ) -> None:
        """``put`` within a transaction; ``is_release`` is whether the rollout brings a release, not an image."""
        columns = rollout_targets.c
        for target in targets:
            is_it = sa.and_(columns.rollout_id == rollout_id, columns.instance_id == target.id)
            connection.execute(rollout_targets.update().where(is_it).values(_moving_values(target)))
            if not is_release:
                continue  # of an image: which release an agent runs does not follow
            if target.progress.on_release:
                self._note_release(connection, target.id, release)
            elif target.state in _OFF_RELEASE and target.facts.release_before:
                self._note_release(connection, target.id, target.facts.release_before)

    def _note_release(self, connection: sa.Connection, instance_id: InstanceId, release: str) -> None:
        values = {"instance_id": instance_id, "release": release, "seen_at": self._database.now(connection)}
        insert_or_update(connection, instance_releases, values)


def targets_of(connection: sa.Connection, rollout_id: RolloutId) -> list[InstanceId]:
    """Whom a rollout is about."""
    query = sa.select(rollout_targets.c.instance_id).where(rollout_targets.c.rollout_id == rollout_id)
    return [InstanceId(one) for one in connection.scalars(query)]


def hold(connection: sa.Connection, rollout_id: RolloutId) -> None:
    """Keep others off a rollout's instances."""
    connection.execute(rollout_targets.update().where(rollout_targets.c.rollout_id == rollout_id).values(held=True))


def let_go(connection: sa.Connection, rollout_id: RolloutId) -> None:
    """Free a rollout's instances for others."""
    connection.execute(rollout_targets.update().where(rollout_targets.c.rollout_id == rollout_id).values(held=False))


def values_of(rollout_id: RolloutId, target: RolloutTarget) -> dict[str, Any]:
    """A whole row, but for whether it is held."""
    return {
        "rollout_id": rollout_id,
        "instance_id": target.id,
        "facts": encoding.to_json(target.facts),
        **_moving_values(target),
    }


def _moving_values(target: RolloutTarget) -> dict[str, Any]:
    return {
        "stage": target.stage,
        "batch": target.batch,
        "position": target.position,
        "progress": encoding.to_json(target.progress),
        "state": target.state.value,
        "detail": target.detail,
        "touched_at": target.touched_at,
        "updated_at": target.updated_at,
    }


def _target(row: sa.Row[Any]) -> RolloutTarget:
    return RolloutTarget(
        facts=encoding.from_json(Target, row.facts),
        stage=row.stage,
        batch=row.batch,
        position=row.position,
        state=TargetState(row.state),
        detail=row.detail,
        touched_at=row.touched_at,
        updated_at=row.updated_at,
        progress=encoding.from_json(Progress, row.progress),
    )
