"""How a rotation of tokens is kept, in both databases; what a rollout reads of it."""

from datetime import timedelta

import pytest

from hermesops.agents.rollout.machines.tokens import status_of
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.rollout.records import ReleaseStatus
from hermesops.model.rollout.release import ReleaseId
from hermesops.store.registry import Registry
from hermesops.store.registry.repositories.credentials.model_usage import RouterLedger
from tests.support.real.stores.registries import placed

WEEK = timedelta(days=7)
FIRST, SECOND = ReleaseId("tokens-20260101T120000"), ReleaseId("tokens-20260102T120000")


@pytest.fixture
def ada(registry: Registry) -> Instance:
    ada = placed(registry)
    registry.instances.set_status(ada.id, InstanceStatus.RUNNING)
    hand(registry, ada)
    return ada


def hand(registry: Registry, ada: Instance) -> None:
    registry.model_tokens.record_handed(ada.id, registry.model_tokens.renew(ada.id, life=WEEK))


def floor(url: str, ada: Instance) -> int:
    return RouterLedger(url).read()[ada.id].floor


def seen(registry: Registry, ada: Instance, rotation: ReleaseId) -> ReleaseStatus:
    return status_of(registry.model_tokens.rotation(ada.id), rotation)


def test_both_tokens_count_until_the_new_one_is_confirmed(registry: Registry, registry_url: str, ada: Instance) -> None:
    assert seen(registry, ada, FIRST) == ReleaseStatus("")
    registry.model_tokens.rotate(ada.id, FIRST)
    registry.model_tokens.rotate(ada.id, FIRST)
    assert registry.model_tokens.get(ada.id).generation == 2
    assert [instance.id for instance in registry.model_tokens.instances_due(life=WEEK)] == [ada.id], (
        "its machine lacks it"
    )
    assert floor(registry_url, ada) == 1
    assert seen(registry, ada, FIRST) == ReleaseStatus("", activation=FIRST, phase="unconfirmed", reverts=False)
    hand(registry, ada)
    assert floor(registry_url, ada) == 1
    for _ in range(2):
        registry.model_tokens.end_rotation(ada.id, FIRST, why="test")
        assert (floor(registry_url, ada), seen(registry, ada, FIRST)) == (2, ReleaseStatus(FIRST))
    assert [entry.action for entry in registry.audit.list(limit=5)].count("model_tokens_rotated") == 1


def test_a_revocation_in_its_middle_ends_both(registry: Registry, registry_url: str, ada: Instance) -> None:
    registry.model_tokens.rotate(ada.id, FIRST)
    registry.model_tokens.revoke(ada.id, why="leaked")
    assert floor(registry_url, ada) == 3
    assert seen(registry, ada, FIRST).activation == ""


def test_one_that_was_left_keeps_its_old_token_until_the_next_rotation(
    registry: Registry, registry_url: str, ada: Instance
) -> None:
    registry.model_tokens.rotate(ada.id, FIRST)
    registry.model_tokens.leave_rotation(ada.id, FIRST)
    assert (floor(registry_url, ada), seen(registry, ada, FIRST)) == (1, ReleaseStatus(""))
    registry.model_tokens.rotate(ada.id, SECOND)
    assert (floor(registry_url, ada), registry.model_tokens.get(ada.id).generation) == (1, 3)
    registry.model_tokens.end_rotation(ada.id, FIRST, why="late")
    assert floor(registry_url, ada) == 1, "of another one"
    registry.model_tokens.end_rotation(ada.id, SECOND, why="test")
    assert floor(registry_url, ada) == 3


def test_what_another_rotation_left_unfinished_does_not_hold_this_one(registry: Registry, ada: Instance) -> None:
    registry.model_tokens.rotate(ada.id, FIRST)
    assert seen(registry, ada, SECOND) == ReleaseStatus("")
