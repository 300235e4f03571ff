"""Instances in a list, for programs and for people."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hermesops.agents.health.instance_list import ListedInstance
from hermesops.cli.views import instance as view
from hermesops.model.health import Condition, Judgement
from hermesops.model.instance import InstanceStatus
from hermesops.model.release import RecordedRelease, ReleaseId
from tests.support.worlds.one_user import ADA

NOW = ADA.created_at + timedelta(hours=30)
HEALTHY = Judgement(Condition.HEALTHY, ("its gateway answers",))
ROW = ListedInstance(ADA, "hel1", HEALTHY, RecordedRelease(ReleaseId("0.19.0-abc"), NOW))


def test_a_program_gets_every_field() -> None:
    shape = view.listed(ROW, NOW)
    assert {name: shape[name] for name in ("user", "health", "reasons", "release", "region", "age_s")} == {
        "user": "ada",
        "health": "healthy",
        "reasons": ["its gateway answers"],
        "release": "0.19.0-abc",
        "region": "hel1",
        "age_s": 30 * 3600,
    }
    assert {"status", "plan", "cell", "machine_name", "created_at", "last_heartbeat", "ends_at"} <= set(shape)


def test_people_read_an_age_and_that_a_release_is_unknown() -> None:
    row = view.listed_row(replace(ROW, release=None), NOW)
    assert (str(row["age"]), row["release"]) == ("1 d", "unknown")
    assert view.listed(replace(ROW, release=None), NOW)["release"] is None


def test_an_agent_that_ends_says_so() -> None:
    ending = replace(ADA, status=InstanceStatus.SUSPENDED, grace_until=datetime(2026, 12, 1, tzinfo=UTC))
    assert view.listed_row(replace(ROW, instance=ending, health=None), NOW)["status"] == "ending"
