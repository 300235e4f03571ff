"""Rows of ``releases``: which there are, who made them known, and which may run no more."""

from typing import Any

import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.model.release import KnownRelease, ReleaseId, release_subject
from hermesops.model.unknown_name import unknown_name
from hermesops.registry.repositories.base import Repository, insert_if_absent
from hermesops.registry.schema.tables import releases


class ReleaseRepository(Repository):
    """Releases by their ids."""

    def add(self, release_id: ReleaseId, *, digest: str, agent_version: str) -> KnownRelease:
        """Make a release known; safe to call twice. Who did, and when, the first call says.

        Args:
            release_id: It.
            digest: SHA-256 of its lock, hex.
            agent_version: Of the agent in it.

        Raises:
            RefusedError: The id stands for another lock already.
        """
        values = {"id": release_id, "digest": digest, "agent_version": agent_version, "revoked_at": None, "why": ""}
        with self._database.writing() as connection:
            stamp = {"created_at": self._database.now(connection), "who": self._context.audit_log.actor}
            if insert_if_absent(connection, releases, values | stamp):
                self._note(connection, "release_known", release_subject(release_id), after={"digest": digest})
            row = connection.execute(sa.select(releases).where(releases.c.id == release_id)).one()
        if row.digest != digest:
            raise RefusedError(
                f"release {release_id} is known with another lock", hint=f"hermesops release show {row.id}"
            )
        return _release(row)

    def ids(self) -> frozenset[ReleaseId]:
        """Every release that was ever known."""
        with self._database.reading() as connection:
            return frozenset(map(ReleaseId, connection.scalars(sa.select(releases.c.id))))

    def revoke(self, release_id: ReleaseId, *, why: str) -> KnownRelease:
        """Write down that no machine may run a release from now on; safe to call twice, the first reason stays.

        Machines learn it from the signed list of revocations, not from here.

        Raises:
            UsageError: It is not known.
        """
        is_it = releases.c.id == release_id
        with self._database.writing() as connection:
            row = connection.execute(sa.select(releases).where(is_it).with_for_update()).one_or_none()
            if row is None:
                raise unknown_name("release", release_id)
            if row.revoked_at is None:
                values = {"revoked_at": self._database.now(connection), "why": why}
                connection.execute(releases.update().where(is_it).values(values))
                self._note(connection, "release_revoked", release_subject(release_id), why=why)
            return _release(connection.execute(sa.select(releases).where(is_it)).one())


def _release(row: sa.Row[Any]) -> KnownRelease:
    return KnownRelease(
        ReleaseId(row.id), row.digest, row.agent_version, row.created_at, row.who, row.revoked_at, row.why
    )
