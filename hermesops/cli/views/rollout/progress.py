"""A rollout in lines: stages with bars, gates with their figures, pace and time left, and failed agents with reasons.

Details come from machines: control characters in them are made visible, so that no terminal obeys them.
"""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from hermesops.cli.console import advice
from hermesops.wire.foreign_text import unbroken

if TYPE_CHECKING:
    from datetime import datetime

    from hermesops.agents.rollout.ports import Records
    from hermesops.agents.rollout.reports.durations import Durations
    from hermesops.agents.rollout.reports.progress import GateFigures, RolloutProgress, StageProgress
    from hermesops.model.rollout.records import Rollout, RolloutTarget, TargetState

_BAR = 24
_SIGNS = {"healthy": "#", "soaking": "=", "fetching": ">", "activating": ">", "unconfirmed": ">", "waiting": "."}
_LOST = "x"
"""Sign of the bar for any other state but ``deferred``, which is waiting."""

_NAMED = 12
"""Targets named one by one; the rest are counted."""

_INDENT = "    "
_LONG_S = 10.0
"""Seconds after which a step says for how long it has gone on, and how long it took before."""


def picture(
    records: "Records",
    rollout_progress: "RolloutProgress",
    usual: "Durations | None" = None,
    *,
    width: int | None = None,
) -> list[str]:
    """A rollout in lines: state, stages, gates, and the targets to look at.

    Args:
        usual: Durations of earlier rollouts.
        width: Columns to wrap to; ``None`` for none.
    """
    lines = [*_summary(records, rollout_progress, usual), *_notable(records, rollout_progress.now, usual, _NAMED)]
    return [row for line in lines for row in (_wrapped(unbroken(line), width) if width else [unbroken(line)])]


def screen(
    records: "Records",
    rollout_progress: "RolloutProgress",
    narration: Sequence[str],
    usual: "Durations | None" = None,
    *,
    width: int,
    height: int,
) -> list[str]:
    """The picture in ``height`` rows of a terminal at most, with the last lines of narration (oldest first) below.

    Gates are wrapped to ``width`` columns, so that no figure is cut; the caller cuts what is still too wide.
    """
    summary = _summary(records, rollout_progress, usual)
    above = [row for line in summary for row in _wrapped(unbroken(line), width)]
    below = ["", *map(unbroken, narration)] if narration else []
    room = height - len(above) - len(below)
    most = min(_NAMED, room - 1)
    notable = [unbroken(line) for line in _notable(records, rollout_progress.now, usual, most)] if most > 0 else []
    return [*above, *notable, *below][-height:]


def target_line(target: "RolloutTarget", now: "datetime | None" = None, usual: "Durations | None" = None) -> str:
    """One instance with its reason; one that is changing also with its time so far, and the usual one."""
    why = f": {target.detail}" if target.detail else ""
    where = f"stage {target.stage + 1}, batch {target.batch + 1}"
    words = f"{target.facts.user} ({where}): {target.state.replace('_', ' ')}{why}"
    if now and target.touched_at and target.state.is_in_flight:
        words += _so_far((now - target.touched_at).total_seconds(), usual.change_s if usual else None)
    return unbroken(words)


