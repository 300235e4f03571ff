"""Courses: everybody once, in stages that ramp, in an order that is fair over releases."""

from collections import Counter
from dataclasses import replace
from random import Random
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from hermesops.agents.rollout.plan.batches import batches_of, shape, shape_of
from hermesops.model.ids import CellName, InstanceId
from hermesops.model.plan import Plan
from hermesops.model.rollout.records import Target
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import Spec
from tests.support.rollouts.world import NEW, fleet
from tests.support.suite.cases import each_case


def drawn(size: int, seed: int) -> list[Target]:
    draw = Random(seed)  # noqa: S311 - a simulation
    return [
        Target(
            InstanceId(str(UUID(int=draw.getrandbits(128)))),
            f"user{number}",
            draw.choice(list(Plan)),
            CellName(f"cell{draw.randrange(5)}"),
            draw.choice(["hel1", "fsn1"]),
            agent_version=draw.choice(["0.18.2", "0.19.0"]),
            opted_in=draw.random() < 0.05,
            protected=draw.random() < 0.05,
            exposures=draw.randrange(4),
        )
        for number in range(size)
    ]


@given(st.integers(1, 400), st.integers(0, 99))
def test_a_course_has_everybody_once_in_stages_of_their_size(size: int, seed: int) -> None:
    spec = Spec()
    targets = drawn(size, seed)
    placed = batches_of(NEW, targets, spec)
    assert sorted(target.id for target in placed) == sorted(target.instance_id for target in targets)
    assert [target.position for target in placed] == list(range(size))
    assert sorted(placed, key=lambda target: (target.stage, target.batch)) == list(placed)
    sizes = shape_of(placed)
    assert max(max(batches) for batches in sizes) <= spec.at_once(size)
    after = [sum(map(sum, sizes[: number + 1])) for number in range(len(sizes))]
    assert after[-1] == size
    assert after[0] <= max(1, -(-size // 20))


def test_stages_ramp_anew() -> None:
    assert shape(200, Spec())[:2] == ((1, 2, 4, 3), (1, 2, 4, 8, 16, 9))
    assert shape(8, Spec()) == ((1,), (1,), (1,) * 6)
    assert shape(1, Spec()) == ((1,), (), ())


def test_a_share_is_not_rounded_up_by_floating_point() -> None:
    [first, _] = shape(100, Spec(stages=(0.07, 1.0)))
    assert sum(first) == 7


def test_the_same_release_gives_the_same_course_whatever_order_they_come_in() -> None:
    targets = drawn(100, 7)
    shuffled = list(targets)
    Random(3).shuffle(shuffled)  # noqa: S311 - a simulation
    assert batches_of(NEW, targets, Spec()) == batches_of(NEW, shuffled, Spec())
    assert batches_of(NEW, targets, Spec()) != batches_of(ReleaseId("another"), targets, Spec())


@each_case("size", [7, 8, 20, 40, 200, 500])
def test_over_twenty_releases_nobody_is_first_more_than_three_times(size: int) -> None:
    targets, first = fleet(size), Counter[InstanceId]()
    for number in range(20):
        targets = [replace(target, exposures=first[target.instance_id]) for target in targets]
        placed = batches_of(ReleaseId(f"release-{number}"), targets, Spec())
        first.update(target.id for target in placed if target.stage == 0)
    assert max(first.values()) <= 3
    assert max(first.values()) - min(first[target.instance_id] for target in targets) <= 1


def test_who_asked_is_first_and_who_is_protected_last() -> None:
    targets = [
        replace(target, opted_in=number in {3, 50}, protected=number in {5, 60}, exposures=9 if number == 3 else 0)
        for number, target in enumerate(fleet(100))
    ]
    users = [target.facts.user for target in batches_of(NEW, targets, Spec())]
    assert set(users[:2]) == {"user3", "user50"}
    assert set(users[-2:]) == {"user5", "user60"}


def test_every_beginning_looks_like_the_whole() -> None:
    placed = batches_of(NEW, drawn(1000, 1), Spec())
    ordinary = [target for target in placed if not target.facts.opted_in and not target.facts.protected]
    level = [target for target in ordinary if target.facts.exposures == 0]
    heavy = sum(target.facts.plan is Plan.HEAVY for target in level) / len(level)
    for share in (0.1, 0.3, 0.6):
        part = level[: int(share * len(level))]
        assert abs(sum(target.facts.plan is Plan.HEAVY for target in part) / len(part) - heavy) < 0.15
