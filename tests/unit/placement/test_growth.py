"""One run at a time, and none for whoever found the work done."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from hermesops.model.cell import CellSpec
from hermesops.model.ids import CellName, MachineName
from hermesops.model.stack import StackRef, UpResult
from hermesops.placement.growth import Growth

CELL = CellName("cell1")


class Rows:
    def cell_spec(self, cell: CellName) -> CellSpec:
        return CellSpec(cell, ())

    def doomed_machines(self, cell: CellName) -> frozenset[MachineName]:
        assert cell == CELL
        return frozenset({MachineName("hermes-local-cell1-0123456789ab")})


class Stacks:
    def __init__(self) -> None:
        self.runs: list[tuple[StackRef, CellSpec, frozenset[str]]] = []

    async def up(
        self, stack: StackRef, spec: CellSpec, *, may_destroy: frozenset[str], tell: Callable[[str], None]
    ) -> UpResult:
        tell("up")
        self.runs.append((stack, spec, may_destroy))
        return UpResult(stack, ())


async def bring(*, wanted: bool) -> tuple[Stacks, list[str]]:
    stacks, held = Stacks(), []

    @asynccontextmanager
    async def alone(subject: str) -> AsyncIterator[None]:
        held.append(subject)
        yield

    async def still_wanted() -> bool:
        assert held, "asked before the lease was ours"
        return wanted

    result = await Growth(Rows(), stacks, alone).bring(CELL, still_wanted=still_wanted, tell=lambda _: None)
    assert (result is not None) is wanted
    return stacks, held


async def test_a_run_holds_the_stacks_lease_and_may_destroy_only_what_rows_doom() -> None:
    stacks, held = await bring(wanted=True)
    assert held == ["stack/fleet/cell1"]
    assert stacks.runs == [
        (StackRef("fleet", "cell1"), CellSpec(CELL, ()), frozenset({"hermes-local-cell1-0123456789ab"}))
    ]


async def test_whoever_waited_for_the_lease_and_finds_its_machine_made_runs_nothing() -> None:
    stacks, _ = await bring(wanted=False)
    assert stacks.runs == []
