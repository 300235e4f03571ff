"""Every fault of the vendor's against every command of a cell's or an agent's life: the same command finishes it."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from hermesops.localcloud.faults.kinds import FaultKind
from tests.support.vendor.faulty_lives import ACTS, AGENTS_ACTS, KINDS, KINDS_OF_AGENTS, Act, Trial, tried_side_by_side

pytestmark = pytest.mark.timeout(7200)

AT_ONCE = 4


@pytest.mark.parametrize("times", [1, 3])
def test_what_fails_with_the_vendor_is_finished_without_the_fault(times: int, tmp_path: Path) -> None:
    kinds = FaultKind if times == 1 else KINDS  # what none of them meets need not be armed more often
    trials = tried_side_by_side(tmp_path, [(kind, times) for kind in kinds], at_once=AT_ONCE)
    show(trials, ACTS, times)
    assert [trial for trial in trials if trial.wrong] == []


@pytest.mark.parametrize("times", [1, 3])
def test_what_fails_in_an_agents_life_is_finished_without_the_fault(times: int, tmp_path: Path) -> None:
    trials = tried_side_by_side(tmp_path, [(kind, times) for kind in KINDS_OF_AGENTS], AGENTS_ACTS, at_once=AT_ONCE)
    show(trials, AGENTS_ACTS, times)
    assert [trial for trial in trials if trial.wrong] == []


def show(trials: Sequence[Trial], acts: Sequence[Act], times: int) -> None:
    table = Table(title=f"each fault armed {times} times: how often it struck, and what the command ended with")
    for column in ("fault", *(act.name for act in acts)):
        table.add_column(column, no_wrap=True)
    ends = {(trial.kind, trial.act): _end(trial) for trial in trials}
    for kind in [kind for kind in FaultKind if (kind, acts[0].name) in ends]:
        table.add_row(kind, *(ends[kind, act.name] for act in acts))
    console = Console(width=160)
    console.print(table)
    for output, count in Counter(trial.said for trial in trials if trial.said).items():
        console.print(f"{count} x {output}", soft_wrap=True)
    console.print(
        f"{len(trials)} commands; {sum(trial.struck > 0 for trial in trials)} struck,"
        f" {sum(trial.code != 0 for trial in trials)} of them did not do it at once,"
        f" {sum(bool(trial.wrong) for trial in trials)} wrong"
    )


def _end(trial: Trial) -> str:
    if trial.wrong:
        return "WRONG"
    if not trial.struck and not trial.code:
        return "-"
    return f"{trial.struck}: done" if trial.code == 0 else f"{trial.struck}: {trial.code}, then done"
