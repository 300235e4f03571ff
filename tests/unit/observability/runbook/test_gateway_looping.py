"""Which step the shipped runbook ``gateway-looping`` takes, by what its diagnosis prints."""

from dataclasses import replace

import pytest

from hermesops.base import assets
from hermesops.errors import HaltedError
from hermesops.observability.runbook.command import Ended
from hermesops.observability.runbook.document import Step, load
from hermesops.observability.runbook.run import Outcome, RunbookRun

FILLED = load(assets.folder("runbooks"), "gateway-looping").filled({"USER": "ada"})
BOOK = replace(FILLED, steps=tuple(replace(step, within_s=0) for step in FILLED.steps))
ROLLED_OUT = {"timeline": "2026-11-26T10:00:00Z  rollout_began  rollout/r1  release b"}
HEALTHY = {
    "units": "foreign-units  ok  no foreign units",
    "releases": '{"activation": null, "before": "release-a", "current": "release-b"}',
    "roll-back": "ada is back on release-a",
    "show-after": "gateway ok\nhealth healthy\nlast heartbeat  -",
}
FOREIGN = "foreign-units  warning  foreign units: tidy.service"


def run(**printed: str) -> tuple[dict[str, Outcome], str]:
    """What became of each step with ``--yes`` where steps print that, and why the run stopped."""
    outputs = {**HEALTHY, **printed}
    by_command = {step.command: outputs.get(step.name, "") for step in BOOK.steps}

    def ask(step: Step) -> bool | None:
        return True if step.kind == "change" else None

    runbook_run = RunbookRun(
        BOOK, "ada", execute=lambda words: Ended(0, by_command[words]), ask=ask, report=lambda _: None
    )
    problem = ""
    try:
        runbook_run.run()
    except HaltedError as error:
        problem = error.message
    return {step_result.step.name: step_result.outcome for step_result in runbook_run.results}, problem


def test_a_release_that_came_within_a_day_is_rolled_back() -> None:
    outcomes, problem = run(**ROLLED_OUT)
    assert not problem
    assert outcomes["roll-back"] is Outcome.DONE


def test_a_foreign_unit_is_ended_by_a_person_before_anything_is_changed() -> None:
    outcomes, problem = run(**ROLLED_OUT, units=FOREIGN)
    assert "foreign-units" in problem
    assert "tidy.service" in problem
    assert "roll-back" not in outcomes
    assert any("systemctl stop UNIT" in line for line in BOOK.by_hand)


@pytest.mark.parametrize(
    "printed",
    [
        {},
        {**ROLLED_OUT, "releases": '{"activation": null, "before": null, "current": "release-b"}'},
        {**ROLLED_OUT, "logs": "sqlite3.DatabaseError: database disk image is malformed"},
    ],
    ids=["no rollout", "no earlier release", "corrupt database"],
)
def test_where_a_rollback_ends_nothing_the_run_goes_on_without_one(printed: dict[str, str]) -> None:
    outcomes, problem = run(**printed)
    assert not problem
    assert outcomes["roll-back"] is Outcome.NOT_NEEDED
    assert outcomes["show-after"] is Outcome.DONE


def test_earlier_settings_are_offered_and_not_taken_by_yes_alone() -> None:
    outcomes, problem = run(timeline="2026-11-26T10:00:00Z  ada  settings_changed  instance/x")
    assert not problem
    assert (outcomes["roll-back"], outcomes["settings-back"]) == (Outcome.NOT_NEEDED, Outcome.LEFT_OUT)


def test_a_gateway_that_answers_between_two_restarts_is_no_end() -> None:
    _, problem = run(**{"show-after": "gateway ok\nhealth degraded\nlast heartbeat  -"})
    assert "did not print" in problem
    assert any("instance suspend ada" in line for line in BOOK.by_hand)
