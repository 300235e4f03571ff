"""Rows of ``releases``: known releases, their publishers, and revocations."""

import sqlalchemy as sa

from hermesops.errors import Hint, RefusedError
from hermesops.model.rollout.release import KnownRelease, ReleaseId, release_subject
from hermesops.model.unknown_name import unknown_name
from hermesops.store.registry.repositories.base import Repository, insert_if_absent
from hermesops.store.registry.schema.tables import releases


class ReleaseRepository(Repository):
    """Rows of ``releases``, by release id."""

    def add(self, release_id: ReleaseId, *, digest: str, agent_version: str) -> KnownRelease:
        """Add a release; safe to call twice, the first call's time and actor stay. ``digest`` is its lock's SHA-256.

        Raises:
            RefusedError: The id belongs to another lock already.
        """
        values = {"id": release_id, "digest": digest, "agent_version": agent_version, "revoked_at": None, "why": ""}
        with self._database.writing() as connection:
            stamp = {"created_at": self._database.now(connection), "who": self._context.audit_log.actor}
            if insert_if_absent(connection, releases, values | stamp):
                self._note(connection, "release_known", release_subject(release_id), after={"digest": digest})
            row = connection.execute(sa.select(releases).where(releases.c.id == release_id)).one()
        if row.digest != digest:
            raise RefusedError(
                f"release {release_id} is known with another lock", hint=Hint(("release", "show", row.id))
            )
        return KnownRelease(**row._asdict())

    def ids(self) -> frozenset[ReleaseId]:
        """Every release that was ever added."""
        return frozenset(ReleaseId(id_) for (id_,) in self._rows(sa.select(releases.c.id)))

    def revoke(self, release_id: ReleaseId, *, why: str) -> KnownRelease:
        """Revoke a release: no machine may run it from now on; safe to call twice, the first reason stays.

        Machines read the signed list of revocations, not this row.

        Raises:
            UsageError: There is no such release.
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
            return KnownRelease(**connection.execute(sa.select(releases).where(is_it)).one()._asdict())
