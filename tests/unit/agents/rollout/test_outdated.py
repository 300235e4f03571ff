"""Rollouts to outdated instances: one per release, and one that cannot be started keeps no other from that."""

import pytest

from hermesops.agents.rollout.plan.backlog import OutdatedInstance
from hermesops.agents.rollout.plan.checks import Outdated
from hermesops.agents.rollout.plan.requests import RolloutRequest
from hermesops.errors import HaltedError, PartlyDoneError, RefusedError
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import RolloutId
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import Action
from hermesops.settings.fields import Settings
from tests.support.fakes.parts import part

OUTDATED = [
    OutdatedInstance(InstanceId(user), user, ReleaseId(release), RolloutId("r"), Action.SLOT, "was away", None)
    for user, release in (("ada", "one"), ("bob", "two"))
]
SERVICE = Outdated(part(), Settings.model_validate({}))


def test_the_exit_code_is_that_of_the_worst_rollout() -> None:
    started = list[tuple[str, str, str]]()

    def start(request: RolloutRequest) -> int:
        started.append((request.release, request.where, request.reason))
        return HaltedError.exit_code if request.release == "one" else 0

    assert SERVICE.deploy(OUTDATED, start, reason="now") == HaltedError.exit_code
    assert started == [("one", "user=ada", "now"), ("two", "user=bob", "now")]
    assert SERVICE.deploy(OUTDATED[1:], start) == 0
    assert started[-1][-1] == "outdated"


def test_a_rollout_that_cannot_be_started_keeps_no_other_from_that() -> None:
    started = list[str]()

    def start(request: RolloutRequest) -> int:
        if request.release == "one":
            raise RefusedError("release one is revoked")
        started.append(request.release)
        return 0

    with pytest.raises(PartlyDoneError, match="1 of 2 not done: one to user=ada: release one is revoked"):
        SERVICE.deploy(OUTDATED, start)
    assert started == ["two"]
    with pytest.raises(RefusedError, match="release one is revoked"):
        SERVICE.deploy(OUTDATED[:1], start)
