"""How what happens is told."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from hermesops.model.ids import CellName

if TYPE_CHECKING:
    from hermesops.engine.options import Progress

Tell = Callable[[str], None]
"""Takes a line of narration."""


class Warn(Protocol):
    """Takes what went wrong without stopping the work; for the log."""

    def __call__(self, event: str, **fields: object) -> None:
        """Log it."""


def warn(event: str, **fields: object) -> None:
    """Log it, by structlog: which takes as long to import as all the rest of a short command, so only now."""
    import structlog

    structlog.get_logger("hermesops").warning(event, **fields)


def tell_progress(tell: Tell, cell: CellName, progress: "Progress") -> None:
    """Tell which machine of a cell is changed, and what goes wrong."""
    from hermesops.cells.stack.state import MACHINE_TYPE

    if progress.kind == "begun" and progress.type == MACHINE_TYPE and progress.change != "same":
        tell(f"{cell}: {progress.change} {progress.name}")
    tell_problem(tell, cell, progress)


def tell_problem(tell: Tell, cell: CellName, progress: "Progress") -> None:
    """Tell what goes wrong in a run of a cell's stack, and about which resource where it is about one."""
    if progress.kind in {"warning", "error", "failed"}:
        tell(": ".join(part for part in (cell, progress.name, progress.message or progress.change) if part))
