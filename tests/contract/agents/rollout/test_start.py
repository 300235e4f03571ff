"""What is written when the same rollout is asked for again, in both databases."""

from dataclasses import replace

import pytest

from hermesops.agents.rollout.plan.requests import RolloutRequest
from hermesops.errors import UnavailableError, UsageError
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import ImageId, MachineId
from hermesops.model.image import PLATFORM_IMAGE
from hermesops.model.operation import OperationKind, OperationStatus
from hermesops.model.rollout.records import Rollout, RolloutState
from hermesops.model.rollout.spec import Action, DrillPolicy, Spec
from hermesops.observability.telemetry.client import MonitoringClient
from hermesops.settings.fields import Settings
from hermesops.store.operations.runner import QUEUED
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import placed
from tests.support.rollouts.rows import NEW, ROLLOUT, STARTED_ROW, target_of
from tests.support.rollouts.service import rollouts_of

REQUEST = RolloutRequest(NEW, "", all_running=True, spec=Spec(), action=Action.SLOT, reason="")


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


async def test_a_preview_says_what_forbids_the_rollout_and_what_would_hold_it_now(registry: Registry) -> None:
    ada = placed(registry, "ada")
    registry.instances.set_machine(ada.id, MachineId("m-ada"))
    registry.instances.set_status(ada.id, InstanceStatus.RUNNING)
    requests = rollouts_of(registry).requests
    preview = await requests.preview(REQUEST)
    assert ([target.id for target in preview.ahead.targets], preview.closed, preview.held) == ([ada.id], "", "")
    registry.freezes.set(begins_at=None, ends_at=None, reason="a launch")

    def down() -> MonitoringClient:
        raise UnavailableError("the platform is down")

    preview = await replace(requests, monitoring=down).preview(REQUEST)
    assert "a launch" in preview.closed
    assert "the platform is down" in preview.held
    with pytest.raises(UsageError, match="stages"):
        await requests.preview(replace(REQUEST, spec=Spec(stages=(0.5, 0.2, 1.0))))


def test_a_release_for_everybody_at_once_has_no_stages_and_waits_for_nothing(registry: Registry) -> None:
    request = rollouts_of(registry).requests.everybody_at_once(NEW, reason="it was good")
    spec = request.spec
    assert (request.release, request.where, request.all_running, request.reason) == (NEW, "", True, "it was good")
    assert (spec.stages, spec.soak_s, spec.settle_s, spec.drill) == ((1.0,), 0.0, 0.0, DrillPolicy.NO)
    assert (spec.gates.health.vitals, spec.two_person_above) == ((), Settings.model_validate({}).two_person_above)
    assert (spec.max_unavailable, spec.most_unavailable) == (Spec().max_unavailable, Spec().most_unavailable)
