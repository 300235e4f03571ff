"""Shapes of what is told of rollouts; the rules of ``test_render`` hold here too."""

from datetime import UTC, datetime, time, timedelta

from hermesops.model.fleet.instance import InstancePolicy, QuietHours
from hermesops.model.rollout.records import Freeze
from hermesops.views.agents import rollouts as rollout_shapes

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_a_freeze() -> None:
    freeze = Freeze("beef", AT, AT + HOUR, "quarter end", "ada@desk")
    assert rollout_shapes.freeze(freeze, AT) == {
        "id": "beef",
        "state": "holds",
        "begins_at": "2026-01-02T03:04:05+00:00",
        "ends_at": "2026-01-02T04:04:05+00:00",
        "lifted_at": None,
        "reason": "quarter end",
        "who": "ada@desk",
    }
    states = [rollout_shapes.freeze(freeze, when)["state"] for when in (AT - HOUR, AT, AT + HOUR)]
    assert states == ["to come", "holds", "past"]


def test_a_policy() -> None:
    assert rollout_shapes.policy(InstancePolicy()) == {
        "turn": "as it comes",
        "opted_in": False,
        "protected": False,
        "quiet_hours": None,
        "timezone": None,
    }
    quiet = QuietHours(time(22), time(7, 30), "Asia/Tokyo")
    assert rollout_shapes.policy(InstancePolicy(opted_in=True, quiet=quiet)) == {
        "turn": "first",
        "opted_in": True,
        "protected": False,
        "quiet_hours": "22:00-07:30",
        "timezone": "Asia/Tokyo",
    }
