"""Which agents are asked for their losses before a rollout, and what comes of an answer."""

from dataclasses import replace

from hermesops.agents.rollout.plan.losses import losses_of, older_for
from hermesops.errors import UnavailableError
from hermesops.model.fleet.slot import RollbackResult
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.release import ReleaseId
from tests.support.rollouts.rows import NEW, OLD, target_of
from tests.support.suite.cases import each_case

ADA = target_of(InstanceId("ada")).facts
UNKNOWN = replace(ADA, release_before="")


@each_case(
    ("schemas", "schema", "older"),
    [
        ({OLD: 50}, 33, True),
        ({OLD: 33}, 33, False),
        ({OLD: 33}, 50, False),
        ({OLD: 50}, 0, False),
        ({OLD: 0}, 33, True),
    ],
)
def test_a_release_is_older_by_the_schema_that_it_writes(schemas: dict[str, int], schema: int, older: bool) -> None:  # noqa: FBT001 - a case
    assert older_for([ADA], schemas, schema) == ((ADA,) if older else ())


def test_an_agent_of_an_unknown_release_is_asked() -> None:
    assert older_for([ADA, UNKNOWN], {OLD: 33}, 33) == (UNKNOWN,)
    assert older_for([ADA], {NEW: 33}, 33) == (ADA,), "the store has lost its release"


def test_an_agent_that_cannot_be_asked_has_a_problem_and_the_others_their_losses() -> None:
    answer = RollbackResult(ReleaseId("whatever"), OLD, 0, 0, 0, "", settings_lost=("model",))
    known, unknown = losses_of(ADA, NEW, answer), losses_of(ADA, NEW, UnavailableError("no answer"))
    assert (known.user, known.release, known.settings_lost, known.problem) == (ADA.user, NEW, ("model",), "")
    assert (unknown.release, unknown.settings_lost, unknown.problem) == (NEW, (), "no answer")
