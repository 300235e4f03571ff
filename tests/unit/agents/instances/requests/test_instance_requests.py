"""What is asked of an agent's life is judged first, written once, and continued by the same words."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.requests.changes import InstanceRequests, Policy
from hermesops.agents.instances.requests.opening import OperationOpener
from hermesops.agents.instances.requests.placement import MachinePlacement
from hermesops.errors import AlreadySoError, RefusedError, UnavailableError, UsageError
from hermesops.model.fleet.cell import Placement
from hermesops.model.fleet.health import NodeState
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.unassigned_machine import MachineRole
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, instance_subject
from hermesops.model.operation import LeaseHeldError, OperationKind, OperationStatus
from hermesops.model.plan import Plan
from hermesops.model.recovery.backup import Backup
from hermesops.store.operations.kinds.agents import Keep
from hermesops.store.registry import Registry
from hermesops.vendor.justavps.wire import MachineStatus
from hermesops.wire.protocol import GB
from tests.support.real.stores.registries import placed, registry_at
from tests.support.worlds.one_user import AT, MEMORY, SIZES

WHY = "asked"


@dataclass
class Surroundings:
    """A machine, a vendor, backups and leases, as told.

    Attributes:
        held: Bytes that the data takes; ``None`` where the machine is silent.
        sold_in: Where machines can be rented.
    """

    registry: Registry
    held: int | None = 1
    is_fenced: bool = False
    is_taken: bool = False
    sold_in: tuple[str, ...] = ("hel1", "nbg1")
    backups: list[Backup] = field(default_factory=list)

    async def observe(self, instance_id: InstanceId) -> Observation:
        node = None if self.held is None else NodeState(instance_id, 1, "", "", fenced=self.is_fenced)
        return Observation(
            self.registry.instances.get(instance_id), MachineState(MachineId("m"), MachineStatus.READY), node
        )

    async def bytes_in_use(self, _machine_id: MachineId) -> int | None:
        return self.held

    async def sells(self, _server_type: str, region: str) -> bool:
        return region in self.sold_in

    def newest(self, _instance_id: InstanceId) -> Backup | None:
        return self.backups[-1] if self.backups else None

    def get(self, _instance_id: InstanceId, snapshot: str) -> Backup:
        return next(backup for backup in self.backups if backup.id == snapshot)

    @asynccontextmanager
    async def hold_lease(self, _subject: str) -> AsyncIterator[None]:
        if self.is_taken:
            raise LeaseHeldError("somebody is at it")
        yield

    def requests(self) -> InstanceRequests:
        itself: Any = self
        machine_placement = MachinePlacement(self.registry, "hermes-base", cell_size=2, plans_apart=False)
        policy = Policy(SIZES, {Plan.LIGHT: 40, Plan.HEAVY: 80}, timedelta(days=7), Keep.STOPPED, keeps_previous=True)
        return InstanceRequests(
            self.registry, itself, itself, machine_placement, policy, OperationOpener(self.registry, self.hold_lease)
        )


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    registry = registry_at(f"sqlite:///{tmp_path / 'registry.db'}")
    registry.images.record(ImageId("image"), name="hermes-base", digest="d")
    registry.instances.set_status(placed(registry).id, InstanceStatus.RUNNING)
    return Surroundings(registry)


def ada(around: Surroundings) -> Instance:
    return around.registry.instances.find("ada")


def backup(around: Surroundings) -> Backup:
    backup = Backup("snapshot0", ada(around).id, AT, "daily", 1, 1, MEMORY)
    around.backups.append(backup)
    return backup


async def test_the_same_words_continue_what_was_begun(around: Surroundings) -> None:
    first = await around.requests().suspend("ada", keep=None, reason=WHY)
    for keep in (None, Keep.STOPPED):
        assert await around.requests().suspend("ada", keep=keep, reason=WHY) == first
    assert first.intent["keep"] == Keep.STOPPED


async def test_other_words_do_not_continue_what_was_begun(around: Surroundings) -> None:
    first = await around.requests().suspend("ada", keep=Keep.STOPPED, reason=WHY)
    with pytest.raises(RefusedError, match=f"{first.id}.* has not ended"):
        await around.requests().suspend("ada", keep=Keep.REMOVED, reason=WHY)
    around.registry.operations.finish(first.id, OperationStatus.ABANDONED, "")
    resize = await around.requests().resize("ada", Plan.HEAVY, onto_new_machine=False, reason=WHY)
    with pytest.raises(RefusedError, match=f"{resize.id}.* has not ended"):
        await around.requests().resize("ada", Plan.LIGHT, onto_new_machine=False, reason=WHY)


async def test_nothing_is_written_without_a_reason(around: Surroundings) -> None:
    with pytest.raises(UsageError, match="say why"):
        await around.requests().suspend("ada", keep=None, reason=" ")
    assert around.registry.operations.list() == ()


async def test_whoever_comes_second_changes_nothing(around: Surroundings) -> None:
    around.is_taken = True
    with pytest.raises(LeaseHeldError, match="somebody is at it"):
        await around.requests().schedule_termination("ada", reason=WHY)
    assert around.registry.operations.list() == ()


async def test_two_different_changes_do_not_meet(around: Surroundings) -> None:
    await around.requests().suspend("ada", keep=None, reason=WHY)
    with pytest.raises(RefusedError, match="suspend"):
        await around.requests().move("ada", cell="", region="nbg1", reason=WHY)


async def test_who_is_awake_is_not_woken(around: Surroundings) -> None:
    with pytest.raises(AlreadySoError, match="running"):
        await around.requests().resume("ada", reason=WHY)
    around.is_fenced = True
    assert (await around.requests().resume("ada", reason=WHY)).kind is OperationKind.RESUME


async def test_who_sleeps_without_a_machine_wakes_on_another_with_the_newest_backup(around: Surroundings) -> None:
    around.registry.instances.set_status(ada(around).id, InstanceStatus.SUSPENDED)
    around.registry.instances.leave_machine(ada(around).id)
    with pytest.raises(RefusedError, match="no backup"):
        await around.requests().resume("ada", reason=WHY)
    backup(around)
    operation = await around.requests().resume("ada", reason=WHY)
    assert (operation.kind, operation.intent["snapshot"]) == (OperationKind.RELOCATE, "snapshot0")


async def test_an_end_that_has_not_come_is_had_back(around: Surroundings) -> None:
    farewell = await around.requests().schedule_termination("ada", reason=WHY)
    around.is_fenced = True
    with pytest.raises(RefusedError, match="schedule termination"):
        await around.requests().resume("ada", reason=WHY)
    assert (await around.requests().undo_termination("ada", reason=WHY)).kind is OperationKind.RESUME
    assert around.registry.operations.get(farewell.id).status is OperationStatus.ABANDONED


async def test_a_suspended_agent_without_a_scheduled_end_stays_suspended(around: Surroundings) -> None:
    around.registry.instances.set_status(ada(around).id, InstanceStatus.SUSPENDED)
    with pytest.raises(AlreadySoError, match="no termination of ada is scheduled"):
        await around.requests().undo_termination("ada", reason=WHY)
    begun = await around.requests().resume("ada", reason=WHY)
    assert (await around.requests().undo_termination("ada", reason=WHY)).id == begun.id, "it has begun already"


async def test_an_end_that_gave_the_machine_up_is_not_had_back(around: Surroundings) -> None:
    subject = instance_subject(ada(around).id)
    around.registry.operations.open(OperationKind.TERMINATE, subject, intent={}, instance_id=ada(around).id)
    around.registry.instances.mark_for_deletion(ada(around).id)
    with pytest.raises(RefusedError, match="terminate"):
        await around.requests().undo_termination("ada", reason=WHY)


async def test_a_plan_is_changed_to_another_one_that_is_sold(around: Surroundings) -> None:
    with pytest.raises(AlreadySoError, match="plan light already"):
        await around.requests().resize("ada", Plan.LIGHT, onto_new_machine=False, reason=WHY)
    operation = await around.requests().resize("ada", Plan.HEAVY, onto_new_machine=False, reason=WHY)
    assert operation.intent["before"] == {"plan": "light", "server_type": "starter"}
    around.registry.operations.finish(operation.id, OperationStatus.DONE, "")
    around.sold_in = ()
    with pytest.raises(RefusedError, match="sells no basic"):
        await around.requests().resize("ada", Plan.HEAVY, onto_new_machine=True, reason=WHY)


@pytest.mark.parametrize(
    ("held", "error", "words"),
    [(41 * GB, RefusedError, "has room for 40 GB"), (None, UnavailableError, "does not answer")],
    ids=["too much", "silent"],
)
async def test_data_that_does_not_fit_is_not_squeezed(
    around: Surroundings, held: int | None, error: type[Exception], words: str
) -> None:
    around.registry.instances.change_plan(ada(around).id, Plan.HEAVY, "basic")
    around.held = held
    with pytest.raises(error, match=words):
        await around.requests().resize("ada", Plan.LIGHT, onto_new_machine=False, reason=WHY)
    assert around.registry.operations.list() == ()


async def test_a_move_goes_somewhere_else_and_is_continued(around: Surroundings) -> None:
    with pytest.raises(UsageError, match="name one place"):
        await around.requests().move("ada", cell="", region="", reason=WHY)
    for cell, region in (("cell1", ""), ("", "hel1")):
        with pytest.raises(AlreadySoError, match="already"):
            await around.requests().move("ada", cell=cell, region=region, reason=WHY)
    first = await around.requests().move("ada", cell="", region="nbg1", reason=WHY)
    assert (first.intent["cell"], first.intent["region"]) == ("cell2", "nbg1")
    assert await around.requests().move("ada", cell="", region="nbg1", reason=WHY) == first


async def test_a_machine_that_was_ordered_for_the_same_serves_it_after_all(around: Surroundings) -> None:
    given_up = await around.requests().move("ada", cell="", region="nbg1", reason=WHY)
    around.registry.unassigned.place(
        MachineRole.REPLACEMENT,
        plan=Plan.LIGHT,
        server_type="starter",
        image_id=ImageId("image"),
        choose=lambda _: Placement(CellName("cell2"), "nbg1", None),
        instance_id=ada(around).id,
    )
    around.registry.operations.finish(given_up.id, OperationStatus.FAILED, "no payment method")
    await around.requests().move("ada", cell="", region="nbg1", reason=WHY)
    [row] = around.registry.unassigned.list(role=MachineRole.REPLACEMENT)
    assert row.wanted


async def test_an_unfinished_move_is_not_taken_for_another_change(around: Surroundings) -> None:
    backup(around)
    requests = around.requests()
    move = await requests.move("ada", cell="", region="nbg1", reason=WHY)
    for other in (
        requests.restore("ada", snapshot="snapshot0", reason=WHY),
        requests.resize("ada", Plan.HEAVY, onto_new_machine=True, reason=WHY),
        requests.renew("ada", ImageId("newer"), reason=WHY),
    ):
        with pytest.raises(RefusedError, match=f"{move.id}.* has not ended"):
            await other
    around.registry.instances.set_status(ada(around).id, InstanceStatus.SUSPENDED)
    assert await requests.resume("ada", reason=WHY) == move


async def test_a_restore_is_continued_whichever_backup_is_the_newest_by_then(around: Surroundings) -> None:
    first = backup(around)
    restore = await around.requests().restore("ada", snapshot=first.id, reason=WHY)
    around.backups.append(replace(first, id="snapshot1"))
    assert await around.requests().restore("ada", snapshot="snapshot1", reason=WHY) == restore
    with pytest.raises(RefusedError, match=f"{restore.id}.* has not ended"):
        await around.requests().renew("ada", ImageId("image"), reason=WHY)


def choosing(place: Placement) -> Callable[[object], Placement]:
    return lambda _: place


async def test_what_was_named_counts_and_what_was_chosen_does_not(around: Surroundings) -> None:
    for cell in ("cell2", "cell3"):
        row = around.registry.unassigned.place(
            MachineRole.REPLACEMENT,
            plan=Plan.LIGHT,
            server_type="starter",
            image_id=ImageId("image"),
            choose=choosing(Placement(CellName(cell), "nbg1", None)),
        )
        assert row.cell == cell
    requests = around.requests()
    move = await requests.move("ada", cell="cell2", region="", reason=WHY)
    for cell, region in (("cell2", ""), ("", "nbg1")):
        assert await requests.move("ada", cell=cell, region=region, reason=WHY) == move
    with pytest.raises(RefusedError, match=f"{move.id}.* has not ended"):
        await requests.move("ada", cell="cell3", region="", reason=WHY)
    around.registry.operations.finish(move.id, OperationStatus.ABANDONED, "")
    renewal = await requests.renew("ada", ImageId("newer"), reason=WHY)
    with pytest.raises(RefusedError, match=f"{renewal.id}.* has not ended"):
        await requests.renew("ada", ImageId("newest"), reason=WHY)


async def test_another_machine_of_an_image_is_in_the_same_region(around: Surroundings) -> None:
    operation = await around.requests().renew("ada", ImageId("newer"), reason=WHY)
    assert (operation.kind, operation.intent["region"], operation.intent["image_id"]) == (
        OperationKind.RELOCATE,
        "hel1",
        "newer",
    )
    assert operation.intent["keeps_previous"]
    assert await around.requests().renew("ada", ImageId("newer"), reason=WHY) == operation
    around.registry.instances.set_status(ada(around).id, InstanceStatus.SUSPENDED)
    around.registry.operations.finish(operation.id, OperationStatus.ABANDONED, "enough")
    with pytest.raises(RefusedError, match="suspended"):
        await around.requests().renew("ada", ImageId("newer"), reason=WHY)


async def test_a_machine_of_a_move_that_was_given_up_does_not_serve_another(around: Surroundings) -> None:
    given_up = await around.requests().move("ada", cell="", region="nbg1", reason=WHY)
    place = MachinePlacement(around.registry, "hermes-base", cell_size=2, plans_apart=False).here(ada(around))
    around.registry.unassigned.place(
        MachineRole.REPLACEMENT,
        plan=Plan.LIGHT,
        server_type="starter",
        image_id=None,
        choose=lambda _: place,
        instance_id=ada(around).id,
    )
    around.registry.operations.finish(given_up.id, OperationStatus.ABANDONED, "")
    await around.requests().resize("ada", Plan.HEAVY, onto_new_machine=True, reason=WHY)
    assert not [row for row in around.registry.unassigned.list(role=MachineRole.REPLACEMENT) if row.wanted]


async def test_what_sleeps_or_has_ended_is_not_moved(around: Surroundings) -> None:
    around.registry.instances.begin_grace(ada(around).id, AT)
    with pytest.raises(RefusedError, match="ends at 2026-01-01 00:00 UTC") as refused:
        await around.requests().move("ada", cell="", region="nbg1", reason=WHY)
    assert "--undo" in str(refused.value.hint)
    around.registry.terminations.terminate(ada(around).id)
    with pytest.raises(RefusedError, match="terminated"):
        await around.requests().move("ada", cell="", region="nbg1", reason=WHY)


async def test_a_restore_takes_the_backup_that_was_named(around: Surroundings) -> None:
    backup(around)
    around.backups.append(replace(around.backups[0], id="snapshot1"))
    operation = await around.requests().restore("ada", snapshot="snapshot0", reason=WHY)
    assert operation.intent["snapshot"] == "snapshot0"
