"""One run at a time, none for whoever found the work done, and destruction only of what rows doom."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from hermesops.agents.cells.changes.preview import ChangePreview
from hermesops.agents.cells.stack.stacks import CellStacks, Guard
from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.infra.engine.embedded.engine import EmbeddedEngine
from hermesops.infra.engine.options import Program
from hermesops.infra.stacks.fleet import CellPrograms, FleetProgram
from hermesops.model.fleet.cell import CellMachine, CellSpec
from hermesops.model.ids import CellName, MachineName
from hermesops.model.stack import Change, ChangeKind, Preview, StackRef, UpResult
from tests.support.fakes.registry import FakeRegistry

T = TypeVar("T")

CELL = CellName("cell1")
KEPT = MachineName("hermes-local-cell1-aaaaaaaaaaaa")
DOOMED = MachineName("hermes-local-cell1-bbbbbbbbbbbb")
MACHINE = CellMachine(KEPT, "starter", "hel1", None, None)


def resource(name: MachineName, *, protect: bool) -> dict[str, object]:
    return {
        "urn": f"urn:pulumi:cell1::fleet::hermesops:fleet:Cell$justavps:index:Machine::{name}",
        "type": "justavps:index:Machine",
        "inputs": {"server_type": "basic", "region": "nbg1"},
        "protect": protect,
    }


@dataclass
class Rows(FakeRegistry):
    to_delete: frozenset[MachineName] = frozenset()
    machines: tuple[CellMachine, ...] = (MACHINE,)
    brought: list[CellName] = field(default_factory=list)

    def cells_spec(self, cell: CellName) -> CellSpec:
        return CellSpec(cell, self.machines)

    def cells_machines_to_delete(self, cell: CellName) -> frozenset[MachineName]:
        assert cell == CELL
        return self.to_delete

    def cells_resized_machines(self, cell: CellName) -> frozenset[MachineName]:
        assert cell == CELL
        return frozenset()

    def cells_record_applied(self, name: CellName) -> None:
        self.brought.append(name)


@dataclass
class Engine(EmbeddedEngine):
    """Runs nothing and notes what it was to run."""

    resources: list[dict[str, object]] | None = None
    runs: list[tuple[CellSpec, frozenset[MachineName]]] = field(default_factory=list)
    allowed: set[str] = field(default_factory=set)
    targets: list[Collection[str]] = field(default_factory=list)
    shown: list[tuple[CellSpec, frozenset[MachineName], Collection[str]]] = field(default_factory=list)
    failure: Exception | None = None
    began: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    during: Callable[[int], object] = lambda _run: None

    def __post_init__(self) -> None:
        self.may_end.set()

    async def up(
        self,
        stack: StackRef,
        program: Program,
        *,
        targets: Collection[str] = (),
        may_destroy: Callable[[str], bool] | None = None,
        **_: object,
    ) -> UpResult:
        assert may_destroy
        assert isinstance(program, FleetProgram)
        self.runs.append((program.spec, program.released))
        self.targets.append(targets)
        self.allowed |= {name for name in (KEPT, DOOMED) if may_destroy(f"urn:pulumi:cell1::fleet::x::{name}")}
        self.began.set()
        self.during(len(self.runs))
        await asyncio.sleep(0)  # noqa: TID251 - where a cancelled run ends
        await self.may_end.wait()
        if self.failure:
            raise self.failure
        return UpResult(stack, ())

    async def preview(
        self, stack: StackRef, program: Program, *, targets: Collection[str] = (), **_: object
    ) -> Preview:
        assert isinstance(program, FleetProgram)
        self.shown.append((program.spec, program.released, targets))
        changes = [
            Change(ChangeKind.SAME, f"urn::{machine.name}", "t", machine.name) for machine in program.spec.machines
        ]
        return Preview(stack, tuple(changes))

    async def refresh(self, stack: StackRef, *, targets: Collection[str] = (), **_: object) -> UpResult:
        self.targets.append(targets)
        return UpResult(stack, ())

    async def preview_refresh(self, stack: StackRef, *, targets: Collection[str] = (), **_: object) -> Preview:
        self.targets.append(targets)
        return Preview(stack, ())

    async def destroy(
        self, stack: StackRef, *, may_destroy: Callable[[str], bool] | None = None, **_: object
    ) -> UpResult:
        assert may_destroy
        assert not may_destroy("urn:anything")
        self.runs.append((CellSpec(CELL, ()), frozenset()))
        return UpResult(stack, ())

    async def export(self, stack: StackRef) -> dict[str, Any]:
        assert stack == StackRef("fleet", "cell1")
        return {"version": 3, "deployment": {"resources": self.resources}}

    async def stacks(self, project: str) -> list[StackRef]:
        return [StackRef(project, "cell1")] if self.resources is not None else []


class Turn:
    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        return await work


async def let_through(_: ChangePreview, /) -> None:
    """Mind nothing."""


@asynccontextmanager
async def nobody_else(subject: str) -> AsyncIterator[Turn]:
    assert subject == "stack/fleet/cell1"
    yield Turn()


def stacks_of(
    engine: Engine, rows: Rows, hold_lease: Callable[[str], Any] = nobody_else, guard: Guard = let_through
) -> CellStacks:
    return CellStacks(rows, lambda: engine, lambda: CellPrograms({}), hold_lease, guard)


async def wanted() -> bool:
    return True


async def apply(engine: Engine, rows: Rows, *, wanted: bool = True) -> list[str]:
    held: list[str] = []

    @asynccontextmanager
    async def hold_lease(subject: str) -> AsyncIterator[Turn]:
        held.append(subject)
        yield Turn()

    async def still_wanted() -> bool:
        assert held, "asked before the lease was ours"
        return wanted

    result = await stacks_of(engine, rows, hold_lease).apply(CELL, still_wanted=still_wanted)
    assert (result is not None) is wanted
    assert bool(rows.brought) is wanted
    return held


async def test_the_first_run_of_a_cell_reads_no_state_and_holds_the_stacks_lease() -> None:
    engine = Engine()
    assert await apply(engine, Rows()) == ["stack/fleet/cell1"]
    assert engine.runs == [(CellSpec(CELL, (MACHINE,)), frozenset())]
    assert engine.allowed == set()


async def test_whoever_waited_for_the_lease_and_finds_its_machine_made_runs_nothing() -> None:
    engine = Engine()
    await apply(engine, Rows(), wanted=False)
    assert engine.runs == []


async def test_a_doomed_machine_loses_its_protection_first_and_then_itself() -> None:
    engine = Engine([resource(KEPT, protect=True), resource(DOOMED, protect=True)])
    await apply(engine, Rows(frozenset({DOOMED})))
    as_ordered = CellMachine(DOOMED, "basic", "nbg1", None, None)
    assert engine.runs == [
        (CellSpec(CELL, (MACHINE, as_ordered)), frozenset({DOOMED})),
        (CellSpec(CELL, (MACHINE,)), frozenset()),
    ]
    assert engine.allowed == {DOOMED}


async def test_a_doomed_machine_that_is_gone_already_is_not_made_again() -> None:
    engine = Engine([resource(KEPT, protect=True)])
    await apply(engine, Rows(frozenset({DOOMED})))
    assert engine.runs == [(CellSpec(CELL, (MACHINE,)), frozenset())]


async def test_protection_dropped_before_a_crash_is_not_dropped_again() -> None:
    engine = Engine([resource(DOOMED, protect=False)])
    await apply(engine, Rows(frozenset({DOOMED})))
    assert len(engine.runs) == 1


async def test_a_cell_that_holds_a_machine_is_not_destroyed() -> None:
    engine = Engine([resource(KEPT, protect=False)])
    with pytest.raises(RefusedError, match="still holds 1 machine:"):
        await stacks_of(engine, Rows()).destroy(CELL)
    assert engine.runs == []


async def test_an_empty_cell_is_removed() -> None:
    engine = Engine([])
    await stacks_of(engine, Rows()).destroy(CELL)
    assert len(engine.runs) == 1


async def while_one_runs(
    engine: Engine, *requests: Callable[[], Awaitable[bool]]
) -> list[UpResult | BaseException | None]:
    """Start a run, have these requests come while it is under way, let it end; what became of the requests."""
    stacks = stacks_of(engine, Rows())
    engine.may_end.clear()
    first = asyncio.create_task(stacks.apply(CELL, still_wanted=wanted))
    await engine.began.wait()
    others = [asyncio.ensure_future(stacks.apply(CELL, still_wanted=request)) for request in requests]
    await asyncio.wait(others, timeout=0)
    engine.may_end.set()
    ends = await asyncio.gather(*others, first, return_exceptions=True)
    return ends[:-1]


async def test_a_hundred_wishes_while_one_run_is_under_way_are_served_by_one_more() -> None:
    count = 0

    async def still_wanted() -> bool:
        nonlocal count
        count += 1
        return True

    engine = Engine()
    ends = await while_one_runs(engine, *[still_wanted] * 100)
    assert len(engine.runs) == 2
    assert isinstance(ends[0], UpResult)
    assert all(end is ends[0] for end in ends)
    assert count == 1, "the others are asked only when the first wants nothing any more"


async def test_wishes_that_the_run_before_fulfilled_need_no_other() -> None:
    engine = Engine()

    async def not_any_more() -> bool:
        return False

    assert await while_one_runs(engine, *[not_any_more] * 100) == [None] * 100
    assert len(engine.runs) == 1
    assert await while_one_runs(engine, *[not_any_more] * 99, wanted) != [None] * 100


async def test_a_failure_is_everybodys_but_theirs_whose_part_was_done() -> None:
    engine = Engine(failure=UnavailableError("no answer"))

    async def until_the_second_run() -> bool:
        return len(engine.runs) < 2

    ends = await while_one_runs(engine, wanted, wanted, until_the_second_run)
    assert [type(end) for end in ends] == [UnavailableError, UnavailableError, type(None)]
    assert len(engine.runs) == 2


async def test_who_is_cancelled_leaves_the_run_to_the_next_of_the_group() -> None:
    def during(run: int) -> None:
        if run == 2:
            leader.cancel()

    engine = Engine(during=during)
    stacks = stacks_of(engine, Rows())
    first, leader, other = (asyncio.create_task(stacks.apply(CELL, still_wanted=wanted)) for _ in range(3))
    assert await first is not None
    assert await other is not None
    assert leader.cancelled()
    assert len(engine.runs) == 3


async def test_a_preview_says_what_would_have_to_end_although_it_is_protected() -> None:
    moved = MachineName("hermes-local-cell1-cccccccccccc")
    held = [resource(name, protect=True) for name in (KEPT, DOOMED, moved)]
    resized = CellMachine(KEPT, "pro", "nbg1", None, None)
    rows = Rows(machines=(resized, CellMachine(moved, "basic", "hel1", None, None)))
    engine = Engine(held)
    preview = await stacks_of(engine, rows).preview(CELL)
    assert [(change.kind, change.name) for change in preview.changes] == [
        (ChangeKind.SAME, KEPT),
        (ChangeKind.DELETE, DOOMED),
        (ChangeKind.REPLACE, moved),
    ]
    ((spec, released, _),) = engine.shown
    assert {machine.region for machine in spec.machines} == {"nbg1"}, "what would end stays as it is"
    assert released == {DOOMED, moved}
    only = await stacks_of(engine, rows).preview(CELL, only=frozenset({DOOMED}))
    assert [change.name for change in only.destructive] == [DOOMED]


async def test_what_was_named_may_be_destroyed_and_made_anew() -> None:
    engine = Engine([resource(KEPT, protect=True)])
    await stacks_of(engine, Rows()).up(CELL, named=frozenset({KEPT}))
    as_ordered = CellMachine(KEPT, "basic", "nbg1", None, None)
    assert engine.runs == [
        (CellSpec(CELL, (as_ordered,)), frozenset({KEPT})),
        (CellSpec(CELL, (MACHINE,)), frozenset()),
    ]
    assert engine.allowed == {KEPT}


async def test_a_run_for_one_machine_targets_it_and_does_not_bring_the_cell() -> None:
    engine, rows = Engine([resource(DOOMED, protect=True)]), Rows(frozenset({DOOMED}))
    stacks = stacks_of(engine, rows)
    await stacks.up(CELL, only=frozenset({KEPT}))
    await stacks.refresh(CELL, only=frozenset({DOOMED}))
    await stacks.preview_refresh(CELL)
    urns = CellPrograms({}).urns
    stack = StackRef("fleet", "cell1")
    assert engine.targets == [urns(stack, {KEPT}), urns(stack, {DOOMED}), ()]
    assert len(engine.runs) == 1
    assert rows.brought == []
    with pytest.raises(UsageError, match="no machine 'nobodys' of cell1"):
        await stacks.up(CELL, only=frozenset({MachineName("nobodys")}))


async def test_a_lost_lease_stops_the_run() -> None:
    class Lost:
        async def guard(self, work: Coroutine[Any, Any, T]) -> T:
            work.close()
            raise UnavailableError("lost the lease")

    @asynccontextmanager
    async def hold_lease(_subject: str) -> AsyncIterator[Lost]:
        yield Lost()

    engine = Engine()
    for work in (
        stacks_of(engine, Rows(), hold_lease).apply(CELL, still_wanted=wanted),
        stacks_of(engine, Rows(), hold_lease).up(CELL),
        stacks_of(engine, Rows(), hold_lease).refresh(CELL),
    ):
        with pytest.raises(UnavailableError, match="lost"):
            await work
    assert (engine.runs, engine.targets) == ([], [])


async def test_a_guard_stands_before_every_run() -> None:
    change_previews: list[ChangePreview] = []

    async def refuse(change_preview: ChangePreview, /) -> None:
        change_previews.append(change_preview)
        raise RefusedError("not today")

    engine = Engine([resource(KEPT, protect=False)])
    stacks = stacks_of(engine, Rows(frozenset({DOOMED})), guard=refuse)
    for work in (stacks.apply(CELL, still_wanted=wanted), stacks.up(CELL)):
        with pytest.raises(RefusedError, match="not today"):
            await work
    assert engine.runs == []
    assert [
        (change_preview.cell, change_preview.machines_to_delete, len(change_preview.in_state))
        for change_preview in change_previews
    ] == [(CELL, frozenset({DOOMED}), 1)] * 2


async def test_a_guard_of_ones_own_takes_the_place_of_the_usual_one() -> None:
    async def refuse(_: ChangePreview, /) -> None:
        raise RefusedError("not today")

    engine = Engine([resource(KEPT, protect=False)])
    await stacks_of(engine, Rows(), guard=refuse).up(CELL, guard=let_through)
    assert len(engine.runs) == 1


async def test_what_is_run_is_what_was_judged_though_rows_move_meanwhile() -> None:
    rows = Rows()
    judged: list[CellSpec] = []

    async def slow(change_preview: ChangePreview, /) -> None:
        judged.append(change_preview.ordered)
        rows.machines = (
            *rows.machines,
            CellMachine(MachineName("hermes-local-cell1-eeeeeeeeeeee"), "pro", "hel1", None, None),
        )

    engine = Engine([resource(KEPT, protect=False)])
    await stacks_of(engine, rows, guard=slow).up(CELL)
    assert [spec for spec, _ in engine.runs] == judged
