from hermesops.agents.cells.stack.progress import UpNarration, report_problem, report_progress
from hermesops.infra.engine.options import Progress
from hermesops.model.ids import CellName
from tests.support.suite.cases import each_case

CELL = CellName("cell1")
MACHINE = "justavps:index:Machine"


@each_case(
    ("progress", "reports"),
    [
        (Progress("warning", message="removed the lock of process 7"), ["cell1: removed the lock of process 7"]),
        (Progress("error", name="m", message="no capacity"), ["cell1: m: no capacity"]),
        (Progress("failed", "create", MACHINE, "m"), ["cell1: m: create"]),
        (Progress("info", name="m", message="waits"), []),
        (Progress("begun", "create", MACHINE, "m"), []),
    ],
)
def test_a_problem_is_told_with_what_it_is_about(progress: Progress, reports: list[str]) -> None:
    lines: list[str] = []
    report_problem(lines.append, CELL, progress)
    assert lines == reports


def test_progress_names_the_machines_that_change() -> None:
    reports: list[str] = []
    for change, kind in (("create", MACHINE), ("same", MACHINE), ("create", "hermesops:fleet:Cell")):
        report_progress(reports.append, CELL, Progress("begun", change, kind, "m"))
    assert reports == ["cell1: create m"]


def test_a_run_says_how_many_of_its_changes_are_done() -> None:
    lines: list[str] = []
    narration = UpNarration(lines.append, CELL, 2)
    for event in (
        Progress("begun", "create", MACHINE, "m"),
        Progress("done", "same", MACHINE, "other"),
        Progress("done", "create", MACHINE, "m"),
        Progress("failed", "create", MACHINE, "n"),
    ):
        narration(event)
    narration.end()
    assert lines == [
        "stack of cell1: 0 of 2 changes, 0 s so far: create m",
        "stack of cell1: 1 of 2 changes, 0 s so far: create m is done",
        "cell1: n: create",
        "stack of cell1: 1 changes in 0 s",
    ]
    UpNarration(lines.append, CELL, 0).end()
    assert len(lines) == 4, "a run without changes says nothing"
