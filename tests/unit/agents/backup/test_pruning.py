"""What no rule keeps goes: from the repository, as it is there, and from the rows."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.agents.backup.retention.pruning import EndedBackups, Pruning
from hermesops.agents.backup.retention.rules import Keep
from hermesops.errors import RefusedError
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.operation import LeaseHeldError
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.state import State
from tests.support.fakes.instances import ADA
from tests.support.fakes.registry import FakeRegistry

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
BOB = replace(ADA, id=InstanceId("bob"), user_alias="bob")


def backup(instance: Instance, days: int, why: str = "daily") -> Backup:
    return Backup(f"{instance.user_alias}{days}", instance.id, NOON - timedelta(days=days), why, 1, 1, State({}))


class World(FakeRegistry):
    """Rows and repositories."""

    def __init__(self, *rows: Backup) -> None:
        self.rows = list(rows)
        self.contents = {backup.id: backup for backup in rows}

    def backups_list(self, instance_id: InstanceId | None = None) -> Sequence[Backup]:
        return [backup for backup in self.rows if instance_id in {None, backup.instance_id}]

    def instances_list(self) -> Sequence[Instance]:
        return [ADA, BOB]

    def instances_get(self, _instance_id: InstanceId) -> Instance:
        return ADA

    def backups_list_ended_repositories(self) -> Mapping[InstanceId, datetime]:
        return {}

    def backups_forget(self, instance_id: InstanceId, ids: Collection[str], *, why: str) -> None:
        assert why == "retention"
        self.rows = [backup for backup in self.rows if backup.instance_id != instance_id or backup.id not in ids]

    async def remove_record(self, instance_id: InstanceId) -> None:
        self.did.append(f"removed the record of {instance_id}")

    def backups_forget_repository(self, instance_id: InstanceId, *, why: str) -> None:
        raise AssertionError((instance_id, why))

    def now(self) -> datetime:
        return NOON

    async def made(self, instance_id: InstanceId) -> Mapping[str, datetime]:
        return {backup.id: backup.at for backup in self.contents.values() if backup.instance_id == instance_id}

    async def remove(self, instance_id: InstanceId, ids: Sequence[str]) -> None:
        for id_ in ids:
            assert self.contents.pop(id_).instance_id == instance_id

    async def erase(self, instance_id: InstanceId) -> None:
        raise AssertionError(instance_id)

    def pruning(self) -> Pruning:
        return Pruning(self, self, Keep(2, 0, 0))


async def test_only_agents_that_have_too_many_are_due_and_nothing_of_others_goes() -> None:
    world = World(*(backup(ADA, days) for days in range(5)), backup(BOB, 40))
    assert world.pruning().due() == [ADA]
    assert await world.pruning().prune(ADA.id) == ["ada4", "ada3", "ada2"]
    assert sorted(world.contents) == ["ada0", "ada1", "bob40"]
    assert [backup.id for backup in world.rows] == ["ada0", "ada1", "bob40"]
    assert world.pruning().due() == []


async def test_the_last_of_an_agent_that_ends_stays_whatever_the_rules_say() -> None:
    world = World(backup(ADA, 0), backup(ADA, 1), backup(ADA, 9, "before schedule_termination 1"))
    assert world.pruning().due() == []
    assert await world.pruning().prune(ADA.id) == []


async def test_rows_of_what_is_not_in_the_repository_go_too() -> None:
    world = World(backup(ADA, 0), backup(ADA, 1))
    del world.contents["ada1"]
    await world.pruning().prune(ADA.id)
    assert [backup.id for backup in world.rows] == ["ada0"]


class EndedWorld(World):
    """Ada's agent has ended; writes down what is done to her backups, and under which lease."""

    def __init__(self, status: InstanceStatus = InstanceStatus.TERMINATED) -> None:
        super().__init__(backup(ADA, 40))
        self.status = status
        self.holder = ""
        self.did: list[str] = []

    def instances_get(self, _instance_id: InstanceId) -> Instance:
        return replace(ADA, status=self.status)

    async def erase(self, instance_id: InstanceId) -> None:
        self.did.append(f"erased {instance_id}")

    async def revoke(self, instance_id: InstanceId) -> None:
        self.did.append(f"revoked {instance_id}")

    async def remove_record(self, instance_id: InstanceId) -> None:
        self.did.append(f"removed the record of {instance_id}")

    def backups_forget_repository(self, instance_id: InstanceId, *, why: str) -> None:
        self.did.append(f"forgot {instance_id}: {why}")

    @asynccontextmanager
    async def hold_lease(self, subject: str) -> AsyncIterator[None]:
        if self.holder:
            raise LeaseHeldError(f"{subject} is being worked on by {self.holder}", holder=self.holder)
        self.did.append(f"took {subject}")
        yield
        self.did.append("gave it back")

    def ended(self) -> EndedBackups:
        return EndedBackups(self, self, self.revoke, self.remove_record, self.hold_lease, timedelta(days=30))


async def test_what_an_ended_agent_left_is_erased_under_its_lease_and_its_rows_go_last() -> None:
    world = EndedWorld()
    await world.ended().erase(ADA)
    assert world.did == [
        f"took instance/{ADA.id}",
        f"erased {ADA.id}",
        f"revoked {ADA.id}",
        f"removed the record of {ADA.id}",
        f"forgot {ADA.id}: terminated more than 30 days ago",
        "gave it back",
    ]


async def test_while_somebody_works_on_an_ended_agent_nothing_of_it_is_erased() -> None:
    world = EndedWorld()
    world.holder = "host:7"
    with pytest.raises(LeaseHeldError, match=f"instance/{ADA.id} is being worked on by host:7"):
        await world.ended().erase(ADA)
    assert world.did == []


async def test_an_agent_that_has_not_ended_keeps_its_backups() -> None:
    world = EndedWorld(InstanceStatus.SUSPENDED)
    with pytest.raises(RefusedError, match="is not terminated"):
        await world.ended().erase(ADA)
    assert [done for done in world.did if ADA.id in done] == [f"took instance/{ADA.id}"]
