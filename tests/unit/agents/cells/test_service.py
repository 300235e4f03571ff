"""An ``up`` is an operation: within limits or with approval, run here or left, and never mixed with another one."""

from pathlib import Path
from typing import Any

import pytest

from hermesops.agents.cells.changes.guard import Overrides
from hermesops.agents.cells.changes.saved_previews import SavedPreviews
from hermesops.agents.cells.service import ChosenCells, StackUps
from hermesops.agents.cells.stack.state import stack_of
from hermesops.agents.cells.workflow import UpRequest
from hermesops.errors import RefusedError, UsageError
from hermesops.model.ids import CellName, MachineName, OperationId
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.model.stack import UpResult
from hermesops.settings.environment import Environment
from hermesops.store.operations.runner import QUEUED
from tests.support.fakes.parts import part
from tests.support.fleets.in_memory import AT

CELL = CellName("cell1")
DONE = UpResult(stack_of(CELL), changes=(), outputs={})


class World:
    """A registry, stacks and a runner that note what is done."""

    def __init__(self, home: Path, *, approvals: str = "") -> None:
        given = {"HOME": str(home), "HERMESOPS_HOME": str(home), "HERMESOPS_API_URL": "https://api.example.org/api/v1"}
        if approvals:
            given |= {
                "HERMESOPS_APPROVALS": approvals,
                "HERMESOPS_OPERATORS": "verified",
                "HERMESOPS_ALLOWED_SIGNERS": str(home / "allowed"),
            }
        self.env = Environment.load("staging", given)
        self.steps: list[str] = []
        self.ups: list[tuple[CellName, frozenset[MachineName]]] = []
        self.registry: Any = part(
            operations=part(open=self._open, record_step=self._note), cells=part(spec=lambda _: None)
        )

    def service(self) -> StackUps:
        stacks: Any = part(up=self._up)
        guards: Any = part(judge=lambda _: None)
        runner: Any = self._runner
        previews = SavedPreviews(self.env, lambda: "embedded")
        return StackUps(self.env, self.registry, stacks, guards, previews, runner, lambda _: None)

    def _open(self, kind: OperationKind, subject: str, *, intent: dict[str, object]) -> Operation:
        return Operation(OperationId("o"), kind, subject, None, intent, OperationStatus.PENDING, "", "", AT, AT)

    def _note(self, operation_id: str, step: str) -> None:
        self.steps.append(f"{operation_id}: {step}")

    async def _up(self, cell: CellName, *, named: frozenset[MachineName], **_: object) -> UpResult:
        self.ups.append((cell, named))
        return DONE

    def _runner(self, handlers: Any) -> Any:  # noqa: ANN401 - stands for Operations
        async def run(operation: Operation) -> None:
            work = handlers[operation.kind](operation, part())
            observation = await work.observe()
            await work.do(work.decide(observation), observation)

        return part(run=run)


async def test_an_up_runs_here_and_tells_what_it_did(tmp_path: Path) -> None:
    world = World(tmp_path)
    named = Overrides(frozenset({MachineName("m")}))
    assert await world.service().run(UpRequest(CELL, named=named)) is DONE
    assert world.ups == [(CELL, named.machines)]


async def test_an_up_is_left_to_the_workers_without_a_run(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert (await world.service().leave(UpRequest(CELL))).subject == "cell/cell1"
    assert (world.ups, world.steps) == ([], [f"o: {QUEUED}"])


async def test_what_goes_beyond_the_limits_needs_an_approved_preview_where_that_is_set(tmp_path: Path) -> None:
    world = World(tmp_path, approvals="required")
    with pytest.raises(RefusedError, match="needs an approved preview in staging"):
        await world.service().run(UpRequest(CELL, named=Overrides(share=1.0)))
    assert world.ups == []
    assert await world.service().run(UpRequest(CELL)) is DONE


async def test_a_saved_preview_is_of_one_cell(tmp_path: Path) -> None:
    cells: Any = [part(name=CELL), part(name=CellName("cell2"))]
    with pytest.raises(UsageError, match="for one cell"):
        await ChosenCells(part(), part(), part(), World(tmp_path).service(), 2, tuple(cells)).save_preview()


async def test_chosen_cells_are_run_and_one_that_fails_does_not_keep_others(tmp_path: Path) -> None:
    async def up(cell: CellName, **_: object) -> UpResult:
        if cell == CELL:
            raise RefusedError("full")
        return DONE

    cells = (part(name=CELL), part(name=CellName("cell2")))
    runs = await ChosenCells(part(refresh=up), part(), part(), World(tmp_path).service(), 2, cells).refresh(())
    assert [(run.cell, run.error is None) for run in runs] == [(CELL, False), ("cell2", True)]
