"""What an operator sees while a rollout goes on, on a terminal and elsewhere."""

import io
import sys
from dataclasses import replace
from datetime import timedelta

import pytest
from rich.console import Console
from rich.live import Live

from hermesops.agents.rollout.ports import Records
from hermesops.agents.rollout.records.events import BatchBegun, Recorded, StateChanged
from hermesops.agents.rollout.reports.durations import Durations
from hermesops.agents.rollout.steps.decide import NOTIFIES, PAUSED
from hermesops.cli import console as terminal
from hermesops.cli.views.rollout.live import LiveView, PlainView, view
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import Progress, RolloutState, RolloutTarget, TargetState
from tests.support.fakes.terminal import Terminal
from tests.support.rollouts.rows import AT, NEW, ROLLOUT, target_of

LATER = AT + timedelta(minutes=2)
BEFORE = Durations(change_s=20, rollout_s=840)
HEALTH = (
    "turn latency 1.02 times (limit 1.25); memory 1.00 times (limit 1.25); restarts +0.00 (limit 0.5); queue age +0.00"
)
GATES = {
    "failures": {"result": "inconclusive", "why": "no verdict yet: 1 of 3 failed, needs about 25 more agents"},
    "health": {"result": "pass", "why": HEALTH},
    "probe": {"result": "pass", "why": "2 of 2 agents answered a turn since the change"},
}


def target(number: int, state: TargetState, *, stage: int = 0, detail: str = "") -> RolloutTarget:
    target = target_of(InstanceId(f"i{number}"), number, stage=stage)
    touched_at = None if state is TargetState.WAITING else AT
    progress = Progress(confirmed_at=AT + timedelta(seconds=30)) if state.is_well else Progress()
    facts = replace(target.facts, user=f"user{number}")
    return replace(
        target, facts=facts, state=state, detail=detail, touched_at=touched_at, updated_at=AT, progress=progress
    )


TARGETS = (
    target(0, TargetState.HEALTHY),
    target(1, TargetState.SOAKING, stage=1),
    target(2, TargetState.FAILED, stage=1, detail="checks: [red]turn[/red]\x1b[2J: 500"),
    *(target(number, TargetState.WAITING, stage=2) for number in range(3, 12)),
)
BEGUN = Recorded(AT, BatchBegun("stage 2"), GATES, id=2)
RECORDS = Records(replace(ROLLOUT, state=RolloutState.RUNNING, reason="asked for"), TARGETS, (BEGUN,))


def with_states(*states: TargetState) -> Records:
    return replace(RECORDS, targets=tuple(target(number, state) for number, state in enumerate(states)))


def drawn(width: int, height: int, records: Records, *reports: str, color: bool = False) -> list[str]:
    """The rows that a terminal of this size shows."""
    recorder = Console(
        record=True, width=width, height=height, file=io.StringIO(), force_terminal=True, no_color=not color
    )
    with Live(console=recorder, auto_refresh=False, redirect_stderr=False, redirect_stdout=False) as live:
        live_view = LiveView(live, lambda: LATER, lambda _: BEFORE)
        for line in reports:
            live_view.report(line)
        live_view.show(records)
        renderable = live.get_renderable()
    plain = Console(record=True, width=width, height=height, file=io.StringIO())
    plain.print(renderable)
    return [row.rstrip() for row in plain.export_text().splitlines()]


def test_a_terminal_shows_stages_gates_pace_time_left_and_the_last_lines_told() -> None:
    assert drawn(100, 30, RECORDS, "first", "second", "second", "third") == [
        f"rollout r1 of {NEW}: running, begun by tester 2 min ago: asked for",
        "1 of 12 healthy, 1 soaking, 1 failed; 1.5 per minute; about 19 min left; the last rollout took 14",
        "    min",
        "stage 1 [########################] 1/1: 1 healthy",
        "stage 2 [============xxxxxxxxxxxx] 1/2: 1 soaking, 1 failed",
        "stage 3 [........................] 0/9: 9 waiting",
        "gates: health 2 of 3 ok · failures 1 of 3, stops at 2 · soak 1 of 10 min",
        "gate failures  inconclusive   no verdict yet: 1 of 3 failed, needs about 25 more agents",
        "gate health    pass           turn latency 1.02 times (limit 1.25); memory 1.00 times (limit 1.25);",
        "    restarts +0.00 (limit 0.5); queue age +0.00",
        "gate probe     pass           2 of 2 agents answered a turn since the change",
        "user2 (stage 2, batch 1): failed: checks: [red]turn[/red]\\x1b[2J: 500",
        "",
        "12:02:00 first",
        "12:02:00 second",
        "12:02:00 third",
    ]


