"""Rotates the registry's key while others write; each step is one transaction, and may be repeated."""

import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.store.registry.encryption.sealing import SEALING_KEY, place, read_key, sealed_cells, stop_sealing
from hermesops.store.registry.repositories.base import Repository, insert_or_update
from hermesops.store.registry.schema.tables import meta

PROOF = "key_proof"
"""Name of the row of ``meta`` that only the right key opens."""

_SUBJECT = "registry/key"
_BATCH = 100


class SealingRepository(Repository):
    """The key that seals, and the values that another key sealed."""

    def key(self) -> str:
        """Id of the key that seals."""
        with self._database.reading() as connection:
            return read_key(connection) or self._context.sealer.current

    def use(self, key: str, *, why: str) -> None:
        """Make this the key that every process seals with; safe to call twice.

        Returns when no transaction seals with another key any more. Sealed values stay readable.

        Raises:
            RefusedError: This computer does not have the key.
        """
        sealer = self._context.sealer
        sealer.reload()
        if key not in sealer.key_ids:
            raise RefusedError(f"there is no key {key} in {sealer.source}")
        with self._database.writing() as connection:
            stop_sealing(self._database, connection)
            before = read_key(connection) or sealer.current
            insert_or_update(connection, meta, {"name": SEALING_KEY, "value": key})
            if before != key:
                self._note(
                    connection, "registry_key_changed", _SUBJECT, before={"key": before}, after={"key": key}, why=why
                )

    def reseal(self, *, limit: int = _BATCH) -> int:
        """Seal some of the values of other keys with the present one; returns how many, 0 when all are.

        Concurrent writers seal with the present key anyway.

        Raises:
            RefusedError: A value does not open; the message names it. The batch is unchanged.
        """
        sealer = self._context.sealer
        sealer.reload()
        with self._database.writing() as connection:
            key = read_key(connection) or sealer.current
            done = 0
            for cell in sealed_cells(connection, but_with=key, limit=limit, lock=True):
                fresh = self._seal_in(connection, sealer.unseal(cell.sealed, place=cell.place), cell.place)
                connection.execute(cell.column.table.update().where(cell.is_row).values({cell.column.name: fresh}))
                done += 1
            return done + self._prove_anew(connection, key)

    def record_resealed(self, *, why: str) -> None:
        """Record that every value is sealed with the present key.

        Raises:
            RefusedError: One is not.
        """
        with self._database.writing() as connection:
            key = read_key(connection) or self._context.sealer.current
            other = next(sealed_cells(connection, but_with=key, limit=1), None)
            if other is not None:
                raise RefusedError(f"{other.place} is still sealed with another key than {key}")
            self._note(connection, "registry_key_rotated", _SUBJECT, after={"key": key}, why=why)

    def count_otherwise(self) -> int:
        """Return the number of values that other keys than the present one sealed, the proof of the key included."""
        with self._database.reading() as connection:
            key = read_key(connection) or self._context.sealer.current
            proof = connection.execute(sa.select(meta.c.value).where(meta.c.name == PROOF)).scalar_one()
            is_old = not proof.startswith(f"hs1.{key}.")
            return sum(1 for _ in sealed_cells(connection, but_with=key)) + is_old

    def _prove_anew(self, connection: sa.Connection, key: str) -> int:
        """Seal the proof with the present key, so that opening the registry with another one fails."""
        query = sa.select(meta.c.value).where(meta.c.name == PROOF)
        proof = connection.execute(query).scalar_one()
        if proof.startswith(f"hs1.{key}."):
            return 0
        where = place("meta", "value", PROOF)
        fresh = self._seal_in(connection, self._context.sealer.unseal(proof, place=where), where)
        connection.execute(meta.update().where(meta.c.name == PROOF).values(value=fresh))
        return 1
