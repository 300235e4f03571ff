"""A request waits for another process as long as it was told, and no longer."""

import time
from typing import Any

import pytest

from hermesops.agents.instances.requests.opening import open_when_free
from hermesops.base import waiting
from hermesops.model.operation import LeaseHeldError


class Busy:
    """A request that finds another process at work so many times."""

    def __init__(self, times: int) -> None:
        self.left = times

    async def begin(self) -> Any:  # noqa: ANN401 - stands for an operation
        if self.left:
            self.left -= 1
            raise LeaseHeldError("ada is being worked on", holder="h")
        return "opened"


async def test_a_request_waits_only_as_long_as_it_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    now, lines = 0.0, list[str]()

    async def pause(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(waiting, "pause", pause)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    opened: object = await open_when_free(Busy(3).begin, wait_s=60.0, report=lines.append)
    assert opened == "opened"
    assert lines == ["waits: ada is being worked on"], "told once"
    for wait_s, tries in {0.0: 1, 2.0: 5}.items():
        busy, now = Busy(99), 0.0
        with pytest.raises(LeaseHeldError, match="is being worked on"):
            await open_when_free(busy.begin, wait_s=wait_s, report=lines.append)
        assert 99 - busy.left == tries, wait_s