def span(seconds: float) -> str:
    """A stretch of time as people say it."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"  # noqa: PLR2004 - two hours


def _so_far(seconds: float, usual_s: float | None) -> str:
    """For how long a step has gone on, once that is long."""
    if seconds < _LONG_S:
        return ""
    before = f" (before: {span(usual_s)})" if usual_s else ""
    return f" for {span(seconds)}{before}"


def _summary(records: "Records", rollout_progress: "RolloutProgress", usual: "Durations | None") -> list[str]:
    return [
        *_head(records, rollout_progress, usual),
        *_stage_lines(rollout_progress),
        *_figure_lines(rollout_progress.figures),
        *_gate_lines(rollout_progress.gates),
    ]


def _head(records: "Records", rollout_progress: "RolloutProgress", usual: "Durations | None") -> list[str]:
    from hermesops.model.rollout.records import TargetState

    row = records.rollout
    healthy, soaking = _count(rollout_progress, TargetState.HEALTHY), _count(rollout_progress, TargetState.SOAKING)
    counts = {"soaking": soaking, "failed": rollout_progress.failed}
    shown = (f", {count} {state}" for state, count in counts.items() if count)
    parts = [f"{healthy} of {rollout_progress.targets} healthy{''.join(shown)}"]
    if rollout_progress.per_minute and row.state.has_runner:
        parts.append(f"{rollout_progress.per_minute:g} per minute")
    if rollout_progress.left_s is not None:
        parts.append(f"about {span(rollout_progress.left_s)} left")
    if row.state.has_runner and usual and usual.rollout_s:
        parts.append(f"the last rollout took {span(usual.rollout_s)}")
    waits = [_wait_line(row.id, rollout_progress.waits_for)] if rollout_progress.waits_for else []
    state = f"rollout {row.id} of {row.release}: {state_words(records, rollout_progress)}"
    return [state, *_next_lines(records.rollout, rollout_progress), *waits, "; ".join(parts)]


def state_words(records: "Records", rollout_progress: "RolloutProgress") -> str:
    """The state of a rollout with its author, age and reason: ``paused by root@vm 4 min ago: look``."""
    state, since = records.rollout.state, rollout_progress.state_since
    ago = f"{span(max(0.0, (rollout_progress.now - since.at).total_seconds()))} ago: {since.why}"
    name = state.replace("_", " ")
    if state.value in {"pending", "running"}:
        return f"{name}, begun by {since.who} {ago}"
    return f"{name} {ago}" if state.value in {"halted", "done"} else f"{name} by {since.who} {ago}"


def _next_lines(rollout: "Rollout", rollout_progress: "RolloutProgress") -> list[str]:
    """The next command of a rollout that an operator has to continue."""
    if rollout.state.value == "halted":
        retry = ("rollout", "retry", rollout.id)
        return [advice("next:", ("rollout", "explain", rollout.id), ", then", retry, ", promote or abort")]
    if rollout.state.value != "paused":
        return []
    from hermesops.agents.rollout.steps.stage_entry import NEEDS_APPROVAL

    if NEEDS_APPROVAL in rollout.reason:
        stage = next((stage.number for stage in rollout_progress.stages if not stage.batch), 1)
        return [advice("next:", ("rollout", "approve", rollout.id, "--stage", str(stage)), "by another operator")]
    return [advice("next:", ("rollout", "resume", rollout.id), "continues it")]


def _wait_line(rollout_id: str, why: str) -> str:
    from hermesops.agents.rollout.plan.open_alerts import HELD, UNKNOWN

    if not why.startswith((HELD, UNKNOWN)):
        return f"waits: {why}"
    resume = ("rollout", "resume", rollout_id, "--despite-alerts", "WHY")
    return advice(
        f"waits: {why};", ("alert", "list"), "has the next step of each alert;", resume, "continues despite them"
    )


def _count(rollout_progress: "RolloutProgress", state: "TargetState") -> int:
    return sum(stage.states.get(state, 0) for stage in rollout_progress.stages)


def _figure_lines(figures: "GateFigures") -> list[str]:
    """The gates in one line, each figure with its threshold."""
    if not figures.changed:
        return [f"gates: failures 0 of 0, stops at {figures.stops_at}"]
    parts = [
        f"health {figures.well} of {figures.changed} ok",
        f"failures {figures.failed} of {figures.changed}, stops at {figures.stops_at}",
    ]
    if figures.soak_s:
        parts.append(f"soak {_of_span(figures.soaked_s, figures.soak_s)}")
    return [f"gates: {' · '.join(parts)}"]


def _of_span(done_s: float, whole_s: float) -> str:
    """``3 of 10 min``, ``4 of 30 s``."""
    if whole_s < 120:  # noqa: PLR2004 - two minutes
        return f"{done_s:.0f} of {whole_s:g} s"
    return f"{done_s // 60:.0f} of {whole_s / 60:g} min"


def _gate_lines(gates: Mapping[str, Any]) -> list[str]:
    lines = []
    for name in ("answers", "failures", "health", "probe", "messages"):
        verdict = gates.get(name)
        if isinstance(verdict, dict):
            result = str(verdict.get("result")).replace("_", " ")
            lines.append(f"gate {name:<9} {result:<14} {verdict.get('why')}")
    return lines


def _stage_lines(rollout_progress: "RolloutProgress") -> list[str]:
    """All stages, also those without a target of their own: stages before them reach their share of few targets."""
    of_number = {stage.number: stage for stage in rollout_progress.stages}
    numbers = range(1, max(of_number, default=0) + 1)
    return [
        _stage_line(of_number[number]) if number in of_number else f"stage {number} has no instances of its own"
        for number in numbers
    ]


def _stage_line(stage: "StageProgress") -> str:
    states = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in stage.states.items())
    batch = f", batch {stage.batch} of {stage.batches}" if stage.batches > 1 and stage.batch else ""
    return f"stage {stage.number} [{_bar(stage)}] {stage.reached}/{stage.targets}{batch}: {states}"


def _bar(stage: "StageProgress") -> str:
    """The shares of a stage: healthy, soaking, changing, lost, waiting, a sign each."""
    counts: dict[str, int] = {}
    for state, count in stage.states.items():
        sign = "." if state.value == "deferred" else _SIGNS.get(state.value, _LOST)
        counts[sign] = counts.get(sign, 0) + count
    bar, done = "", 0
    for sign in ("#", "=", ">", _LOST, "."):
        done += counts.get(sign, 0)
        bar += sign * (round(_BAR * done / max(1, stage.targets)) - len(bar))
    return bar.ljust(_BAR, ".")


def _notable(records: "Records", now: "datetime", usual: "Durations | None", most: int) -> list[str]:
    notable = [
        target
        for target in records.targets
        if target.state.is_in_flight
        or target.state.has_failed
        or target.state.value == "unreachable"
        or target.progress.stuck
    ]
    lines = [target_line(target, now, usual) for target in notable[:most]]
    if len(notable) > most:
        lines.append(advice(f"and {len(notable) - most} more:", ("rollout", "status", records.rollout.id, "--all")))
    return lines


def _wrapped(line: str, width: int) -> list[str]:
    return wrap(line, width, subsequent_indent=_INDENT, break_on_hyphens=False) or [""]
