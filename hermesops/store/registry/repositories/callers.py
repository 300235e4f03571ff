"""Rows of ``agent_callers`` as workers see them: which keys were made and revoked, for the audit log; never a key."""

import sqlalchemy as sa

from hermesops.model.billing.user_request import actor_of
from hermesops.model.ids import UserId
from hermesops.store.registry.audit.log import acting_as
from hermesops.store.registry.repositories.base import Repository
from hermesops.store.registry.schema.calling_tables import agent_callers

_COLUMNS = agent_callers.c
_MADE, _REVOKED = "made", "revoked"
_IS_NEW = _COLUMNS.recorded == ""
_IS_ENDED = sa.and_(_COLUMNS.revoked_at.is_not(None), _COLUMNS.recorded != _REVOKED)
_BATCH = 100


class CallerRepository(Repository):
    """Agents that users let call theirs. The users' API writes them, and has no right on the audit log."""

    def unrecorded(self) -> int:
        """Number of callers of which the audit log lacks a change."""
        query = sa.select(sa.func.count()).select_from(agent_callers).where(sa.or_(_IS_NEW, _IS_ENDED))
        with self._database.reading() as connection:
            return int(connection.scalar(query) or 0)

    def record(self) -> int:
        """Append an audit entry for each key that was made or revoked, as its user; returns their number."""
        with self._database.writing() as connection:
            query = sa.select(agent_callers).where(sa.or_(_IS_NEW, _IS_ENDED)).order_by(_COLUMNS.created_at)
            rows = connection.execute(query.limit(_BATCH).with_for_update()).all()
            for row in rows:
                states = [_MADE] if not row.recorded else []
                states += [_REVOKED] if row.revoked_at is not None else []
                with acting_as(actor_of(UserId(row.user_id))):
                    for state in states:
                        after = {"caller": row.id, "may_approve": row.may_approve}
                        self._note(connection, f"caller_{state}", f"instance/{row.instance_id}", after=after)
                change = agent_callers.update().where(_COLUMNS.id == row.id).values(recorded=states[-1])
                connection.execute(change)
        return len(rows)
