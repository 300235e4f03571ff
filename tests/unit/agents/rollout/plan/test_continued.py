"""A repeated request says which rollout it goes on with, and which of its options do not count."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hermesops.agents.rollout.plan.requests import RolloutRequest, continued
from hermesops.model.rollout.records import Rollout, RolloutId, RolloutState
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import Action, DrillPolicy, Gates, Spec

AT = datetime(2026, 1, 2, 4, 30, tzinfo=UTC)
USUAL = Spec()
REQUEST = RolloutRequest("0.19.0", "", all_running=True, spec=USUAL, action=Action.SLOT, reason="parallel")


def told(spec: Spec, request: RolloutRequest = REQUEST) -> str:
    begun = Rollout(
        RolloutId("c6ad29"), ReleaseId("r"), request.action, spec, RolloutState.RUNNING, "first", "hermesops", AT, AT
    )
    return continued(replace(begun, updated_at=AT + timedelta(hours=1)), "root@vm", request)


def test_a_repeated_request_names_the_options_with_which_the_rollout_goes_on() -> None:
    same = "continues rollout c6ad29, started by root@vm at 2026-01-02 04:30 UTC"
    cases = {
        "": USUAL,
        "soak 10s": replace(USUAL, soak_s=10.0),
        "attempt within 150s": replace(USUAL, attempt_s=150.0),
        "stages 12.5%,100%, max unavailable 50%": replace(USUAL, stages=(0.125, 1.0), max_unavailable=0.5),
        "windows 'Mon-Fri 09:00-17:00 UTC'": replace(USUAL, windows=("Mon-Fri 09:00-17:00 UTC",)),
        "its own gates": replace(USUAL, gates=Gates(manual_before=(2,))),
        "drill no": replace(USUAL, drill=DrillPolicy.NO),
    }
    for options, spec in cases.items():
        expected = f"{same} with {options}; the values of this request are ignored" if options else same
        assert told(spec) == expected, options
    # Without a warm pool the same request was written with a rehearsal where possible.
    assert told(replace(USUAL, drill=DrillPolicy.IF_POSSIBLE)) == same
    emergency = replace(REQUEST, spec=replace(USUAL, emergency="now"))
    assert "emergency none" in told(USUAL, emergency)
