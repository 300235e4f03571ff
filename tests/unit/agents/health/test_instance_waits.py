"""Waiting for a state of instances: each by itself, with a limit, with few words."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hermesops.agents.health.instance_waits import InstanceWaits
from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.base.waiting import pause
from hermesops.errors import UnavailableError
from hermesops.model.fleet.health import Condition, GatewayHealth, NodeState
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import InstanceId, MachineId
from hermesops.store.registry import Registry
from hermesops.vendor.justavps.wire import MachineStatus
from tests.support.real.stores.registries import placed, registry_at

LONG_S = 30.0
SHORT_S = 0.05


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return registry_at(f"sqlite:///{tmp_path}/registry.db")


def running(registry: Registry, user: str) -> Instance:
    return registry.instances.set_status(placed(registry, user).id, InstanceStatus.RUNNING)


def healthy(instance: Instance) -> Observation:
    node = NodeState(instance.id, 1, "digest", "release")
    return Observation(instance, MachineState(MachineId("m"), MachineStatus.READY), node, GatewayHealth.OK)


async def never(_: InstanceId) -> Observation:
    await asyncio.Event().wait()
    raise AssertionError


def waits(
    registry: Registry, observe: Callable[[InstanceId], Awaitable[Observation]], lines: list[str] | None = None
) -> InstanceWaits:
    report = lines.append if lines is not None else lambda _: None
    return InstanceWaits(registry, observe, report, every_s=0.001, report_every_s=0.01)


async def test_a_health_is_asked_for_until_it_is_reached(registry: Registry) -> None:
    ada, calls = running(registry, "ada"), list[int]()

    async def observe(instance_id: InstanceId) -> Observation:
        assert instance_id == ada.id
        calls.append(1)
        if len(calls) == 1:
            raise UnavailableError("JustAVPS does not answer")
        return healthy(ada) if len(calls) == 3 else Observation(ada, None)

    [waited] = await waits(registry, observe).until([ada], Condition.HEALTHY, LONG_S)
    assert (waited.state, waited.is_reached, len(calls)) == ("healthy", True, 3)


async def test_one_that_hangs_delays_no_other(registry: Registry) -> None:
    ada, ben = running(registry, "ada"), running(registry, "ben")

    async def observe(instance_id: InstanceId) -> Observation:
        return await never(instance_id) if instance_id == ada.id else healthy(ben)

    hanging, reached = await waits(registry, observe).until([ada, ben], Condition.HEALTHY, SHORT_S)
    assert (hanging.state, hanging.detail, hanging.is_reached) == ("unknown", "no answer yet", False)
    assert reached.is_reached
    assert reached.waited_s < hanging.waited_s


async def test_the_last_state_is_known_when_the_time_is_up(registry: Registry) -> None:
    ada = running(registry, "ada")

    async def observe(_: InstanceId) -> Observation:
        return Observation(ada, None)

    [waited] = await waits(registry, observe).until([ada], Condition.HEALTHY, SHORT_S)
    assert (waited.state, waited.is_reached) == ("down", False)
    assert "machine" in waited.detail


async def test_a_status_is_read_in_the_registry_alone(registry: Registry) -> None:
    ada = running(registry, "ada")
    waiting = asyncio.ensure_future(waits(registry, never).until([ada], InstanceStatus.SUSPENDED, LONG_S))
    await pause(0)
    registry.instances.set_status(ada.id, InstanceStatus.SUSPENDED)
    [waited] = await waiting
    assert (waited.state, waited.is_reached) == ("suspended", True)


async def test_an_agent_that_should_not_run_is_asked_nothing(registry: Registry) -> None:
    ada = registry.instances.set_status(placed(registry, "ada").id, InstanceStatus.SUSPENDED)
    [waited] = await waits(registry, never).until([ada], Condition.HEALTHY, SHORT_S)
    assert (waited.state, waited.is_reached) == ("suspended", False)


async def test_a_terminated_one_is_not_waited_for(registry: Registry) -> None:
    ada = running(registry, "ada")
    registry.terminations.terminate(ada.id)
    [waited] = await waits(registry, never).until([ada], Condition.HEALTHY, 24 * 3600.0)  # it would never end
    assert waited.is_impossible
    [waited] = await waits(registry, never).until([ada], InstanceStatus.TERMINATED, LONG_S)
    assert (waited.is_reached, waited.is_impossible) == (True, False)


async def test_it_says_for_whom_it_waits(registry: Registry) -> None:
    lines = list[str]()
    ada, ben = running(registry, "ada"), running(registry, "ben")
    registry.instances.set_status(ben.id, InstanceStatus.SUSPENDED)
    await waits(registry, never, lines).until([ada, ben], InstanceStatus.SUSPENDED, SHORT_S)
    assert lines[0] == "waiting for suspended: 1 of 2 reached; ada is running (0 of 0.05 s)"


async def test_what_is_so_at_once_is_not_narrated(registry: Registry) -> None:
    lines = list[str]()
    ada = running(registry, "ada")

    async def observe(_: InstanceId) -> Observation:
        return healthy(ada)

    [waited] = await waits(registry, observe, lines).until([ada], Condition.HEALTHY, LONG_S)
    assert waited.is_reached
    assert lines == []
