"""Runs the same work for several cells at once, each with a result of its own."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from hermesops.errors import (
    BrokenInvariantError,
    HaltedError,
    HermesError,
    PartlyDoneError,
    RefusedError,
    UnavailableError,
    UnknownOutcomeError,
    UsageError,
)
from hermesops.model.ids import CellName
from hermesops.model.stack import Change

_CLASSES = (
    UsageError,
    RefusedError,
    UnavailableError,
    UnknownOutcomeError,
    PartlyDoneError,
    HaltedError,
    BrokenInvariantError,
)

LONGEST_S = 2 * 3600.0
"""Seconds after which a cell's run is abandoned; making its machines takes minutes."""


@dataclass(frozen=True)
class CellRun:
    """The result of one cell.

    Attributes:
        changes: Changes made or previewed; empty where it failed.
        operation_id: The operation that was left to a worker; empty where it was done here.
    """

    cell: CellName
    changes: tuple[Change, ...] = ()
    error: HermesError | None = None
    operation_id: str = ""


async def run_cells(
    cells: Sequence[CellName],
    work: Callable[[CellName], Awaitable[CellRun]],
    *,
    parallel: int,
    longest_s: float = LONGEST_S,
) -> tuple[CellRun, ...]:
    """Do the work for each cell; one that fails does not hold up the others.

    Returns:
        A result for every cell, in their order.
    """
    slots = asyncio.Semaphore(parallel)

    async def run_cell(cell: CellName) -> CellRun:
        async with slots:
            try:
                async with asyncio.timeout(longest_s) as limit:
                    return await work(cell)
            except HermesError as error:
                return CellRun(cell, error=error)
            except TimeoutError:
                if not limit.expired():
                    raise
            why = UnavailableError(
                f"not finished within {longest_s:g} s", hint="run the same command again to continue"
            )
            return CellRun(cell, error=why)

    return tuple(await asyncio.gather(*(run_cell(cell) for cell in cells)))


def failure_of(runs: Sequence[CellRun]) -> HermesError | None:
    """One error that names every cell that failed; ``None`` when none did.

    A single cell's error stays as it is. Where all failed alike, the error has their class; else it says partly done.
    """
    failed = [(run.cell, run.error) for run in runs if run.error]
    if not failed:
        return None
    (_, first), *_ = failed
    if len(runs) == 1:
        return first
    words = "; ".join(f"{cell}: {error.message}" for cell, error in failed)
    kind = _class_of(first)
    if len(failed) == len(runs) and all(_class_of(error) is kind for _, error in failed):
        return kind(f"all {len(runs)} cells failed: {words}", hint=first.hint)
    return PartlyDoneError(
        f"{len(failed)} of {len(runs)} cells failed: {words}",
        hint=f"run the same command for these to continue: {' '.join(cell for cell, _ in failed)}",
    )


def _class_of(error: HermesError) -> type[HermesError]:
    return next((kind for kind in _CLASSES if isinstance(error, kind)), HermesError)
