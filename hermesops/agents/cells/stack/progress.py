"""Narration of a run of a cell's stack."""

from dataclasses import dataclass

from hermesops.agents.cells.stack.state import MACHINE_TYPE
from hermesops.base.narration import Reporter
from hermesops.base.progress import Durations
from hermesops.base.progress import Progress as LongStep
from hermesops.infra.engine.options import Progress
from hermesops.model.ids import CellName


def report_progress(report: Reporter, cell: CellName, progress: Progress) -> None:
    """Report which machine of a cell is changed, and problems."""
    if progress.kind == "begun" and progress.type == MACHINE_TYPE and progress.change != "same":
        report(f"{cell}: {progress.change} {progress.name}")
    report_problem(report, cell, progress)


@dataclass
class UpNarration:
    """Narrates a run of a cell's stack: how many of its changes are done, and the time left.

    Attributes:
        changes: How many there are, by the preview that was judged.
    """

    report: Reporter
    cell: CellName
    changes: int
    durations: Durations | None = None

    def __post_init__(self) -> None:
        """Count the seconds of the run from now on."""
        self._progress = LongStep(f"stack of {self.cell}", "changes", self.report, self.durations, total=self.changes)

    def __call__(self, event: Progress) -> None:
        """Narrate one event of the engine."""
        report_problem(self.report, self.cell, event)
        if event.change == "same":
            return
        if event.kind == "begun":
            self.report(self._progress.line(f"{event.change} {event.name}"))
        elif event.kind == "done":
            self._progress.step(f"{event.change} {event.name} is done")

    def end(self) -> None:
        """Report the duration, and remember it for the next run."""
        if self.changes:
            self._progress.end()


def report_problem(report: Reporter, cell: CellName, progress: Progress) -> None:
    """Report problems in a run of a cell's stack, with the resource if there is one."""
    if progress.kind in {"warning", "error", "failed"}:
        report(": ".join(part for part in (cell, progress.name, progress.message or progress.change) if part))
