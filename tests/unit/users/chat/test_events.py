"""Events of a turn: their positions, and how many are kept."""

import pytest

from hermesops.users.chat import events
from hermesops.users.chat.events import HOLE, STEP, ChatEvent, EventLog, place_of


async def test_a_turn_keeps_so_many_events_and_its_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_EVENTS", 3)
    log = EventLog()
    log.begin("turn", 2)
    added = [log.add("turn", kind, {"text": ""}) for kind in ("tool", "delta", "approval", "tool", "delta", "resolved")]
    assert [event is not None for event in added] == [True, True, True, False, False, False]
    last = log.add("turn", "done", {})
    assert last is not None
    assert last.id == STEP + 4


@pytest.mark.parametrize("position", [1, events.MOST_EVENTS + 1, STEP + 1, 3 * STEP + events.MOST_EVENTS])
def test_a_cursor_says_whether_pieces_are_missing(position: int) -> None:
    event = ChatEvent(position, "tool", {})
    assert place_of(event.id) == (position, False)
    assert place_of(event.behind_hole().id) == (position, True)
    assert event.id < event.behind_hole().id < (position // STEP + 1) * STEP
    assert HOLE > events.MOST_EVENTS + 1