def test_a_small_terminal_keeps_the_last_lines_told_and_counts_who_does_not_fit() -> None:
    many = replace(RECORDS, targets=(*TARGETS[:3], *(target(count, TargetState.ACTIVATING) for count in range(20))))
    rows = drawn(80, 24, many, *(f"line {number} {'x' * 90}" for number in range(9)))
    assert len(rows) == 23
    assert [row[:16] for row in rows[-5:]] == [f"12:02:00 line {number} " for number in range(4, 9)]
    assert all(len(row) <= 80 for row in rows)
    assert rows[-7].startswith("and 16 more: hermesops rollout status r1")


@pytest.mark.parametrize(("width", "height"), [(80, 5), (20, 10), (200, 60)])
def test_nothing_is_drawn_beyond_the_terminal(width: int, height: int) -> None:
    rows = drawn(width, height, RECORDS, "told last")
    assert len(rows) < height
    assert all(len(row) <= width for row in rows)
    assert rows[-1].startswith("12:02:00 told last"[:width])


def test_before_it_is_seen_only_what_was_told_is_shown() -> None:
    recorder = Console(record=True, width=80, file=io.StringIO())
    with Live(console=recorder, auto_refresh=False, redirect_stderr=False, redirect_stdout=False) as live:
        LiveView(live, lambda: LATER, lambda _: BEFORE).report("waiting for [red]the lease[/red]")
    assert "waiting for [red]the lease[/red]" in recorder.export_text()


def test_elsewhere_each_line_says_how_far_who_and_what(capsys: pytest.CaptureFixture[str]) -> None:
    plain_view, waiting = PlainView(lambda _: Durations()), TargetState.WAITING
    plain_view.show(with_states(waiting, waiting, waiting))
    plain_view.show(with_states(TargetState.FETCHING, TargetState.FETCHING, waiting))
    plain_view.show(with_states(TargetState.HEALTHY, TargetState.FAILED, waiting))
    plain_view.show(with_states(TargetState.HEALTHY, TargetState.FAILED, waiting))
    assert capsys.readouterr().err.splitlines() == [
        f"rollout r1 deploys {NEW} to 3 instances, begun by tester: “asked for”",
        "stage 1/1, batch 1/1, 0 of 3 healthy: user0, user1 are fetching",
        "stage 1/1, batch 1/1, 1 of 3 healthy, 1 failed: user0 is healthy",
        "stage 1/1, batch 1/1, 1 of 3 healthy, 1 failed: user1 failed",
    ]


def test_what_the_runner_told_is_not_told_again_when_it_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    plain_view = PlainView(lambda _: Durations())
    plain_view.show(with_states(TargetState.SOAKING))
    capsys.readouterr()
    plain_view.report("stage 1/1, batch 1/1, 0 of 1 healthy: stage 1 soaks until 12:00:00 UTC")
    plain_view.report("stage 1/1, batch 1/1, 0 of 1 healthy: stage 1 soaks until 12:00:00 UTC")
    plain_view.report("stage 1/1, batch 1/1, 1 of 1 healthy: user0 is healthy")
    plain_view.show(with_states(TargetState.HEALTHY))
    assert capsys.readouterr().err.splitlines() == [
        "stage 1/1, batch 1/1, 0 of 1 healthy: stage 1 soaks until 12:00:00 UTC",
        "stage 1/1, batch 1/1, 1 of 1 healthy: user0 is healthy",
    ]


