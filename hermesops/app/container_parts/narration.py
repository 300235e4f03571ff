"""Narration and the log."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from hermesops.model.ids import CellName

if TYPE_CHECKING:
    from hermesops.infra.engine.options import Progress

Reporter = Callable[[str], None]
"""Takes a line of narration."""


class Warn(Protocol):
    """Logs a problem that does not stop the work."""

    def __call__(self, event: str, **fields: object) -> None:
        """Log it."""


def warn(event: str, **fields: object) -> None:
    """Log a warning. structlog is imported here: that takes as long as all the rest of a short command."""
    import structlog

    structlog.get_logger("hermesops").warning(event, **fields)


def report_progress(report: Reporter, cell: CellName, progress: "Progress") -> None:
    """Report which machine of a cell is changed, and problems."""
    from hermesops.agents.cells.stack.state import MACHINE_TYPE

    if progress.kind == "begun" and progress.type == MACHINE_TYPE and progress.change != "same":
        report(f"{cell}: {progress.change} {progress.name}")
    report_problem(report, cell, progress)


def report_problem(report: Reporter, cell: CellName, progress: "Progress") -> None:
    """Report problems in a run of a cell's stack, with the resource if there is one."""
    if progress.kind in {"warning", "error", "failed"}:
        report(": ".join(part for part in (cell, progress.name, progress.message or progress.change) if part))
