"""One run at a time, none for whoever found the work done, and destruction only of what rows doom."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from hermesops.errors import RefusedError
from hermesops.model.cell import CellMachine, CellSpec
from hermesops.model.ids import CellName, MachineName
from hermesops.model.stack import Preview, StackRef, UpResult
from hermesops.placement.cell_stacks import CellStacks

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
class Rows:
    doomed: frozenset[MachineName] = frozenset()

    def cell_spec(self, cell: CellName) -> CellSpec:
        return CellSpec(cell, (MACHINE,))

    def doomed_machines(self, cell: CellName) -> frozenset[MachineName]:
        assert cell == CELL
        return self.doomed


@dataclass
class Engine:
    resources: list[dict[str, object]] | None = None
    runs: list[tuple[CellSpec, frozenset[MachineName]]] = field(default_factory=list)
    allowed: set[str] = field(default_factory=set)

    async def up(
        self,
        stack: StackRef,
        program: Callable[[], Any],
        *,
        may_destroy: Callable[[str], bool] | None = None,
        tell: Callable[[Any], None] | None = None,
    ) -> UpResult:
        assert tell is None
        assert may_destroy
        self.runs.append(program())
        self.allowed |= {name for name in (KEPT, DOOMED) if may_destroy(f"urn:pulumi:cell1::fleet::x::{name}")}
        return UpResult(stack, ())

    async def preview(self, stack: StackRef, program: Callable[[], Any]) -> Preview:
        raise NotImplementedError

    async def destroy(
        self,
        stack: StackRef,
        *,
        may_destroy: Callable[[str], bool] | None = None,
        tell: Callable[[Any], None] | None = None,
    ) -> UpResult:
        assert tell is None
        assert may_destroy
        assert not may_destroy("urn:anything")
        self.runs.append((CellSpec(CELL, ()), frozenset()))
        return UpResult(stack, ())

    async def outputs(self, stack: StackRef) -> Mapping[str, Any]:
        raise NotImplementedError

    async def export(self, stack: StackRef) -> Mapping[str, Any]:
        assert stack == StackRef("fleet", "cell1")
        return {"version": 3, "deployment": {"resources": self.resources}}

    async def stacks(self, project: str) -> list[StackRef]:
        return [StackRef(project, "cell1")] if self.resources is not None else []


def program(spec: CellSpec, released: frozenset[MachineName]) -> Callable[[], tuple[CellSpec, frozenset[MachineName]]]:
    return lambda: (spec, released)


async def bring(engine: Engine, rows: Rows, *, wanted: bool = True) -> list[str]:
    held: list[str] = []

    @asynccontextmanager
    async def alone(subject: str) -> AsyncIterator[None]:
        held.append(subject)
        yield

    async def still_wanted() -> bool:
        assert held, "asked before the lease was ours"
        return wanted

    result = await CellStacks(rows, engine, program, alone).bring(CELL, still_wanted=still_wanted)
    assert (result is not None) is wanted
    return held


async def test_the_first_run_of_a_cell_reads_no_state_and_holds_the_stacks_lease() -> None:
    engine = Engine()
    assert await bring(engine, Rows()) == ["stack/fleet/cell1"]
    assert engine.runs == [(CellSpec(CELL, (MACHINE,)), frozenset())]
    assert engine.allowed == set()


async def test_whoever_waited_for_the_lease_and_finds_its_machine_made_runs_nothing() -> None:
    engine = Engine()
    await bring(engine, Rows(), wanted=False)
    assert engine.runs == []


async def test_a_doomed_machine_loses_its_protection_first_and_then_itself() -> None:
    engine = Engine([resource(KEPT, protect=True), resource(DOOMED, protect=True)])
    await bring(engine, Rows(frozenset({DOOMED})))
    as_ordered = CellMachine(DOOMED, "basic", "nbg1", None, None)
    assert engine.runs == [
        (CellSpec(CELL, (MACHINE, as_ordered)), frozenset({DOOMED})),
        (CellSpec(CELL, (MACHINE,)), frozenset()),
    ]
    assert engine.allowed == {DOOMED}


async def test_a_doomed_machine_that_is_gone_already_is_not_made_again() -> None:
    engine = Engine([resource(KEPT, protect=True)])
    await bring(engine, Rows(frozenset({DOOMED})))
    assert engine.runs == [(CellSpec(CELL, (MACHINE,)), frozenset())]


async def test_protection_dropped_before_a_crash_is_not_dropped_again() -> None:
    engine = Engine([resource(DOOMED, protect=False)])
    await bring(engine, Rows(frozenset({DOOMED})))
    assert len(engine.runs) == 1


@asynccontextmanager
async def nobody_else(subject: str) -> AsyncIterator[None]:
    assert subject == "stack/fleet/cell1"
    yield


async def test_a_cell_that_holds_a_machine_is_not_destroyed() -> None:
    engine = Engine([resource(KEPT, protect=False)])
    with pytest.raises(RefusedError, match="still holds 1 machines"):
        await CellStacks(Rows(), engine, program, nobody_else).destroy(CELL)
    assert engine.runs == []


async def test_an_empty_cell_is_removed() -> None:
    engine = Engine([])
    await CellStacks(Rows(), engine, program, nobody_else).destroy(CELL)
    assert len(engine.runs) == 1
