"""Users are found by the first eight characters of their ids, as lists show them."""

from typing import Any

import pytest

from hermesops.agents.instances.requests.provision import ProvisionPreflight
from hermesops.errors import UsageError
from hermesops.model.plan import Plan
from hermesops.store.registry import Registry
from tests.support.fakes.parts import part
from tests.support.real.stores.registries import placed

ONE, OTHER = "deadbeef-4ff9-4bb4-bd2c-9c9b2ac1a001", "deadbeef-4ff9-4bb4-bd2c-9c9b2ac1a002"


def preflight(registry: Registry) -> ProvisionPreflight:
    unused: Any = part()
    return ProvisionPreflight(registry, unused, unused, unused)


def test_a_users_id_may_be_given_by_its_beginning(registry: Registry) -> None:
    instance = placed(registry, ONE)
    placed(registry, "bob")
    assert registry.instances.find("deadbeef") == instance
    registry.terminations.terminate(instance.id)
    living = placed(registry, ONE)
    assert registry.instances.find("deadbeef") == living, "a living one first"
    for text in ("deadbee", "deadbeef-", "deadbeef-4ff9", "deadbee%"):
        with pytest.raises(UsageError, match="no user"):
            registry.instances.find(text)


def test_an_alias_is_more_than_the_beginning_of_an_id(registry: Registry) -> None:
    placed(registry, ONE)
    named = placed(registry, "deadbeef")
    assert registry.instances.find("deadbeef") == named


def test_the_beginning_of_several_users_ids_finds_none(registry: Registry) -> None:
    placed(registry, ONE)
    placed(registry, OTHER)
    with pytest.raises(UsageError, match=f"the ids of 2 users begin with deadbeef: {ONE}, {OTHER}"):
        registry.instances.find("deadbeef")


def test_nobody_is_provisioned_by_the_beginning_of_an_id(registry: Registry) -> None:
    instance = placed(registry, ONE)
    with pytest.raises(UsageError, match="begins the id of a user"):
        preflight(registry).known("deadbeef", Plan.LIGHT)
    assert preflight(registry).known(ONE, Plan.LIGHT) == instance
    assert preflight(registry).known("cafebabe", Plan.LIGHT) is None
