"""A command about one instance: a request that is fulfilled already, one that is refused, and one that waits."""

import json
import time
from types import SimpleNamespace
from typing import Any

import pytest

from hermesops.base import waiting
from hermesops.cli import console, context
from hermesops.cli.options import instance
from hermesops.errors import AlreadySoError, RefusedError
from hermesops.model.operation import LeaseHeldError


class Composed:
    def __init__(self) -> None:
        self.instances = SimpleNamespace(find=lambda user: user)


def change(monkeypatch: pytest.MonkeyPatch, failure: RefusedError) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(context, "compose", Composed)
    monkeypatch.setattr(instance, "run_operation", refuse)
    instance.change_instance("resume", "ada", lambda _: pytest.fail("it is refused before"), no_wait=False)


def test_a_request_that_is_fulfilled_succeeds_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change(monkeypatch, AlreadySoError("the agent of ada is running"))
    assert capsys.readouterr().out == "nothing to do: the agent of ada is running\n"
    monkeypatch.setattr(console._mode, "json", True)
    change(monkeypatch, AlreadySoError("the agent of ada is running"))
    said = json.loads(capsys.readouterr().out)
    assert (said["kind"], said["operation_id"], said["outcome"][:13]) == ("resume", None, "nothing to do")


def test_another_refusal_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusedError, match="is suspended"):
        change(monkeypatch, RefusedError("the agent of ada is suspended"))


class Busy:
    """A request that finds another process at work so many times."""

    def __init__(self, times: int) -> None:
        self.left = times

    async def begin(self, _session: Any) -> Any:  # noqa: ANN401 - stands for the connected parts
        if self.left:
            self.left -= 1
            raise LeaseHeldError("ada is being worked on", holder="h")
        return "opened"


async def test_a_request_waits_only_as_long_as_it_was_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0

    async def pause(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(waiting, "pause", pause)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    session: Any = None
    opened: object = await instance.begun(session, Busy(3).begin, 60.0)
    assert opened == "opened"
    assert capsys.readouterr().err.splitlines() == ["waits: ada is being worked on"], "told once"
    for wait_s, tries in {0.0: 1, 2.0: 5}.items():
        busy, now = Busy(99), 0.0
        with pytest.raises(LeaseHeldError, match="is being worked on"):
            await instance.begun(session, busy.begin, wait_s)
        assert 99 - busy.left == tries, wait_s
