"""A command about one instance: a request that is fulfilled already, one that is refused, and one that waits."""

import json
from types import SimpleNamespace

import pytest

from hermesops.cli import console, context
from hermesops.cli.options import instance
from hermesops.errors import AlreadySoError, RefusedError


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
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["operation_id"], document["outcome"][:13]) == ("resume", None, "nothing to do")


def test_another_refusal_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusedError, match="is suspended"):
        change(monkeypatch, RefusedError("the agent of ada is suspended"))
