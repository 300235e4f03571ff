"""Shapes of what is told of jobs and tokens; the rules of ``test_render`` hold here too."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hermesops.automation.jobs.runner import Job, Report
from hermesops.automation.jobs.service import JobState
from hermesops.cli.commands import job, token
from hermesops.model.access.token import KeptToken
from hermesops.model.ids import MachineId, MachineName
from hermesops.model.operation import JobRun
from tests.support.fakes.instances import ADA

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


async def nothing() -> Report:
    raise AssertionError


PRUNE = Job("prune", "take away", 60 * MINUTE, list, nothing, rest=timedelta(days=7))
LAST = JobRun(AT, AT + MINUTE, "2 pruned", "ada: no answer")
SHAPE = {
    "job": "prune",
    "what": "take away",
    "by_workers": True,
    "every_s": 3600,
    "due": 1,
    "due_for": ["ada"],
    "last": "2026-01-02T03:04:05+00:00",
    "ended": "2026-01-02T03:05:05+00:00",
    "done": "2 pruned",
    "problem": "ada: no answer",
    "holder": None,
    "next": "2026-01-02T03:10:05+00:00",
}


def test_a_chore_with_its_last_turn_and_its_next_one() -> None:
    resting = JobState(PRUNE, LAST, ("ada",), "", AT + 6 * MINUTE, is_late=False, is_chosen=True)
    assert job.shape(resting) == SHAPE
    late = replace(resting, is_late=True)
    assert job.shape(late)["next"] == "by any worker"
    idle = job.shape(replace(late, due=()))
    assert (idle["next"], idle["due"]) == ("when due", 0)
    left = job.shape(JobState(PRUNE, None, ("ada",), "", None, is_late=True, is_chosen=False))
    assert (left["next"], left["by_workers"], left["last"]) == ("never by itself", False, None)


def test_who_is_at_it_is_named() -> None:
    begun = JobRun(AT)
    held = job.shape(JobState(PRUNE, begun, ("ada",), "here:1", AT + MINUTE, is_late=False, is_chosen=True))
    assert (held["next"], held["holder"], held["ended"]) == ("now, by here:1", "here:1", None)


def test_a_token_as_everybody_may_see_it() -> None:
    kept = KeptToken("t-1", MachineId("m-1"), "platform", AT + 125 * MINUTE)
    names = {MachineId("m-1"): MachineName("hermes-local-cell1-1")}
    assert token.shape(ADA, kept, names, AT) == {
        "user": "ada",
        "instance_id": ADA.id,
        "machine_name": "hermes-local-cell1-1",
        "machine_id": "m-1",
        "purpose": "platform",
        "holder": "relay",
        "generation": None,
        "token_id": "t-1",
        "expires_at": "2026-01-02T05:09:05+00:00",
        "left_s": 7500,
        "left": "2 h 5 min",
    }
    assert token.shape(None, kept, {}, AT + 126 * MINUTE)["left"] == "run out"
    assert token.shape(None, kept, {}, AT)["machine_name"] == "m-1"
    for purpose, holder in (("platform former", "relay"), ("chat", "commands and workers")):
        assert token.shape(ADA, replace(kept, purpose=purpose), names, AT)["holder"] == holder


def test_tokens_are_listed_by_user_and_those_of_unassigned_machines_last() -> None:
    rows: list[dict[str, object]] = [
        {"user": user, "machine_name": machine, "purpose": purpose}
        for user, machine, purpose in ((None, "pool", "health"), ("ben", "m2", "chat"), ("ada", "m1", "platform"))
    ]
    rows.append({"user": "ada", "machine_name": "m1", "purpose": "models"})
    shown = [(row["user"], row["purpose"]) for row in sorted(rows, key=token._by_user)]
    assert shown == [("ada", "models"), ("ada", "platform"), ("ben", "chat"), (None, "health")]
