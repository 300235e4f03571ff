"""What is written when the same rollout is asked for again, in both databases."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from hermesops.agents.rollout.plan.requests import RolloutRequest
from hermesops.agents.rollout.requests import RolloutRequests
from hermesops.agents.rollout.service import Rollouts
from hermesops.errors import UnavailableError, UsageError
from hermesops.model.ids import ImageId
from hermesops.model.image import PLATFORM_IMAGE
from hermesops.model.operation import OperationKind, OperationStatus
from hermesops.model.rollout import Rollout, RolloutState
from hermesops.model.rollout_spec import Action, Spec
from hermesops.settings import Settings
from hermesops.store.operations.runner import QUEUED, Operations
from hermesops.store.registry import Registry
from tests.support.real.registries import placed
from tests.support.rollouts.rows import NEW, ROLLOUT, STARTED_ROW, target_of

REQUEST = RolloutRequest(NEW, "", all_running=True, spec=Spec(), action=Action.SLOT, reason="")


def rollouts_of(registry: Registry, prometheus: str = "") -> Rollouts:
    lock = SimpleNamespace(id=NEW, node=SimpleNamespace(protocol=1))
    releases: Any = SimpleNamespace(find=lambda _: lock, refuse_revoked=lambda _: None, verify=lambda _: ())
    env: Any = SimpleNamespace(settings=Settings.model_validate({"prometheus_url": prometheus}), is_local=True)
    unused: Any = None
    operations = Operations(registry, {}, lambda _: None)
    requests = RolloutRequests(registry, releases, env.settings)
    return Rollouts(env, registry, requests, unused, unused, lambda: operations, lambda _: None)


def begun(registry: Registry, state: RolloutState) -> Rollout:
    """A rollout to one user that came to that state, and its operation to its end."""
    operation = registry.rollouts.add(ROLLOUT, [target_of(placed(registry, "ada"))], STARTED_ROW)
    registry.rollouts.change(ROLLOUT, replace(ROLLOUT, state=state), STARTED_ROW)
    registry.operations.finish(operation.id, OperationStatus.DONE, state.value)
    return registry.rollouts.get(ROLLOUT.id)


async def test_a_rollout_that_is_halted_is_found_and_nothing_is_under_way_for_it(registry: Registry) -> None:
    halted = begun(registry, RolloutState.HALTED)
    assert await rollouts_of(registry).start(REQUEST) == halted
    assert registry.operations.list(unfinished=True) == ()


async def test_gates_without_figures_to_stand_on_begin_nothing(registry: Registry) -> None:
    placed(registry, "ada")
    with pytest.raises(UnavailableError, match="Prometheus"):
        await rollouts_of(registry, "http://127.0.0.1:1").start(REQUEST)
    assert registry.rollouts.list() == ()


@pytest.mark.parametrize("state", [RolloutState.HALTED, RolloutState.ABORTED, RolloutState.DONE])
def test_only_who_has_a_runner_is_left_to_the_workers(registry: Registry, state: RolloutState) -> None:
    rollouts_of(registry).leave(begun(registry, state))
    assert registry.operations.list(unfinished=True) == ()


def test_a_rollout_that_goes_on_is_left_to_the_workers(registry: Registry) -> None:
    rollouts_of(registry).leave(begun(registry, RolloutState.RUNNING))
    [operation] = registry.operations.list(unfinished=True)
    assert (operation.kind, operation.step) == (OperationKind.ROLLOUT, QUEUED)


def test_the_platforms_image_is_none_that_agents_boot_from(registry: Registry) -> None:
    requests = rollouts_of(registry).requests
    registry.images.record(ImageId("image-1"), name="hermes-base", digest="a" * 64)
    registry.images.record(ImageId("image-2"), name=PLATFORM_IMAGE, digest="b" * 64)
    by_machine = replace(REQUEST, action=Action.MACHINE)
    assert requests.find_release(replace(by_machine, release="hermes-base")) == "image-1"
    for named in (PLATFORM_IMAGE, "image-2"):
        with pytest.raises(UsageError, match="no image"):
            requests.find_release(replace(by_machine, release=named))
