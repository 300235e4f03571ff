"""A stream says what changed since the page was made, keeps silent while its source does, and is counted."""

from collections.abc import Sequence
from contextlib import suppress
from typing import cast

import pytest

from hermesops.console import live
from hermesops.console.live import Streams
from hermesops.console.sources import Snapshot, Sources, Topic, digest_of
from hermesops.errors import RefusedError, UnavailableError

FLEET = Topic("fleet")
BEAT, CHANGE, AWAY = (f"event: {kind}\ndata:\n\n".encode() for kind in ("beat", "change", "away"))


class Answers:
    """Snapshots of a topic, one after another; an error where the source is away."""

    def __init__(self, *digests: str) -> None:
        self._digests = list(digests)

    async def snapshot(self, topic: Topic) -> Snapshot:
        assert topic == FLEET
        digest = self._digests.pop(0)
        if not digest:
            raise UnavailableError("away")
        return Snapshot({}, digest)


async def events(*digests: str, shown: str) -> Sequence[bytes]:
    """Events until the first answer that is missing."""
    streams, pieces = Streams(cast("Sources", Answers(*digests))), list[bytes]()
    with suppress(IndexError):
        async for piece in streams.events(FLEET, shown):
            pieces.append(piece)
            assert streams.open == 1
    assert streams.open == 0
    return pieces[1:]


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0)


async def test_a_change_is_an_event_once() -> None:
    assert await events("a", "b", "b", shown="a") == [BEAT, CHANGE, BEAT, BEAT]


async def test_a_change_between_the_page_and_its_stream_is_one_too() -> None:
    assert await events("b", shown="a") == [CHANGE, BEAT]


async def test_no_beat_comes_while_the_source_is_away() -> None:
    assert await events("a", "", "", "a", shown="a") == [BEAT, AWAY, AWAY, BEAT]


def test_streams_are_bounded() -> None:
    streams = Streams(cast("Sources", Answers()), open=31)
    streams.refuse_too_many()
    streams.open += 1
    with pytest.raises(RefusedError, match="32 pages are open"):
        streams.refuse_too_many()


def test_ages_are_no_change_and_anything_else_is() -> None:
    def row(**values: object) -> dict[str, object]:
        reasons = ["no heartbeat for 95 s"]
        return {"trouble": [{"user": "ada", "for_s": 95, "reasons": reasons, **values}]}

    assert digest_of(row()) == digest_of(row(for_s=96, reasons=["no heartbeat for 196 s"]))
    quoted = r'no heartbeat for 95 s: "]" \\'
    assert digest_of(row(reasons=[quoted, "1"])) == digest_of(row(reasons=[quoted.replace("95", "7"), "2"]))
    assert digest_of(row(reasons="95 s")) == digest_of(row(reasons="96 s"))
    assert digest_of(row(reasons=[quoted], left=1)) != digest_of(row(reasons=[quoted], left=2))
    for other in ({"user": "bob"}, {"reasons": ["its machine is gone"]}, {"health": "down"}):
        assert digest_of(row()) != digest_of(row(**other))