def test_what_a_machine_says_is_text_elsewhere_too(capsys: pytest.CaptureFixture[str]) -> None:
    plain_view = PlainView(lambda _: Durations())
    plain_view.report("user2 failed: [bold]no[/bold]\x1b[31m\nerror: forged")
    assert capsys.readouterr().err == "user2 failed: [bold]no[/bold]\\x1b[31m error: forged\n"


def kind_of_view(monkeypatch: pytest.MonkeyPatch, term: str) -> tuple[type, str]:
    shown = Terminal()
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys, "stderr", shown)
    with view(lambda: LATER, lambda _: BEFORE) as live:
        live.report("a line")
    return type(live), shown.getvalue()


def test_a_terminal_gets_a_picture_and_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    kind, shown = kind_of_view(monkeypatch, "xterm-256color")
    assert kind is LiveView
    assert "a line" in shown
    assert "\x1b[3" not in shown, "no colours"


def test_a_terminal_that_cannot_be_drawn_on_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kind_of_view(monkeypatch, "dumb") == (PlainView, "a line\n")


def test_quiet_shows_nothing_even_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal._mode, "quiet", True)
    assert kind_of_view(monkeypatch, "xterm-256color") == (PlainView, "")


def test_what_a_rollout_does_is_told_with_who_said_so_and_no_word_of_its_web_hook(
    capsys: pytest.CaptureFixture[str],
) -> None:
    waiting = with_states(TargetState.WAITING)
    rollout, at = waiting.rollout, waiting.rollout.created_at
    pausing = StateChanged(RolloutState.RUNNING, RolloutState.PAUSED, "look", "root@vm", "pause")
    plain_view = PlainView(lambda _: Durations())
    plain_view.show(replace(waiting, rollout=replace(rollout, state=RolloutState.PENDING, reason="second")))
    plain_view.report(f"not started, 0 of 1 healthy: {NOTIFIES}the rollout is running")
    plain_view.report(f"not started, 0 of 1 healthy: {PAUSED}root@vm: look")
    paused = replace(rollout, state=RolloutState.PAUSED, reason="look")
    plain_view.show(replace(waiting, rollout=paused, latest=(Recorded(at, pausing, {}, 7),)))
    assert capsys.readouterr().err.splitlines() == [
        f"rollout r1 deploys {NEW} to 1 instance, begun by {rollout.who}: “second”",
        "not started, 0 of 1 healthy: the rollout is paused by root@vm: look",
    ]


def test_a_stage_without_instances_of_its_own_is_named() -> None:
    few = replace(RECORDS, targets=tuple(replace(target, stage=2 if target.stage else 0) for target in TARGETS))
    rows = drawn(100, 30, few)
    assert [row.split(" [")[0] for row in rows if row.startswith("stage")] == [
        "stage 1",
        "stage 2 has no instances of its own",
        "stage 3",
    ]


def test_a_change_that_lasts_says_for_how_long_and_how_long_it_took_before() -> None:
    changing = replace(RECORDS, targets=(target(0, TargetState.ACTIVATING), target(1, TargetState.WAITING)))
    rows = drawn(100, 30, changing)
    assert "user0 (stage 1, batch 1): activating for 2 min (before: 20 s)" in rows
    assert "stage 1 [>>>>>>>>>>>>............] 0/2: 1 waiting, 1 activating" in rows


def test_lines_elsewhere_begin_with_the_durations_of_before(capsys: pytest.CaptureFixture[str]) -> None:
    plain_view = PlainView(lambda _: BEFORE)
    plain_view.show(with_states(TargetState.WAITING))
    plain_view.report("not started, 0 of 1 healthy: the rollout is running: asked for")
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("; before, an agent took 20 s and a rollout 14 min")


def test_a_colon_of_a_line_that_is_not_the_runners_stays(capsys: pytest.CaptureFixture[str]) -> None:
    plain_view = PlainView(lambda _: BEFORE)
    plain_view.report("follows: rollout/r1 is being worked on")
    plain_view.report("waits: rollout/r1 is being worked on")
    assert len(capsys.readouterr().err.splitlines()) == 2
