"""Actions of the fleet's upkeep: a warm pool is drained, a job is run, a fault is drilled."""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from hermesops.agents.drill.service import Stage
from hermesops.base import assets
from hermesops.console.actions.action import About, Action, ActionRequest, Begun, Preview
from hermesops.console.actions.operations import begun as operation_begun
from hermesops.console.actions.operations import find_opened
from hermesops.console.actions.runbooks import Run, begun_run
from hermesops.errors import HermesError, Hint
from hermesops.model.access.console_operator import Role
from hermesops.model.operation import OperationKind
from hermesops.observability.runbook.document import load
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.views.agents import cells as cell_shapes
from hermesops.views.automation import jobs as job_shapes
from hermesops.views.observability import drills as drill_shapes

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from concurrent.futures import Future

    from hermesops.agents.drill.service import DrillResult
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.observability.runbook.fault import Fault

T = TypeVar("T")


@dataclass(frozen=True)
class DrainWork:
    """The destruction of the machines of a cell's warm pool."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The machines of the pool, and its cost before and after."""
        preview = await container.pool_previews.drain([request.subject.name])
        return Preview("pool", cell_shapes.drain_preview(preview))

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Mark them for deletion, and open the operation that destroys them."""
        cell = (await in_db_thread(connected.container.cells.view, request.subject.name)).cell.name
        return operation_begun(connected, await connected.pools.drain(cell, reason=request.reason))

    async def find_begun(self, connected: "Connected", request: ActionRequest) -> Begun | None:
        """The operation that was opened for the same reason."""
        return await find_opened(connected, request, OperationKind.POOL_FILL)


@dataclass(frozen=True)
class JobWork:
    """One run of a job, whenever it ran last."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The job's pending work, the things that it would destroy, and the cost of pools before and after."""
        async with container.connect() as connected:
            return Preview("job", job_shapes.preview(await connected.jobs.preview(request.subject.name)))

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Open the operation that runs it and brings the operations that it opens to their end."""
        run = partial(connected.jobs.open_run, request.subject.name, reason=request.reason)
        return operation_begun(connected, await in_db_thread(run))

    async def find_begun(self, connected: "Connected", request: ActionRequest) -> Begun | None:
        """The operation that was opened for the same reason."""
        return await find_opened(connected, request, OperationKind.JOB_RUN)


@dataclass(frozen=True)
class DrillWork:
    """A drill of a fault: a machine of a warm pool is broken, its runbook run, and the machine destroyed."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The fault and its last drill; refused where it cannot be brought about here."""
        fault = container.runbook_drills.choose(request.subject.name)
        last = await in_db_thread(container.runbook_drills.last, fault)
        return Preview("drill", drill_shapes.drill(fault, last))

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Begin it; its page shows each step."""
        container = connected.container
        fault = container.runbook_drills.choose(request.subject.name)
        runbook = load(assets.folder("runbooks"), fault.runbook)
        run = Run(runbook.title, runbook)
        return begun_run(run, partial(_drill, container, run, fault))


async def _drill(container: "Container", run: Run, fault: "Fault") -> None:
    """Carry a drill out in a thread, whose coroutines run here; a console that ends interrupts its step."""
    loop, parts = asyncio.get_running_loop(), list["Future[Any]"]()

    def run_here(part: "Coroutine[Any, Any, T]") -> T:
        future = asyncio.run_coroutine_threadsafe(part, loop)
        parts.append(future)
        return future.result()

    stage = Stage(run_here, run.report, run.show)
    try:
        result = await asyncio.to_thread(_result_of, container, fault, stage)
    except asyncio.CancelledError:
        for part in parts:
            part.cancel()
        raise
    shape = (
        {"problem": result.message, "hint": result.hint} if isinstance(result, HermesError) else _shape(fault, result)
    )
    run.result = {"hint": Hint(), "steps": [], "diagnosis": [], **shape}


def _result_of(container: "Container", fault: "Fault", stage: Stage) -> "DrillResult | HermesError":
    try:
        return container.runbook_drills.run(fault, stage)
    except HermesError as error:
        return error


def _shape(fault: "Fault", result: "DrillResult") -> dict[str, object]:
    return {**drill_shapes.run(fault, result), "hint": result.failure.hint if result.failure else Hint()}


ACTIONS = (
    Action(
        About.CELL,
        "drain-pool",
        "Drain the warm pool",
        ("pool", "drain", "--yes"),
        DrainWork(),
        destroys=True,
        role=Role.ADMIN,
    ),
    # Some jobs destroy: each of them has its name typed, and the preview says what goes.
    Action(About.JOB, "run", "Run the job now", ("job", "run", "--yes"), JobWork(), destroys=True, role=Role.ADMIN),
    Action(
        About.DRILL,
        "run",
        "Run the drill",
        ("drill", "run", "--yes"),
        DrillWork(),
        takes_reason=False,
        destroys=True,
        left_because="it runs a runbook in one process for minutes, and a drill that is cut short is begun anew",
    ),
)
