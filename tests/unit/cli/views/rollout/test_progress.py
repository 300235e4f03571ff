"""How a rollout is shown: its shapes for programs, and its picture for people."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hermesops.agents.rollout.plan.backlog import OutdatedInstance
from hermesops.agents.rollout.plan.preview import preview
from hermesops.agents.rollout.ports import Records
from hermesops.agents.rollout.records.events import (
    BatchBegun,
    BatchEnded,
    Recorded,
    StateChanged,
    TargetOutcome,
    WaitBegun,
    instances_of,
)
from hermesops.agents.rollout.reports.durations import Durations, durations_of
from hermesops.agents.rollout.reports.explain import explain
from hermesops.agents.rollout.reports.progress import progress_of
from hermesops.agents.rollout.reports.replay import Replayed, Verdict
from hermesops.cli.views.rollout import preview as preview_view
from hermesops.cli.views.rollout import progress, status
from hermesops.model.fleet.slot import RollbackResult
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import GateResult, Progress, RolloutId, RolloutState, TargetState
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import Action, Spec
from hermesops.views.agents import rollout_previews as preview_shapes
from hermesops.views.agents import rollouts as rollout_shapes
from tests.support.rollouts.rows import AT, NEW, OLD, ROLLOUT, target_of

ADA, BOB, EVE = (InstanceId(f"0000000{number}-0000-0000-0000-000000000000") for number in range(3))
LATER = AT + timedelta(minutes=2)
GATES = {
    "failures": {"result": "inconclusive", "why": "1 of 2 failed"},
    "health": {"result": "not_exercised", "why": "no figures of memory yet"},
    "probe": {"result": "pass", "why": "1 of 1 agent answered a turn since the change"},
}
WELL = replace(
    target_of(ADA),
    state=TargetState.SOAKING,
    touched_at=AT,
    updated_at=AT,
    progress=Progress(confirmed_at=AT, on_release=True),
)
FAILED = replace(target_of(BOB, 1), state=TargetState.FAILED, touched_at=AT, updated_at=AT, detail="checks: turn: 500")
WAITING = target_of(EVE, 2, stage=1)
ENDED = Recorded(AT, BatchEnded((TargetOutcome(BOB, 0, 0, TargetState.FAILED, "checks: turn: 500"),)), id=3)
BEGUN = Recorded(AT, BatchBegun("stage 1", (ADA, BOB)), GATES, id=2)
ABORTING = StateChanged(RolloutState.RUNNING, RolloutState.ABORTING, "enough", "ada@desk", "abort")
RECORDS = Records(replace(ROLLOUT, state=RolloutState.RUNNING), (WELL, FAILED, WAITING), (BEGUN,))


def test_a_rollout() -> None:
    assert rollout_shapes.rollout(RECORDS.rollout) == {
        "id": "r1",
        "release": NEW,
        "action": "slot",
        "state": "running",
        "reason": "newer is better",
        "who": "tester",
        "created_at": "2026-01-01T12:00:00+00:00",
        "updated_at": "2026-01-01T12:00:00+00:00",
    }


def test_a_target() -> None:
    assert rollout_shapes.target(FAILED) == {
        "user": "ada",
        "instance_id": BOB,
        "stage": 1,
        "batch": 1,
        "state": "failed",
        "detail": "checks: turn: 500",
        "release_before": OLD,
        "on_release": False,
        "settings_lost": [],
        "touched_at": "2026-01-01T12:00:00+00:00",
        "updated_at": "2026-01-01T12:00:00+00:00",
    }


def test_how_far_it_has_come() -> None:
    assert rollout_shapes.rollout_progress(progress_of(RECORDS, LATER)) == {
        "targets": 3,
        "touched": 2,
        "reached": 1,
        "failed": 1,
        "per_minute": 1.0,
        "waits_for": None,
        "left_s": 10 + 480 + 600,  # a batch that took no time, and settles; the rest of one soak, and another
        "stages": [
            {"stage": 1, "targets": 2, "reached": 1, "batch": 1, "batches": 1, "states": {"soaking": 1, "failed": 1}},
            {"stage": 2, "targets": 1, "reached": 0, "batch": 0, "batches": 1, "states": {"waiting": 1}},
        ],
        "gates": GATES,
        "figures": {"changed": 2, "well": 1, "failed": 1, "stops_at": 2, "soaked_s": 120, "soak_s": 600.0},
    }


def test_the_time_left_is_the_pace_of_the_batches_that_ended() -> None:
    confirmed = Progress(confirmed_at=AT + timedelta(seconds=40), on_release=True)
    first = replace(WELL, state=TargetState.HEALTHY, progress=confirmed)
    more = [replace(target_of(InstanceId(f"{number}"), number, stage=1), batch=number) for number in range(1, 4)]
    records = replace(RECORDS, targets=(first, *more))
    assert progress_of(records, LATER).left_s == 3 * (40 + 10) + 600
    changing = replace(more[0], state=TargetState.ACTIVATING, touched_at=LATER)
    assert progress_of(replace(records, targets=(first, changing, *more[1:])), LATER).left_s == 3 * (40 + 10) + 600


def test_the_time_left_is_unknown_before_a_batch_has_ended_and_while_a_person_is_waited_for() -> None:
    before = Records(RECORDS.rollout, (WAITING,))
    assert (progress_of(before, LATER).left_s, progress_of(before, LATER).per_minute) == (None, 0.0)
    assert progress.picture(before, progress_of(before, LATER))[1] == "0 of 1 healthy"
    paused = replace(RECORDS, rollout=replace(ROLLOUT, state=RolloutState.PAUSED))
    assert "left" not in progress.picture(paused, progress_of(paused, LATER))[2]


def test_no_time_is_left_after_the_end() -> None:
    halted = replace(RECORDS, rollout=replace(ROLLOUT, state=RolloutState.HALTED))
    assert progress_of(halted, LATER).left_s is None
    assert "left" not in progress.picture(halted, progress_of(halted, LATER))[2]


def test_the_picture_names_stages_gates_and_those_that_are_hurt() -> None:
    assert progress.picture(RECORDS, progress_of(RECORDS, LATER)) == [
        f"rollout r1 of {NEW}: running, begun by tester 2 min ago: newer is better",
        "0 of 3 healthy, 1 soaking, 1 failed; 1 per minute; about 18 min left",
        "stage 1 [============xxxxxxxxxxxx] 1/2: 1 soaking, 1 failed",
        "stage 2 [........................] 0/1: 1 waiting",
        "gates: health 1 of 2 ok · failures 1 of 2, stops at 2 · soak 2 of 10 min",
        "gate failures  inconclusive   1 of 2 failed",
        "gate health    not exercised  no figures of memory yet",
        "gate probe     pass           1 of 1 agent answered a turn since the change",
        "ada (stage 1, batch 1): failed: checks: turn: 500",
    ]


def test_what_it_waits_for_is_told_while_it_waits() -> None:
    waits = Recorded(LATER, WaitBegun("held by 1 open alert: FleetGap"), id=BEGUN.id + 1)
    records = replace(RECORDS, latest=(BEGUN, waits))
    assert progress.picture(records, progress_of(records, LATER))[1] == (
        "waits: held by 1 open alert: FleetGap; hermesops alert list has the next step of each alert; "
        "hermesops rollout resume r1 "
        "--despite-alerts WHY continues despite them"
    )
    settles = replace(records, latest=(BEGUN, replace(waits, event=WaitBegun("it settles"))))
    assert progress.picture(settles, progress_of(settles, LATER))[1] == "waits: it settles"
    over = replace(records, latest=(replace(BEGUN, id=waits.id + 1), waits))
    halted = replace(records, rollout=replace(ROLLOUT, state=RolloutState.HALTED))
    assert [progress_of(each, LATER).waits_for for each in (over, halted)] == ["", ""]


def test_a_detail_from_a_machine_moves_no_cursor_and_begins_no_line() -> None:
    hostile = replace(FAILED, detail="[bold]\x1b[2J\x1b]0;title\x07\nerror: all is lost")
    records = replace(RECORDS, targets=(WELL, hostile))
    line = progress.picture(records, progress_of(records, LATER))[-1]
    assert line == "ada (stage 1, batch 1): failed: [bold]\\x1b[2J\\x1b]0;title\\x07 error: all is lost"


def test_many_that_are_hurt_are_counted() -> None:
    many = replace(RECORDS, targets=tuple(replace(FAILED, position=number) for number in range(20)))
    assert progress.picture(many, progress_of(many, LATER))[-1] == "and 8 more: hermesops rollout status r1 --all"


def test_an_event_and_what_people_read_of_it() -> None:
    assert rollout_shapes.event(BEGUN) == {
        "id": 2,
        "at": "2026-01-01T12:00:00+00:00",
        "kind": "deploy_targets",
        "why": "stage 1",
        "decision": {"why": "stage 1", "targets": [ADA, BOB]},
        "evidence": GATES,
    }
    assert instances_of(BEGUN.event) == {ADA, BOB}
    assert instances_of(ENDED.event) == {BOB}
    lines = status.explain_lines(explain(ENDED), {BOB: "bob"})
    assert lines[0].startswith("2026-01-01 12:00:00  batch ended: 1 failed")
    assert lines[1:] == ["    bob: failed, checks: turn: 500"]


def test_a_change_of_state() -> None:
    assert rollout_shapes.change(AT, ABORTING) == {
        "at": "2026-01-01T12:00:00+00:00",
        "what": "abort",
        "from": "running",
        "to": "aborting",
        "who": "ada@desk",
        "why": "enough",
    }


def test_who_is_owed_a_release() -> None:
    outdated = OutdatedInstance(ADA, "ada", NEW, RolloutId("r1"), Action.SLOT, "unreachable", AT)
    assert rollout_shapes.outdated(outdated) == {
        "user": "ada",
        "instance_id": ADA,
        "release": NEW,
        "rollout": "r1",
        "why": "unreachable",
        "since": "2026-01-01T12:00:00+00:00",
    }


def test_a_way_back() -> None:
    kept = "/var/lib/hermes/kept/1"
    done = RollbackResult(
        OLD, NEW, 2.34, migrated=3, listed=1, kept=kept, settings_migrated=2, settings_lost=("theme",)
    )
    assert rollout_shapes.rollback_result("ada", done, machine="m") == {
        "user": "ada",
        "machine": "m",
        "release": OLD,
        "before": NEW,
        "changed": True,
        "gap_s": 2.34,
        "migrated": 3,
        "listed": 1,
        "kept": "/var/lib/hermes/kept/1",
        "settings_migrated": 2,
        "settings_lost": ["theme"],
    }
    assert status.rollback_line("ada", done) == (
        f"ada is back on {OLD}; its gateway was down for 2.3 s; migrated 3 rows written since; "
        f"1 row written since could not be migrated: see {kept}; 2 settings changed since stay in force; "
        "not in force, as they are the newer release's alone: theme"
    )
    there = RollbackResult(ReleaseId("x"), ReleaseId("x"), gap_s=0, migrated=0, listed=0, kept="")
    assert status.rollback_line("ada", there) == "ada already runs x"


def test_a_preview_says_what_it_knows() -> None:
    targets = [target_of(InstanceId(f"{number:08}-0000-0000-0000-000000000000")).facts for number in range(40)]
    ahead = preview(NEW, targets, Spec())
    shown = preview_shapes.preview(ahead)
    assert {name: shown[name] for name in ("release", "targets", "at_once", "worst_hurt", "seen_machines")} == {
        "release": NEW,
        "targets": 40,
        "at_once": 4,
        "worst_hurt": ahead.worst_failed,
        "seen_machines": 22,
    }
    lines = preview_view.preview_lines(ahead, "frozen by ada: fair", "held by 1 open alert: FleetGap")
    assert lines[1] == "not now: frozen by ada: fair"
    assert lines[2] == "not now: held by 1 open alert: FleetGap; hermesops alert list has the next step of each alert"
    assert f"worst case: a release that breaks every agent fails on {ahead.worst_failed} agents" in lines


def test_a_replay() -> None:
    verdict = Verdict(datetime(2026, 1, 1, tzinfo=UTC), 1, 2, 1, GateResult.FAIL, "1 of 2")
    replayed = Replayed((verdict,), halted=True, touched=2, failed=1, recorded_touched=9, recorded_failed=3)
    assert preview_shapes.replayed(replayed)["verdicts"] == [
        {
            "at": "2026-01-01T00:00:00+00:00",
            "stage": 1,
            "touched": 2,
            "failed": 1,
            "result": "fail",
            "why": "1 of 2",
        }
    ]
    assert preview_view.replayed_line(replayed).startswith("these gates would have halted it: 2 changed")


def test_the_state_has_its_author_age_and_reason() -> None:
    def words(state: RolloutState, who: str = "root@vm") -> str:
        before = RolloutState.RUNNING
        changed = Recorded(AT, StateChanged(before, state, "look", who), id=9)
        row = replace(ROLLOUT, state=state, who=who, reason="look", updated_at=LATER)
        records = replace(RECORDS, rollout=row, latest=(BEGUN, changed))
        return progress.picture(records, progress_of(records, AT + timedelta(minutes=4)))[0].partition(": ")[2]

    assert words(RolloutState.PAUSED) == "paused by root@vm 4 min ago: look"
    assert words(RolloutState.HALTED, "hermesops") == "halted 4 min ago: look"
    assert words(RolloutState.ROLLING_BACK) == "rolling back by root@vm 4 min ago: look"
    assert status.row(replace(ROLLOUT, updated_at=AT), AT + timedelta(minutes=4))["since"] == "4 min ago"


def test_a_bar_shows_each_state_by_its_share() -> None:
    def bar(**counts: int) -> str:
        states = [state for name, count in counts.items() for state in [TargetState(name)] * count]
        targets = tuple(replace(target_of(InstanceId(f"i{at}"), at), state=state) for at, state in enumerate(states))
        shown = progress_of(replace(RECORDS, targets=targets), LATER)
        return progress.picture(RECORDS, shown)[2][8:].partition("]")[0] + "]"

    assert bar(healthy=3, soaking=1, activating=1, failed=1) == "[############====>>>>xxxx]"
    assert bar(waiting=1, deferred=1) == "[........................]"
    assert bar(healthy=1, waiting=199) == "[........................]"
    assert bar(rolled_back=1, kept=1) == "[xxxxxxxxxxxxxxxxxxxxxxxx]"


def test_durations_before_are_those_of_rollouts_that_are_done() -> None:
    long = replace(ROLLOUT, updated_at=AT + timedelta(minutes=14))
    confirmed = replace(WELL, progress=Progress(confirmed_at=AT + timedelta(seconds=20), on_release=True))
    assert durations_of([(long, (confirmed, FAILED)), (ROLLOUT, (WELL,))]) == Durations(10.0, 840.0)
    assert durations_of([]) == Durations()


def test_a_picture_is_wrapped_to_a_terminal() -> None:
    lines = progress.picture(RECORDS, progress_of(RECORDS, LATER), width=60)
    assert all(len(line) <= 60 for line in lines)


def test_a_rollout_that_waits_for_an_operator_names_the_next_command() -> None:
    def line(state: RolloutState, reason: str) -> str:
        records = replace(RECORDS, rollout=replace(ROLLOUT, state=state, reason=reason))
        return progress.picture(records, progress_of(records, LATER))[1]

    assert line(RolloutState.PAUSED, "look") == "next: hermesops rollout resume r1 continues it"
    approval = "stage 2 needs a second operator's approval: blast radius 18 (limit 8)"
    assert line(RolloutState.PAUSED, approval) == "next: hermesops rollout approve r1 --stage 2 by another operator"
    halted = "next: hermesops rollout explain r1, then hermesops rollout retry r1, promote or abort"
    assert line(RolloutState.HALTED, "2 of 2 failed") == halted
    assert not line(RolloutState.RUNNING, "look").startswith("next")
