"""A bad request writes nothing; a good one writes its rows once."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermesops.access.secrets.keyring.key_ring import KeyRing
from hermesops.agents.cells.changes.environment_guard import Guards
from hermesops.agents.instances.requests.provision import Policy, ProvisionAdmission, ProvisionPreflight, parse_plan
from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.model.fleet.cell import Placement
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.user import User
from hermesops.model.ids import CellName, ImageId, instance_subject
from hermesops.model.operation import OperationKind, OperationStatus
from hermesops.model.plan import Plan
from hermesops.store.registry import Registry, open_registry

POLICY = Policy("hermes-base", "hel1", {Plan.LIGHT: "starter", Plan.HEAVY: "basic"}, 40)
POLICY_OF_TWO = replace(POLICY, cell_size=2)


class Vendor:
    def __init__(self, *, bootable: bool | None = True, sold_in: str = "hel1 nbg1 fsn1") -> None:
        self.bootable = bootable
        self.sold_in = sold_in.split()

    async def is_bootable(self, image_id: ImageId) -> bool:
        assert image_id == "image"
        if self.bootable is None:
            raise UnavailableError("no answer")
        return self.bootable

    async def sells(self, server_type: str, region: str) -> bool:
        assert server_type in {"starter", "basic"}
        return region in self.sold_in


class Purse(Guards):
    def __init__(self, *, empty: bool = False) -> None:
        self.empty = empty

    async def refuse_unaffordable(self, *rented: tuple[str, str]) -> None:
        assert {server_type for server_type, _ in rented} <= {"starter", "basic"}
        assert all(region for _, region in rented)
        if self.empty:
            raise RefusedError("nothing left")


class Pool:
    """Has a machine of each of these plans."""

    def __init__(self, registry: Registry | None = None, *plans: Plan) -> None:
        self.registry = registry
        self.plans = list(plans)

    async def claim(
        self,
        user: Callable[[], User],
        plan: Plan,
        *,
        server_type: str,
        image_id: ImageId,
        region: str,
        subscription: str = "",
    ) -> Instance | None:
        assert image_id == "image"
        if self.registry is None or plan not in self.plans:
            return None
        self.plans.remove(plan)
        return self.registry.placements.place(
            user(),
            plan=plan,
            server_type=server_type,
            image_id=image_id,
            choose=lambda _cells: Placement(CellName("pooled"), region, only_plan=None),
            subscription=subscription,
        )


def preflight(registry: Registry, vendor: Any, purse: Purse, policy: Policy) -> ProvisionPreflight:  # noqa: ANN401 - a part of a client
    return ProvisionPreflight(registry, vendor, purse, policy)


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return open_registry(
        f"sqlite:///{tmp_path / 'registry.db'}",
        environment="local",
        actor="test",
        sealer=lambda is_new: KeyRing.load(tmp_path / "registry.key", create=is_new),
    )


def admission(registry: Registry, vendor: Vendor) -> ProvisionAdmission:
    return ProvisionAdmission(registry, preflight(registry, vendor, Purse(), POLICY), Pool(), POLICY)


def record_image(registry: Registry) -> None:
    registry.images.record(ImageId("image"), name="hermes-base", digest="d")


@pytest.mark.parametrize(
    ("user", "vendor", "image", "error", "words"),
    [
        ("Ada!", Vendor(), True, UsageError, "neither a user id"),
        ("ada", Vendor(), False, RefusedError, "no image hermes-base has been built"),
        ("ada", Vendor(bootable=False), True, RefusedError, "no longer has image"),
        ("ada", Vendor(bootable=None), True, UnavailableError, "no answer"),
        ("ada", Vendor(sold_in="nbg1"), True, RefusedError, "sells no starter in hel1"),
    ],
    ids=["bad user", "no image", "image gone", "no answer", "not sold there"],
)
async def test_a_bad_wish_writes_nothing(
    registry: Registry, user: str, vendor: Vendor, error: type[Exception], words: str, *, image: bool
) -> None:
    if image:
        record_image(registry)
    with pytest.raises(error, match=words):
        await admission(registry, vendor).admit(user, Plan.LIGHT)
    assert registry.instances.list() == ()
    assert registry.users.list() == ()
    assert registry.operations.list() == ()


async def test_what_nobody_can_pay_for_writes_nothing(registry: Registry) -> None:
    record_image(registry)
    poor = ProvisionAdmission(registry, preflight(registry, Vendor(), Purse(empty=True), POLICY), Pool(), POLICY)
    with pytest.raises(RefusedError, match="nothing left"):
        await poor.admit("ada", Plan.LIGHT)
    assert (registry.instances.list(), registry.users.list(), registry.operations.list()) == ((), (), ())


async def test_a_wish_twice_is_one_instance_and_one_operation(registry: Registry) -> None:
    record_image(registry)
    first = await admission(registry, Vendor()).admit("ada", Plan.LIGHT)
    again = await admission(registry, Vendor()).admit("ada", Plan.LIGHT)
    assert first == again
    instance, operation = first
    assert operation.intent["machine_name"] == instance.machine_name
    assert [(cell.name, cell.region, cell.machines) for cell in registry.cells.list()] == [("cell1", "hel1", 1)]
    with pytest.raises(RefusedError, match="plan light"):
        await admission(registry, Vendor()).admit("ada", Plan.HEAVY)


@pytest.mark.parametrize("pooled", [False, True])
async def test_what_pays_for_a_new_agent_is_in_its_row(registry: Registry, pooled: bool) -> None:  # noqa: FBT001 - pytest's
    record_image(registry)
    pool = Pool(registry, Plan.LIGHT) if pooled else Pool()
    placing = ProvisionAdmission(registry, preflight(registry, Vendor(), Purse(), POLICY), pool, POLICY)
    for subscription in ("sub_1", "sub_2"):
        instance, _ = await placing.admit("ada", Plan.LIGHT, subscription=subscription)
        assert registry.subscriptions.of_user(instance.user_id) == {instance.id: "sub_1"}, (
            "an earlier one keeps its own"
        )


async def test_machines_fill_a_cell_before_the_next_is_opened(registry: Registry) -> None:
    record_image(registry)
    small = ProvisionAdmission(registry, preflight(registry, Vendor(), Purse(), POLICY_OF_TWO), Pool(), POLICY_OF_TWO)
    cells = [(await small.admit(f"user{n}", Plan.HEAVY))[0].cell for n in range(3)]
    assert cells == ["cell1", "cell1", "cell2"]
    assert {machine.server_type for machine in registry.cells.spec(CellName("cell1")).machines} == {"basic"}


async def test_a_machine_goes_where_its_plan_or_the_operator_says(registry: Registry) -> None:
    record_image(registry)
    regions = {Plan.HEAVY: "nbg1"}
    policy = Policy("hermes-base", "hel1", POLICY.server_types, 40, plan_regions=regions, plans_apart=True)
    placing = ProvisionAdmission(registry, preflight(registry, Vendor(), Purse(), policy), Pool(), policy)
    await placing.admit("ada", Plan.LIGHT)
    await placing.admit("bob", Plan.HEAVY)
    await placing.admit("eve", Plan.HEAVY, region="fsn1")
    assert [(cell.name, cell.region, cell.only_plan) for cell in registry.cells.list()] == [
        ("cell1", "hel1", Plan.LIGHT),
        ("cell2", "nbg1", Plan.HEAVY),
        ("cell3", "fsn1", Plan.HEAVY),
    ]


def test_plans_are_named_when_one_is_unknown() -> None:
    with pytest.raises(UsageError, match="light, heavy"):
        parse_plan("huge")


async def test_a_machine_that_is_ready_is_taken_before_the_vendor_is_asked_and_only_by_a_newcomer(
    registry: Registry,
) -> None:
    record_image(registry)
    silent = Vendor(bootable=None, sold_in="")
    pool = Pool(registry, Plan.LIGHT, Plan.LIGHT)
    ready = ProvisionAdmission(registry, preflight(registry, silent, Purse(empty=True), POLICY), pool, POLICY)
    instance, operation = await ready.admit("ada", Plan.LIGHT)
    assert (instance.cell, operation.intent["machine_name"]) == ("pooled", instance.machine_name)
    assert await ready.admit("ada", Plan.LIGHT) == (instance, operation)
    assert pool.plans == [Plan.LIGHT]


async def test_a_wish_does_not_wake_who_sleeps_nor_who_is_being_changed(registry: Registry) -> None:
    record_image(registry)
    instance, operation = await admission(registry, Vendor()).admit("ada", Plan.LIGHT)
    registry.operations.finish(operation.id, OperationStatus.DONE, "runs")
    moving = registry.operations.open(
        OperationKind.RELOCATE, instance_subject(instance.id), intent={}, instance_id=instance.id
    )
    with pytest.raises(RefusedError, match="relocate"):
        await admission(registry, Vendor()).admit("ada", Plan.LIGHT)
    registry.operations.finish(moving.id, OperationStatus.DONE, "moved")
    registry.instances.set_status(instance.id, InstanceStatus.SUSPENDED)
    with pytest.raises(RefusedError, match="suspended"):
        await admission(registry, Vendor()).admit("ada", Plan.LIGHT)
    assert registry.operations.list(unfinished=True) == ()
