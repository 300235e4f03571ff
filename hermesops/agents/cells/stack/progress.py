"""Narration of a run of a cell's stack."""

from hermesops.agents.cells.stack.state import MACHINE_TYPE
from hermesops.base.narration import Reporter
from hermesops.infra.engine.options import Progress
from hermesops.model.ids import CellName


def report_progress(report: Reporter, cell: CellName, progress: Progress) -> None:
    """Report which machine of a cell is changed, and problems."""
    if progress.kind == "begun" and progress.type == MACHINE_TYPE and progress.change != "same":
        report(f"{cell}: {progress.change} {progress.name}")
    report_problem(report, cell, progress)


def report_problem(report: Reporter, cell: CellName, progress: Progress) -> None:
    """Report problems in a run of a cell's stack, with the resource if there is one."""
    if progress.kind in {"warning", "error", "failed"}:
        report(": ".join(part for part in (cell, progress.name, progress.message or progress.change) if part))
