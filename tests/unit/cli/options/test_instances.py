"""Which instances a command about several is about."""

from pathlib import Path
from typing import Any

import pytest

from hermesops.agents.health.instance_list import InstanceList
from hermesops.agents.instances.directory import Instances
from hermesops.cli.options.instances import choose_instances
from hermesops.errors import RefusedError, UsageError
from hermesops.model.fleet.instance import InstanceStatus
from tests.support.fakes.parts import part
from tests.support.real.stores.registries import TurnedClock, placed, registry_at


@pytest.fixture
def container(tmp_path: Path) -> Any:  # noqa: ANN401 - stands for the container
    """Ada and ben run, cleo is suspended."""
    clock = TurnedClock()
    registry = registry_at(f"sqlite:///{tmp_path}/registry.db", clock=clock)
    for user, status in (
        ("ada", InstanceStatus.RUNNING),
        ("ben", InstanceStatus.RUNNING),
        ("cleo", InstanceStatus.SUSPENDED),
    ):
        registry.instances.set_status(placed(registry, user).id, status)
        clock.turn(1)
    return part(instances=Instances(registry), instance_list=InstanceList(registry))


def test_users_a_selector_or_all(container: Any) -> None:  # noqa: ANN401 - as above
    def chosen(*users: str, where: str = "", everything: bool = False, only_running: bool = True) -> list[str]:
        instances = choose_instances(container, users, where, everything=everything, only_running=only_running)
        return [instance.title for instance in instances]

    assert chosen("cleo", "ada", "cleo") == ["cleo", "ada"]
    assert chosen(where="plan=light") == ["ada", "ben"]
    assert chosen(where="plan=light", only_running=False) == ["ada", "ben", "cleo"]
    assert chosen(where="status=suspended") == ["cleo"]
    assert chosen(everything=True, only_running=False) == ["ada", "ben"]
    with pytest.raises(RefusedError, match="no instance matches"):
        chosen(where="plan=heavy")


def test_exactly_one_way_of_choosing_is_taken(container: Any) -> None:  # noqa: ANN401 - as above
    for users, where, everything in (((), "", False), (("ada",), "plan=light", False), (("ada",), "", True)):
        with pytest.raises(UsageError, match="one or more USERs"):
            choose_instances(container, users, where, everything=everything, only_running=True)
