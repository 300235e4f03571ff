"""Tokens for the model router: the generation that is valid, and when the present token expires.

Routers read the generation as a floor and refuse tokens of earlier ones. A transaction that takes an agent from its
machine raises it too, so a copied token is never valid once a row says that the agent is gone.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.model.billing.route import PresentToken, TokenRotation
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import InstanceId, instance_subject
from hermesops.model.rollout.release import ReleaseId
from hermesops.store.registry.repositories.base import Repository
from hermesops.store.registry.repositories.instances.instance import (
    ALL,
    details_in,
    instance_of,
    no_instance,
    update_details,
)
from hermesops.store.registry.schema.tables import hermes_instances, instance_details
from hermesops.store.registry.transactions.revoke_credentials import raise_token_floor

_PRESENT = sa.select(
    instance_details.c.instance_id,
    instance_details.c.model_token_generation,
    instance_details.c.model_token_expires_at,
    instance_details.c.model_token_handed_at,
)
"""No sealed column: readers without the key see it."""


class ModelTokenRepository(Repository):
    """Generations and expiries of instances' tokens."""

    def get(self, instance_id: InstanceId) -> PresentToken:
        """Generation and expiry of an instance's present token.

        Raises:
            UsageError: There is no such instance.
        """
        row = self._row(_PRESENT.where(instance_details.c.instance_id == instance_id))
        if row is None:
            raise no_instance(instance_id)
        return _token_of(row)

    def all(self) -> Mapping[InstanceId, PresentToken]:
        """Generation and expiry of the present token of each instance, terminated ones too."""
        return {InstanceId(row.instance_id): _token_of(row) for row in self._rows(_PRESENT)}

    def renew(self, instance_id: InstanceId, *, life: timedelta) -> PresentToken:
        """The present token; a new one where less than half of ``life`` is left. The old one expires by itself."""
        with self._database.writing() as connection:
            now = self._database.now(connection)
            details = details_in(connection, instance_id, lock=True)
            expires_at, handed_at = details.model_token_expires_at, details.model_token_handed_at
            if expires_at is None or expires_at - now < life / 2:
                # Whole seconds: the token holds no others.
                expires_at, handed_at = (now + life).replace(microsecond=0), None
                fresh = {"model_token_expires_at": expires_at, "model_token_handed_at": None}
                update_details(connection, instance_id, **fresh)
        return PresentToken(details.model_token_generation, expires_at, handed_at)

    def record_handed(self, instance_id: InstanceId, token: PresentToken) -> None:
        """Record that an instance's machine has that token, unless it is no longer the present one."""
        columns = instance_details.c
        is_present = sa.and_(
            columns.instance_id == instance_id,
            columns.model_token_generation == token.generation,
            columns.model_token_expires_at == token.expires_at,
        )
        with self._database.writing() as connection:
            now = self._database.now(connection)
            connection.execute(instance_details.update().where(is_present).values(model_token_handed_at=now))

    def instances_due(self, *, life: timedelta) -> tuple[Instance, ...]:
        """Return running instances whose machine lacks the present token, or whose token is past half of ``life``."""
        columns = instance_details.c
        with self._database.reading() as connection:
            now = self._database.now(connection)
            is_due = sa.or_(
                columns.model_token_handed_at.is_(None),
                columns.model_token_expires_at.is_(None),
                columns.model_token_expires_at < now + life / 2,
            )
            due = ALL.where(hermes_instances.c.status == InstanceStatus.RUNNING, is_due)
            rows = connection.execute(due.order_by(columns.model_token_expires_at, columns.instance_id))
            return tuple(instance_of(row) for row in rows)

    def rotation(self, instance_id: InstanceId) -> TokenRotation:
        """Return an instance's progress in the replacement of its token."""
        with self._database.reading() as connection:
            details = details_in(connection, instance_id)
        floor = details.model_token_floor
        return TokenRotation(
            details.model_token_rotation or "",
            is_old_valid=floor is not None and floor < details.model_token_generation,
            is_handed=details.model_token_handed_at is not None,
        )

    def rotate(self, instance_id: InstanceId, rotation: ReleaseId) -> None:
        """Begin another generation of tokens; those that are valid stay so until ``end_rotation``. Safe to repeat."""
        columns = instance_details.c
        with self._database.writing() as connection:
            details = details_in(connection, instance_id, lock=True)
            if details.model_token_rotation == rotation:
                return
            changed = {
                "model_token_floor": sa.func.coalesce(columns.model_token_floor, columns.model_token_generation),
                "model_token_generation": columns.model_token_generation + 1,
                "model_token_expires_at": None,
                "model_token_handed_at": None,
                "model_token_rotation": rotation,
            }
            update_details(connection, instance_id, **changed)

    def end_rotation(self, instance_id: InstanceId, rotation: ReleaseId, *, why: str) -> None:
        """Revoke the tokens of generations before the present one, once the machine has it. Safe to repeat."""
        with self._database.writing() as connection:
            details = details_in(connection, instance_id, lock=True)
            if details.model_token_rotation != rotation or details.model_token_floor is None:
                return
            update_details(connection, instance_id, model_token_floor=None)
            self._note(
                connection,
                "model_tokens_rotated",
                instance_subject(instance_id),
                before={"generation": details.model_token_floor},
                after={"generation": details.model_token_generation},
                why=why,
            )

    def leave_rotation(self, instance_id: InstanceId, rotation: ReleaseId) -> None:
        """Let an instance not belong to a rotation: older tokens stay valid where they still are. Safe to repeat."""
        with self._database.writing() as connection:
            if details_in(connection, instance_id, lock=True).model_token_rotation == rotation:
                update_details(connection, instance_id, model_token_rotation=None)

    def revoke(self, instance_id: InstanceId, *, why: str) -> int:
        """Raise the generation, and return the new one."""
        with self._database.writing() as connection:
            before: int = details_in(connection, instance_id, lock=True).model_token_generation
            raise_token_floor(connection, instance_id)
            self._note(
                connection,
                "model_tokens_revoked",
                instance_subject(instance_id),
                before={"generation": before},
                after={"generation": before + 1},
                why=why,
            )
        return before + 1


def _token_of(row: sa.Row[Any]) -> PresentToken:
    return PresentToken(row.model_token_generation, row.model_token_expires_at, row.model_token_handed_at)
