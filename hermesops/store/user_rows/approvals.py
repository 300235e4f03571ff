"""Rows of ``turn_approvals``: which requests for approval a turn has made, and which are answered.

An agent answers the oldest request that still waits, whatever was meant: so a late click must not reach the next one.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.store.registry.database import Database
from hermesops.store.registry.encryption.sealing import Sealer, place
from hermesops.store.registry.repositories.base import insert_if_absent
from hermesops.store.registry.schema.user_tables import turn_approvals

_COLUMNS = turn_approvals.c

MOST = 100
"""Requests of one turn that are kept: an agent may ask without end, and nobody answers as many."""


@dataclass(frozen=True)
class Approval:
    """A request for approval.

    Attributes:
        number: Of the request in its turn, from 1 on.
        request: What pages show of it; empty once the turn has ended.
        is_waiting: Whether the agent still waits for an answer.
        choice: The answer; empty for none.
    """

    number: int
    request: Mapping[str, object] = field(repr=False)
    is_waiting: bool
    choice: str = ""

    @property
    def choices(self) -> tuple[str, ...]:
        """Answers to a request for approval that the agent offers."""
        offered = self.request.get("choices")
        return tuple(map(str, offered)) if isinstance(offered, list) else ()


class TurnApprovals:
    """Requests for approval, by turn.

    Args:
        messages: The key ring that seals what is to be approved.
        life: How long an agent waits for an answer; older requests count as refused.
    """

    def __init__(self, database: Database, messages: Sealer, life: timedelta) -> None:
        self._database = database
        self._messages = messages
        self._life = life

    def ask(self, turn_id: str, request: Mapping[str, object], asked_at: datetime | None = None) -> int | None:
        """Record one more request of a turn; returns its number.

        Args:
            asked_at: By the clock of the agent's machine; the present moment for ``None``, or for a later one.

        Returns:
            ``None`` where the agent does not wait for an answer any more, or the turn has ``MOST`` requests already.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            asked_at = min(asked_at or now, now)
            if asked_at <= now - self._life:
                return None
            numbers = sa.select(sa.func.coalesce(sa.func.max(_COLUMNS.number), 0)).where(_COLUMNS.turn_id == turn_id)
            number = int(connection.execute(numbers).scalar_one()) + 1
            if number > MOST:
                return None
            values = {
                "turn_id": turn_id,
                "number": number,
                "asked_at": asked_at,
                "request": self._messages.seal(json.dumps(dict(request)), place=_place(turn_id, number)),
            }
            insert_if_absent(connection, turn_approvals, values)
        return number

    def list(self, turn_id: str) -> tuple[Approval, ...]:
        """All requests of a turn, oldest first."""
        with self._database.reading() as connection:
            return self._list(connection, turn_id)

    def answer(self, turn_id: str, number: int, choice: str) -> bool:
        """Record that a request is answered; whether it is the one that the agent's next answer goes to."""
        with self._database.writing() as connection:
            waiting = [approval.number for approval in self._list(connection, turn_id) if approval.is_waiting]
            if not waiting or waiting[0] != number:
                return False
            is_it = sa.and_(_COLUMNS.turn_id == turn_id, _COLUMNS.number == number, _COLUMNS.answered_at.is_(None))
            values = {"answered_at": self._database.now(connection), "choice": choice}
            changing = turn_approvals.update().where(is_it).values(values).returning(_COLUMNS.number)
            return connection.execute(changing).first() is not None

    def unanswered(self, turn_id: str, number: int) -> None:
        """Record that the agent did not get an answer."""
        with self._database.writing() as connection:
            is_it = sa.and_(_COLUMNS.turn_id == turn_id, _COLUMNS.number == number)
            connection.execute(turn_approvals.update().where(is_it).values(answered_at=None, choice=""))

    def forget(self, turn_id: str) -> None:
        """Drop what was to be approved, once a turn has ended."""
        with self._database.writing() as connection:
            connection.execute(turn_approvals.update().where(_COLUMNS.turn_id == turn_id).values(request=None))

    def _list(self, connection: sa.Connection, turn_id: str) -> tuple[Approval, ...]:
        since = self._database.now(connection) - self._life
        query = sa.select(turn_approvals).where(_COLUMNS.turn_id == turn_id).order_by(_COLUMNS.number)
        return tuple(
            Approval(row.number, self._request(row), row.answered_at is None and row.asked_at > since, row.choice)
            for row in connection.execute(query)
        )

    def _request(self, row: sa.Row[Any]) -> Mapping[str, object]:
        if not row.request:
            return {}
        request: Mapping[str, object] = json.loads(
            self._messages.unseal(row.request, place=_place(row.turn_id, row.number))
        )
        return request


def _place(turn_id: str, number: int) -> str:
    return place(turn_approvals.name, "request", f"{turn_id}/{number}")
