"""A backup made beside a running agent, and one put in the place of what an agent has, wherever either is killed."""

from dataclasses import dataclass, replace

import pytest

from hermesops.agents.instances.workflows.copies.backup import BackUp
from hermesops.agents.instances.workflows.copies.restore import Restore
from hermesops.errors import UnavailableError
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import InstanceId, MachineId, OperationId
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.state import Part, State
from hermesops.store.operations.kinds.copies import RestoreIntent
from hermesops.vendor.justavps.wire import MachineStatus
from tests.support.crash.workflow_walk import walk
from tests.support.suite.cases import each_case
from tests.support.worlds.one_user import AT, MEMORY, SmallWorld

LATER = State({"messages": Part(9, "9" * 64)})
OLD = Backup("snapshot-of-old", SmallWorld().instance.id, AT, "daily", 1, 1, MEMORY)
THIS = OperationId("this")
REQUEST = RestoreIntent(user="ada", snapshot=OLD.id, keeps=True, reason="lost")


@dataclass
class Restorable(SmallWorld):
    """A world where the agent has learned something since its backup, and a copy does not wait for its rest."""

    restored: OperationId | None = None
    is_damaged: bool = False
    times_put_back: int = 0
    generation: int = 0
    in_place: str | None = ""

    def payload_digest(self, instance: Instance) -> str:
        return super().payload_digest(instance) + "+" * self.generation

    def backups_restored_by(self, _instance_id: InstanceId) -> OperationId | None:
        return self.restored

    def backups_record_restored(
        self, _instance_id: InstanceId, _backup: str, operation_id: OperationId, *, why: str
    ) -> None:
        assert why == REQUEST.reason
        assert self.here().state == MEMORY
        self.restored = operation_id
        self.generation += 1  # as the registry, in the same transaction

    async def state(self, machine_id: MachineId) -> State | None:
        if self.is_damaged:
            raise UnavailableError("the database is no database")
        state = await super().state(machine_id)
        return replace(state, restored=self.in_place) if state else None

    async def release(self, machine_id: MachineId) -> None:
        self.in_place = self.in_place and ""
        await super().release(machine_id)

    async def make(self, instance: Instance, machine_id: MachineId, *, why: str) -> Backup:  # noqa: ARG002 - the port's
        backup = self.made(instance.id, why) or replace(OLD, id=why, why=why, state=self.here().state)
        self.kept_backups = [*(kept for kept in self.kept_backups if kept.why != why), backup]
        return backup

    async def restore(self, _instance: Instance, machine_id: MachineId, backup: Backup) -> State:
        self.times_put_back += 1
        self.is_damaged = False
        self.in_place = None if self.in_place is None else backup.id
        return await super().restore(_instance, machine_id, backup)


def learned() -> Restorable:
    world = Restorable.lively()
    assert isinstance(world, Restorable)
    world.here().state = LATER
    world.kept_backups.append(OLD)
    return world


def restore(world: Restorable, request: RestoreIntent = REQUEST) -> Restore:
    return Restore(world.instance.id, THIS, request, registry=world, client=world.client, backups=world)


def back_up(world: Restorable) -> BackUp:
    return BackUp(world.instance.id, "manual 1", world.client, world)


async def test_a_backup_is_put_in_place_while_nothing_writes_and_what_was_there_is_kept() -> None:
    world = learned()
    *steps, outcome = await walk(lambda: restore(world))
    assert steps == ["Fence", "BackUp", "RestoreBackup", "Record", "Release", "Personalise"]
    assert outcome == "ada has the state of backup snapshot of 2026-01-01 00:00 UTC: 7 messages"
    assert world.here().runs
    assert [backup.state for backup in world.kept_backups] == [MEMORY, LATER]


async def test_a_digest_that_is_the_same_is_no_reason_to_leave_lost_files_lost() -> None:
    world = learned()
    world.here().state = MEMORY
    assert "RestoreBackup" in await walk(lambda: restore(world))
    assert world.times_put_back == 1


async def test_a_machine_whose_node_cannot_tell_what_was_put_in_place_is_believed_by_its_digest() -> None:
    world = learned()
    world.in_place = None
    assert (await walk(lambda: restore(world)))[-1].startswith("ada has the state of backup")
    assert world.times_put_back == 1


@each_case("after", [False, True])
@each_case("killed_at", range(6))
async def test_killed_at_any_step_the_same_command_finishes_it_and_copies_once(killed_at: int, *, after: bool) -> None:
    world = learned()
    outcome = (await walk(lambda: restore(world), killed_at=killed_at, after=after))[-1]
    assert outcome.startswith("ada has the state of backup")
    assert (world.times_put_back, len(world.kept_backups)) == (1, 2)


async def test_what_the_agent_writes_after_it_woke_is_not_put_back_a_second_time() -> None:
    world = learned()
    await walk(lambda: restore(world))
    world.here().state = LATER
    assert len(await walk(lambda: restore(world))) == 1
    assert world.times_put_back == 1


async def test_a_second_restore_of_the_same_agent_puts_its_backup_in_place_again() -> None:
    world = learned()
    world.restored = OperationId("earlier")
    assert (await walk(lambda: restore(world)))[:-1] == [
        "Fence",
        "BackUp",
        "RestoreBackup",
        "Record",
        "Release",
        "Personalise",
    ]
    assert (world.times_put_back, world.restored) == (1, THIS)
    assert world.here().state == MEMORY


async def test_a_state_that_cannot_be_read_is_replaced_without_a_copy_of_it() -> None:
    world = learned()
    world.is_damaged = True
    steps = await walk(lambda: restore(world, replace(REQUEST, keeps=False)))
    assert steps[:-1] == ["Fence", "RestoreBackup", "Record", "Release", "Personalise"]


async def test_a_living_agent_is_backed_up_once_and_goes_on() -> None:
    world = learned()
    assert (await walk(lambda: back_up(world), killed_at=0, after=True))[-1].endswith(
        "of ada: 9 messages; 1 bytes were new"
    )
    assert world.here().runs
    assert [backup.why for backup in world.kept_backups] == ["daily", "manual 1"]


@pytest.mark.parametrize("status", [MachineStatus.STOPPED, MachineStatus.ERROR])
async def test_nothing_is_done_with_a_machine_that_does_not_answer(status: MachineStatus) -> None:
    world = learned()
    world.here().status = status
    for work in (lambda: restore(world), lambda: back_up(world)):
        (output,) = await walk(work)
        assert output.startswith("UnavailableError: machine ")


async def test_nothing_is_done_with_anothers_machine_or_an_agent_that_has_ended() -> None:
    world = learned()
    world.here().owner = InstanceId("other")
    for work in (lambda: restore(world), lambda: back_up(world)):
        assert (await walk(work))[0].startswith("BrokenInvariantError: machine ")
    world.instance = replace(world.instance, status=InstanceStatus.TERMINATED)
    assert (await walk(lambda: restore(world)))[0].startswith("RefusedError: ")


async def test_killed_between_taking_the_fence_away_and_starting_the_gateway_it_lives_again() -> None:
    world = learned()
    await walk(lambda: restore(world))
    world.here().runs = False
    await walk(lambda: restore(world))
    assert (world.here().runs, world.times_put_back) == (True, 1)
