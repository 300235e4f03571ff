"""Lines of ``fleet status`` about freezes and backups."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hermesops.cli.views.fleet import notices
from hermesops.model.recovery.backup import Loss
from hermesops.model.rollout.records import Freeze
from hermesops.views.agents import fleet as fleet_shapes


def test_a_freeze_that_holds_is_not_forgotten() -> None:
    at = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    held = Freeze("f1", at, at + timedelta(hours=4), "JustAVPS is\ndown", "ada@example.net")
    assert notices.freeze_lines([held, replace(held, id="f2", ends_at=None)]) == [
        f"rollouts are frozen {span} by ada@example.net, “JustAVPS is down”: "
        f"hermesops rollout unfreeze {name} ends that"
        for span, name in (("until 2026-01-02 07:04 UTC", "f1"), ("without an end", "f2"))
    ]


def test_a_freeze_that_is_to_come_has_its_begin() -> None:
    at = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    freeze = Freeze("f1", at, at + timedelta(hours=4), "a feast", "ada@example.net")
    assert notices.freeze_span(freeze, at) == "until 2026-01-02 07:04 UTC"
    before = at - timedelta(hours=1)
    assert notices.freeze_span(freeze, before) == "from 2026-01-02 03:04 UTC until 2026-01-02 07:04 UTC"
    assert notices.freeze_span(replace(freeze, ends_at=None), before) == "from 2026-01-02 03:04 UTC without an end"


def test_what_would_be_lost_with_all_machines() -> None:
    well = Loss(agents=40, oldest_s=80_000, late=0, never=1, objective_s=86_400)
    assert fleet_shapes.loss(well) == {
        "agents": 40,
        "oldest_s": 80_000,
        "late": 0,
        "never": 1,
        "objective_s": 86_400,
    }
    assert notices.loss_lines(well) == [
        "backups: the oldest unsaved change is 22 h 13 min old; 1 of 40 agents has no backup yet"
    ]
    late = notices.loss_lines(replace(well, oldest_s=90_000, late=3, never=0))
    assert late == [
        "backups: the oldest unsaved change is 1 d 1 h old",
        (
            "backups: 3 of 40 agents have no backup of the last 24 h: hermesops backup list names them, "
            "hermesops runbook run backups-are-late leads to their backups"
        ),
    ]
    assert notices.loss_lines(Loss(0, 0, 0, 0, 86_400)) == []
