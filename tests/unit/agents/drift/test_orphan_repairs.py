"""Orphans are repaired by name: the machine is found first, and is destroyed only with the operator's consent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hermesops.agents.drift.lost_registry.recovery import OrphanRepairs, Orphans
from hermesops.errors import RefusedError, UsageError
from hermesops.vendor.justavps.wire import Machine
from tests.support.fleets.in_memory import recovered
from tests.unit.agents.drift.lost_registry.test_recovery import ORPHAN, TWIN, World


def repairs(world: World, *machines: Machine) -> OrphanRepairs:
    @asynccontextmanager
    async def connect() -> AsyncIterator[Orphans]:
        yield world.orphans(*machines)
        world.done.append("disconnected")

    return OrphanRepairs(connect)


def refuse(_: Machine) -> None:
    raise RefusedError("not confirmed")


async def test_an_orphan_is_adopted_by_its_name() -> None:
    world = World(recovered(0))
    done = await repairs(world, ORPHAN).adopt(ORPHAN.name, contested=False, reason="lost")
    assert done.endswith("again")
    assert world.done == [f"recovered {recovered(0).id}", f"took back {recovered(0).id}", "disconnected"]


async def test_no_machine_is_destroyed_without_consent_to_that_machine() -> None:
    world, calls = World(recovered(0)), list[str]()
    with pytest.raises(RefusedError, match="not confirmed"):
        await repairs(world, ORPHAN).remove(ORPHAN.name, forget=True, reason="old", consent=refuse)
    assert world.done == []
    removing = repairs(world, ORPHAN, TWIN)
    with pytest.raises(UsageError, match="orphans have the name"):
        await removing.remove(ORPHAN.name, forget=True, reason="old", consent=lambda machine: calls.append(machine.id))
    await removing.remove(
        ORPHAN.name, TWIN.id, forget=True, reason="old", consent=lambda machine: calls.append(machine.id)
    )
    assert calls == [TWIN.id]
    assert world.done == ["orphan_removed", f"deleted {TWIN.id}", "disconnected"]
