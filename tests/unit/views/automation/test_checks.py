"""Shapes of checks, of one machine and of several."""

import pytest

from hermesops.agents.instances.remote.several import Outcome
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.machines.verify.verification import Verification
from hermesops.model.check import Check, Verdict
from hermesops.views.automation import checks as check_shapes
from tests.support.fakes.instances import ADA


def verified(*verdicts: Verdict) -> Outcome[Verification]:
    checks = tuple(Check(f"check-{number}", verdict, "seen", Hint()) for number, verdict in enumerate(verdicts))
    return Outcome(ADA, Verification(checks, (), 1))


CASES: list[tuple[Outcome[Verification], str, int]] = [
    (verified(Verdict.OK, Verdict.WARNING), "ok", 0),
    (verified(Verdict.OK, Verdict.FAILED, Verdict.UNKNOWN), "failed", 3),
    (verified(Verdict.UNKNOWN), "unknown", 4),
    (Outcome(ADA, RefusedError("suspended")), "unknown", 3),
    (Outcome(ADA, UnavailableError("no answer")), "unknown", 4),
]


@pytest.mark.parametrize(("outcome", "verdict", "code"), CASES)
def test_a_machine_that_was_not_checked_is_unknown(outcome: Outcome[Verification], verdict: str, code: int) -> None:
    assert (check_shapes.verdict(outcome), check_shapes.exit_code(outcome)) == (verdict, code)


def test_a_row_names_the_first_checks_that_do_not_hold() -> None:
    row = check_shapes.verification(verified(Verdict.OK, *[Verdict.FAILED] * 5))
    assert (row["ok"], row["failed"]) == ("1 of 6", "check-1, check-2, check-3 +2")
    assert str(row["hint"]) == "hermesops instance verify ada --failed"
    assert check_shapes.verification(verified(Verdict.OK))["hint"] is None
    assert check_shapes.verification(CASES[-1][0])["failed"] == "no answer"


def test_a_check_hints_only_where_something_is_to_be_done() -> None:
    assert check_shapes.check(Check("disk", Verdict.OK, "fine", Hint("buy more"))) == {
        "check": "disk",
        "verdict": "ok",
        "seen": "fine",
        "hint": None,
    }
    assert check_shapes.check(Check("disk", Verdict.FAILED, "full", Hint("buy more")))["hint"] == Hint("buy more")
