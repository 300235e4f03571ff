"""Checks of several machines: one row for each."""

import pytest

from hermesops.agents.instances.remote.several import Outcome
from hermesops.cli.views.instance import verification as view
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.machines.verify.verification import Verification
from hermesops.model.check import Check, Verdict
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
    assert (view.verdict(outcome), view.exit_code(outcome)) == (verdict, code)


def test_a_row_names_the_first_checks_that_do_not_hold() -> None:
    row = view.row(verified(Verdict.OK, *[Verdict.FAILED] * 5))
    assert (row["ok"], row["failed"]) == ("1 of 6", "check-1, check-2, check-3 +2")
    assert str(row["hint"]) == "hermesops instance verify ada --failed"
    assert view.row(verified(Verdict.OK))["hint"] is None
    assert view.row(CASES[-1][0])["failed"] == "no answer"
