"""Many requests: what a file says, nothing written before all are judged, and one that fails keeps no other."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermesops.access.secrets.keyring.key_ring import KeyRing
from hermesops.agents.instances.requests.bulk import BulkProvision, ProvisionRequest, parse_requests
from hermesops.agents.instances.requests.provision import Policy, ProvisionAdmission, ProvisionPreflight
from hermesops.base.narration import with_subject
from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import ImageId
from hermesops.model.operation import Operation, OperationStatus
from hermesops.model.plan import Plan
from hermesops.store.registry import Registry, open_registry
from tests.support.suite.cases import each_case

POLICY = Policy("hermes-base", "hel1", {Plan.LIGHT: "starter", Plan.HEAVY: "basic"}, 40)


class World:
    """The vendor, the budget and an empty pool."""

    def __init__(self, *, affordable: int = 9) -> None:
        self.affordable = affordable

    async def is_bootable(self, _image_id: ImageId) -> bool:
        return True

    async def sells(self, _server_type: str, region: str) -> bool:
        return region == "hel1"

    async def refuse_unaffordable(self, *rented: tuple[str, str]) -> None:
        if len(rented) > self.affordable:
            raise RefusedError("nothing left")

    async def claim(self, *_: object, **__: object) -> None:
        return None


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    opened = open_registry(
        f"sqlite:///{tmp_path / 'registry.db'}",
        environment="local",
        actor="test",
        sealer=lambda is_new: KeyRing.load(tmp_path / "registry.key", create=is_new),
    )
    opened.images.record(ImageId("image"), name="hermes-base", digest="d")
    return opened


def newcomers(registry: Registry, world: World) -> BulkProvision:
    client: Any = world
    budget: Any = world
    preflight = ProvisionPreflight(registry, client, budget, POLICY)
    admission = ProvisionAdmission(registry, preflight, world, POLICY)
    return BulkProvision(admission, preflight, POLICY, at_once=2, report=lambda _: None)


def is_untouched(registry: Registry) -> bool:
    return (registry.instances.list(), registry.users.list(), registry.operations.list()) == ((), (), ())


def test_a_list_of_users_and_a_table_are_read() -> None:
    assert parse_requests("ada\n\n# later: eve\n bob \n", plan="light", region="") == (
        ProvisionRequest(1, "ada", Plan.LIGHT),
        ProvisionRequest(4, "bob", Plan.LIGHT),
    )
    table = 'user,region,plan\nada,nbg1,heavy\n"bob",,\n'
    assert parse_requests(table, plan="light", region="hel1") == (
        ProvisionRequest(2, "ada", Plan.HEAVY, "nbg1"),
        ProvisionRequest(3, "bob", Plan.LIGHT, "hel1"),
    )


@each_case(
    ("text", "plan", "words"),
    [
        ("", "light", "nothing to provision"),
        ("user,plan\n", "light", "nothing to provision"),
        ("ada\nAda!\n", "light", "line 2: 'Ada!'"),
        ("ada\n", "", "line 1: missing plan"),
        ("user,plan\nada,huge\n", "", "line 2: unknown plan 'huge'"),
        ("ada\nbob\nada\n", "light", "line 3: ada stands in line 1 already"),
        ("user,colour\nada,red\n", "light", "unknown columns colour"),
        ("ada,light\n", "light", "line 1: 2 fields"),
        ("user\n,\n", "light", "nothing to provision"),
        ("user\n,light\n", "light", "line 2: 2 fields"),
        ("a\0da\n", "light", "line 1: 'a"),
        ("\n".join(f"User{n}" for n in range(12)), "light", "and 2 more"),
    ],
)
def test_what_cannot_be_meant_is_named_by_its_line(text: str, plan: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_requests(text, plan=plan, region="")


async def test_one_line_that_would_fail_keeps_all_from_being_begun(registry: Registry) -> None:
    with pytest.raises(RefusedError, match="in nbg1"):
        await newcomers(registry, World()).judge(
            [ProvisionRequest(1, "ada", Plan.LIGHT), ProvisionRequest(2, "bob", Plan.LIGHT, "nbg1")]
        )
    with pytest.raises(RefusedError, match="nothing left"):
        await newcomers(registry, World(affordable=1)).judge(
            [ProvisionRequest(1, "ada", Plan.LIGHT), ProvisionRequest(2, "bob", Plan.LIGHT)]
        )
    assert is_untouched(registry)


async def test_who_sleeps_or_has_another_plan_is_named_and_who_lives_costs_nothing(registry: Registry) -> None:
    many = newcomers(registry, World(affordable=0))
    poor = [ProvisionRequest(1, "ada", Plan.LIGHT), ProvisionRequest(2, "bob", Plan.HEAVY)]
    for provision_result in await newcomers(registry, World()).run(poor, _done(registry)):
        assert (provision_result.outcome, provision_result.failure) == ("runs", None)
    await many.judge(poor)
    with pytest.raises(RefusedError, match="line 2: bob already has an agent of plan heavy"):
        await many.judge([poor[0], ProvisionRequest(2, "bob", Plan.LIGHT)])
    registry.instances.set_status(registry.instances.find("ada").id, InstanceStatus.SUSPENDED)
    with pytest.raises(RefusedError, match=r"line 1: .*suspended"):
        await many.judge(poor)


async def test_one_that_fails_keeps_no_other_and_the_next_time_does_the_rest(registry: Registry) -> None:
    many = newcomers(registry, World())
    requests = [ProvisionRequest(n, f"user{n}", Plan.LIGHT) for n in range(1, 6)]
    under_way: list[str] = []

    async def finish(operation: Operation) -> str:
        under_way.append(operation.id)
        assert len(registry.instances.list()) == len(requests), "one was begun before all were written down"
        if operation.intent["user"] == "user3":
            raise UnavailableError("no answer")
        return await _done(registry)(operation)

    provision_results = await many.run(requests, finish)
    failed = [
        (provision_result.request.user, provision_result.failure.message)
        for provision_result in provision_results
        if provision_result.failure
    ]
    assert failed == [("user3", "no answer")]
    again = await many.run(requests, _done(registry))
    assert not any(provision_result.failure for provision_result in again)
    assert [provision_result.instance for provision_result in again] == [
        provision_result.instance for provision_result in provision_results
    ]


def _done(registry: Registry) -> Callable[[Operation], Awaitable[str]]:
    async def finish(operation: Operation) -> str:
        registry.operations.finish(operation.id, OperationStatus.DONE, "runs")
        return "runs"

    return finish


async def test_each_end_is_narrated_behind_its_user_with_the_count(registry: Registry) -> None:
    lines = list[str]()
    bulk = replace(newcomers(registry, World()), report=lambda line: lines.append(with_subject(line)))

    async def finish(operation: Operation) -> str:
        if operation.intent["user"] == "ben":
            raise UnavailableError("no answer")
        return "runs"

    await bulk.run(parse_requests("ada\nben\n", plan="light", region=""), finish)
    assert sorted(line.partition(" (")[0] for line in lines) == ["ada: done", "ben: failed: no answer"]
    assert sorted(line[-8:] for line in lines) == ["(1 of 2)", "(2 of 2)"]
