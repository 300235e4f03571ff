"""A page of a rollout or of a freeze requests what its command requests: the same call with the same arguments."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer.main

from hermesops.agents.rollout.operators.freezes import Freezes
from hermesops.agents.rollout.operators.service import RolloutCommands
from hermesops.agents.rollout.service import Rollouts
from hermesops.cli import context, root
from hermesops.console.actions.action import About, Action, ActionRequest, Subject
from hermesops.console.actions.table import find
from hermesops.settings.environment import Environment
from tests.support.pages.comparison import OUTCOMES, REASON, Row
from tests.support.rollouts.rows import ROLLOUT

ROWS = OUTCOMES["tests/unit/console/test_same_requests.py"]
VALUES: Mapping[Row, Mapping[str, str]] = {
    ("fleet", "start-rollout"): {
        "release": "0.19.0",
        "where": "plan=light",
        "everybody": "on",
        "stages": "10%,100%",
        "soak": "5m",
        "settle": "1s",
        "max_unavailable": "20%",
        "vitals": "memory",
        "despite_alerts": "known",
        "emergency": "now",
        "drill": "no",
        "on_halt": "all",
        "action": "slot",
    },
    ("rollouts", "promote"): {"full": "on"},
    ("rollouts", "roll-back"): {"lose": "on", "even_revoked": "on"},
    ("fleet", "freeze"): {"until": "12h"},
}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class GivenError(Exception):
    """The call that a face has made."""


class Noting:
    """Stands for a service: the first call ends the face, with the call's name and arguments."""

    def __init__(self, service: type) -> None:
        self._service = service

    def __getattr__(self, name: str) -> Callable[..., object]:
        signature = inspect.signature(getattr(self._service, name))

        def note(*args: object, **named: object) -> object:
            bound = signature.bind(None, *args, **named)
            bound.apply_defaults()
            raise GivenError(self._service.__name__, name, {**bound.arguments, "self": None})

        return note


class World:
    """The container that both faces are given."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.rollout_commands, self.freezes = Noting(RolloutCommands), Noting(Freezes)
        self.rollouts = SimpleNamespace(find=lambda _: ROLLOUT, targets=lambda _: (), durations=lambda _: None)
        self.rollout_losses = SimpleNamespace(preview=self._no_losses)
        self.report = lambda _: None

    def now(self) -> datetime:
        return NOW

    async def _no_losses(self, _request: object) -> tuple[()]:
        return ()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(container=self, rollouts=Noting(Rollouts), operations=None)


def given_by_page(world: Any, action: Action, request: ActionRequest) -> tuple[object, ...]:  # noqa: ANN401 - a container
    async def begin() -> None:
        async with world.connect() as connected:
            await action.work.begin(connected, request)

    with pytest.raises(GivenError) as given:
        asyncio.run(begin())
    return given.value.args


def given_by_command(words: tuple[str, ...]) -> tuple[object, ...]:
    command: Any = typer.main.get_command(root.app)
    with pytest.raises(GivenError) as given:
        command.main([*words], standalone_mode=False)
    return given.value.args


@pytest.mark.parametrize(("about", "name"), sorted(ROWS))
@pytest.mark.parametrize("filled", ["all", "required"])
def test_a_page_requests_what_its_command_requests(
    about: str, name: str, filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = Environment.load("local", {"HOME": str(tmp_path), "HERMESOPS_HOME": str(tmp_path)})
    world = World(env)
    monkeypatch.setattr(context, "environment", lambda: env)
    monkeypatch.setattr(context, "compose", lambda **_: world)
    action = find(about, name)
    assert action is not None
    subject = "" if action.about is About.FLEET else str(ROLLOUT.id)
    values = VALUES.get((about, name), {})
    if filled == "required":
        values = {field.name: values[field.name] for field in action.fields if field.is_required}
    request = ActionRequest(Subject(subject, subject, subject or "local", ""), values, REASON)
    agreed = ("--yes",) if action.destroys else ()
    service, call, arguments = given_by_page(world, action, request)
    assert (service, call, arguments) == given_by_command((*action.command(request), *agreed))
    assert REASON in str(arguments)
