"""A rollout to an older release names the losses of each agent, and only then begins."""

from types import SimpleNamespace
from typing import Any

import pytest

from hermesops.agents.rollout.plan.losses import AgentLosses
from hermesops.agents.rollout.plan.requests import RolloutRequest
from hermesops.cli.commands.rollout import follow
from hermesops.model.fleet.slot import RollbackResult
from hermesops.model.rollout.spec import Action, Spec
from tests.support.rollouts.rows import NEW, OLD

REQUEST = RolloutRequest(OLD, "", all_running=True, spec=Spec(), action=Action.SLOT, reason="")
LOST = AgentLosses("ada", OLD, RollbackResult(OLD, NEW, 0, 0, 0, "", settings_lost=("model",)))


def test_the_losses_are_named_before_it_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def preview(request: RolloutRequest) -> tuple[AgentLosses, ...]:
        assert request == REQUEST
        return LOST, AgentLosses("bob", OLD, problem="no answer")

    def begin(*_: Any, queue: bool, detach: bool) -> int:  # noqa: ANN401 - the container and the request
        named = capsys.readouterr().err.splitlines()
        assert named == ["ada: settings not in force afterwards: model", "bob: its losses are unknown: no answer"]
        assert (queue, detach) == (True, False)
        return 0

    container = SimpleNamespace(rollout_losses=SimpleNamespace(preview=preview))
    monkeypatch.setattr("hermesops.cli.context.compose", lambda: container)
    monkeypatch.setattr(follow, "begin", begin)
    assert follow.start(REQUEST, queue=True, detach=False) == 0
