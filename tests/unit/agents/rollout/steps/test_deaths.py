"""A runner that dies at a write, and one that goes on: every 32nd of all points, others with each commit."""

import pytest

from tests.support.crash.rollout_deaths import SCENES, die_and_come_back_late, die_and_go_on, points
from tests.support.suite.shard import shard

PARTS = 32


@pytest.mark.parametrize("scene", SCENES)
def test_a_rollout_goes_on_wherever_its_runner_died(scene: str) -> None:
    tried = range(shard() % PARTS + 1, points(scene) + 1, PARTS)
    assert tried
    for at in tried:
        die_and_go_on(scene, at)


@pytest.mark.parametrize("scene", SCENES)
def test_machines_that_went_back_meanwhile_are_brought_again(scene: str) -> None:
    for at in range(shard() % PARTS + 1, points(scene) + 1, PARTS):
        die_and_come_back_late(scene, at)
