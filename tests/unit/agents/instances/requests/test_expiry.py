"""What falls due is done once, and what is being worked on is left alone."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

from hermesops.agents.instances.requests.expiry import Upkeep, due_of
from hermesops.errors import UnavailableError
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine, UnassignedStatus
from hermesops.model.ids import CellName, InstanceId, MachineName
from hermesops.model.plan import Plan
from tests.support.fakes.instances import ADA
from tests.support.worlds.one_user import AT, SmallCells, SmallWorld

DAY = timedelta(days=1)
PREVIOUS = UnassignedMachine(
    MachineName("hermes-local-cell1-left"),
    MachineRole.PREVIOUS,
    ADA.id,
    CellName("cell1"),
    Plan.LIGHT,
    "starter",
    "hel1",
    None,
    None,
    wanted=True,
    status=UnassignedStatus.CLAIMED,
    epoch=1,
    created_at=AT,
)


def leaves(row: UnassignedMachine, *, days: float, busy: frozenset[InstanceId] = frozenset()) -> bool:
    return due_of([], [row], busy, now=AT + days * DAY, keep_for=DAY).leaves == (row,)


def test_a_machine_that_was_left_is_kept_for_a_while() -> None:
    assert not leaves(PREVIOUS, days=0.9)
    assert leaves(PREVIOUS, days=1)
    assert leaves(replace(PREVIOUS, wanted=False), days=0)


def test_a_machine_that_was_ordered_for_what_was_given_up_goes_at_once() -> None:
    assert leaves(replace(PREVIOUS, role=MachineRole.REPLACEMENT), days=0)


def test_what_somebody_works_on_is_left_alone() -> None:
    busy = frozenset({ADA.id})
    assert not leaves(PREVIOUS, days=9, busy=busy)
    assert not leaves(replace(PREVIOUS, role=MachineRole.REPLACEMENT), days=9, busy=busy)
    assert due_of([ADA], [], busy, now=AT, keep_for=DAY).ends == ()


def test_a_machine_that_was_lent_to_a_drill_goes_once_nobody_drills() -> None:
    lent = replace(PREVIOUS, role=MachineRole.DRILL)
    assert leaves(lent, days=0)
    assert leaves(lent, days=0, busy=frozenset({ADA.id})), "what else is done with its agent does not matter"
    drilled = due_of([], [lent, PREVIOUS], frozenset(), now=AT + 9 * DAY, keep_for=DAY, drilled=frozenset({ADA.id}))
    assert drilled.leaves == (PREVIOUS,)


def test_a_machine_that_a_releases_drill_left_behind_goes_once_nobody_rolls_out() -> None:
    lent = replace(PREVIOUS, role=MachineRole.DRILL, instance_id=None)
    assert leaves(lent, days=0)
    assert due_of([], [lent], frozenset(), now=AT + 9 * DAY, keep_for=DAY, rolls_out=True).leaves == ()


def test_the_warm_pool_is_nobodys_to_give_back() -> None:
    assert not leaves(replace(PREVIOUS, role=MachineRole.WARM, instance_id=None), days=9)


@dataclass
class Ends:
    """Ends instances, or fails to."""

    ended: list[str] = field(default_factory=list)

    async def __call__(self, instance: Instance) -> None:
        if instance.user_alias == "grace":
            raise UnavailableError("no answer")
        self.ended.append(instance.user_alias)


async def test_what_cannot_be_done_stops_nothing_else() -> None:
    world, ends = SmallWorld.lively(), Ends()
    world.unassigned_machines, world.stack = [PREVIOUS], world.stack | {PREVIOUS.name}
    upkeep = Upkeep(world, SmallCells(world), ends, DAY)
    done = await upkeep.apply(
        due_of([replace(ADA, user_alias="grace"), ADA], [PREVIOUS], frozenset(), now=AT, keep_for=-DAY)
    )
    assert done == {"grace": "no answer", "ada": "", PREVIOUS.name: ""}
    assert ends.ended == ["ada"]
    assert world.unassigned_machines == []
    assert PREVIOUS.name not in world.stack
