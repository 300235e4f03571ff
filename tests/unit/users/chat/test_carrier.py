"""Pieces of an answer as a carrier copies them: put together for a while, which pieces that follow do not prolong."""

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from hermesops.base.waiting import pause
from hermesops.model.chat.turn import Turn, TurnState
from hermesops.model.ids import InstanceId, UserId
from hermesops.users.chat import carrier
from hermesops.users.chat.carrier import TurnCarrier
from hermesops.users.chat.events import EventLog

AT = datetime(2026, 1, 1, tzinfo=UTC)
MOST = 1_000
"""Pieces of an answer: fewer characters than are passed on at once."""


async def test_pieces_that_follow_each_other_closely_do_not_hold_the_first_one_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(carrier, "_GATHER_S", 0.3)
    turn = Turn("t", UserId("u"), InstanceId("i"), "c", "k", "", TurnState.RUNNING, AT, carries=1)
    log, came = EventLog(), list[int]()
    rows: Any = SimpleNamespace(turns=None)
    runs: Any = None

    async def answer() -> AsyncIterator[Mapping[str, Any]]:
        for number in range(MOST):
            yield {"event": "message.delta", "delta": "x"}
            await pause(0.005)
            if log.has_after("t", 0):
                came.append(number)
                return

    await TurnCarrier(rows, runs, log, "p", lambda: AT)._copy(turn, answer())
    assert came, "the first piece came with the last one"
