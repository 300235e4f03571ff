"""A machine of a pool that hangs or talks nonsense costs itself, and the others of the pool are filled all the same."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from hermesops.agents.pool import workflow
from hermesops.base.fan_out import Limits
from hermesops.errors import UnavailableError
from hermesops.model.fleet.health import NodeState
from hermesops.model.fleet.unassigned_machine import UnassignedStatus
from hermesops.model.ids import MachineId
from hermesops.model.operation import Lease
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import registry_at
from tests.support.worlds.pool import CELL, Cloud, Computer, Site, fill, opened, target

SIZE = 4


class Moody(Site):
    """A site on which the first machine that is asked is evil from then on."""

    def __init__(self, registry: Registry, mood: Callable[[], object], *, at: str) -> None:
        super().__init__(Cloud(registry, random.Random(1)), Computer(registry))  # noqa: S311 - a test's
        self.mood, self.at, self.evil = mood, at, ""

    async def _meet(self, machine_id: MachineId, at: str) -> None:
        if at == self.at and (self.evil or machine_id) == machine_id:
            self.evil = machine_id
            answer = self.mood()
            if asyncio.isfuture(answer):
                await answer

    async def node(self, machine_id: MachineId) -> NodeState:
        await self._meet(machine_id, "node")
        return await super().node(machine_id)

    async def warm(self, machine_id: MachineId, lease: Lease) -> str:
        await self._meet(machine_id, "warm")
        return await super().warm(machine_id, lease)


def hangs() -> object:
    return asyncio.get_running_loop().create_future()


def fails() -> object:
    raise UnavailableError("machine m-1 answers to status what is not understood (KeyError)")


def breaks() -> object:
    raise RecursionError


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setattr(workflow, "_ASKING", Limits(4, slow_after_s=1, within_s=3))
    monkeypatch.setattr(workflow, "_MAKING", Limits(4, slow_after_s=2, within_s=10))
    registry = registry_at(f"sqlite:///{tmp_path}/registry.db")
    opened(registry)
    return registry


@pytest.mark.turns(30)
@pytest.mark.parametrize("mood", [hangs, fails, breaks])
@pytest.mark.parametrize("at", ["node", "warm"])
async def test_a_pool_is_filled_around_a_machine_that_hangs_or_talks_nonsense(
    registry: Registry, mood: Callable[[], object], at: str
) -> None:
    site = Moody(registry, mood, at=at)
    async with asyncio.timeout(240):
        await fill(site, target(SIZE))
        reply = await fill(site, target(SIZE))  # asks those that are ready
    ready = [
        machine
        for machine in registry.unassigned.list(cell=CELL)
        if machine.wanted and machine.status is UnassignedStatus.READY
    ]
    assert len(ready) == SIZE, reply
    assert site.evil not in {machine.machine_id for machine in ready}
    assert site.cloud.wrong == []
