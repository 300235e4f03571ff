"""A rollout in lines: stages with bars, gates with their figures, rate and time left, and who failed and why.

Details come from machines: control characters in them are made visible, so that no terminal obeys them.
"""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from hermesops.cli.console import advice
from hermesops.wire.foreign_text import unbroken

if TYPE_CHECKING:
    from hermesops.agents.rollout.ports import Records
    from hermesops.agents.rollout.reports.progress import RolloutProgress, StageProgress
    from hermesops.model.rollout import RolloutTarget, TargetState

_BAR = 24
_NAMED = 12
"""Targets named one by one; the rest are counted."""

_INDENT = "    "


def picture(records: "Records", rollout_progress: "RolloutProgress") -> list[str]:
    """A rollout in lines: state, stages, gates, and the targets to look at."""
    return [unbroken(line) for line in [*_summary(records, rollout_progress), *_notable(records, _NAMED)]]


def screen(
    records: "Records", rollout_progress: "RolloutProgress", narration: Sequence[str], *, width: int, height: int
) -> list[str]:
    """The picture in ``height`` rows of a terminal at most, with the last lines of narration (oldest first) below.

    Gates are wrapped to ``width`` columns, so that no figure is cut; the caller cuts what is still too wide.
    """
    above = [row for line in _summary(records, rollout_progress) for row in _wrapped(unbroken(line), width)]
    below = ["", *map(unbroken, narration)] if narration else []
    room = height - len(above) - len(below)
    most = min(_NAMED, room - 1)
    notable = [unbroken(line) for line in _notable(records, most)] if most > 0 else []
    return [*above, *notable, *below][-height:]


def target_line(target: "RolloutTarget") -> str:
    """One instance with its reason."""
    why = f": {target.detail}" if target.detail else ""
    where = f"stage {target.stage + 1}, batch {target.batch + 1}"
    return unbroken(f"{target.facts.user} ({where}): {target.state.replace('_', ' ')}{why}")


def span(seconds: float) -> str:
    """A stretch of time as people say it."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"  # noqa: PLR2004 - two hours


def _summary(records: "Records", rollout_progress: "RolloutProgress") -> list[str]:
    return [
        *_head(records, rollout_progress),
        *_stage_lines(rollout_progress),
        *_gate_lines(rollout_progress.gates),
    ]


def _head(records: "Records", rollout_progress: "RolloutProgress") -> list[str]:
    from hermesops.model.rollout import TargetState

    row = records.rollout
    healthy, soaking = _count(rollout_progress, TargetState.HEALTHY), _count(rollout_progress, TargetState.SOAKING)
    parts = [f"{healthy} of {rollout_progress.targets} healthy, {soaking} soaking, {rollout_progress.failed} failed"]
    if rollout_progress.per_minute:
        parts.append(f"{rollout_progress.per_minute:g} per minute")
    if rollout_progress.left_s is not None:
        parts.append(f"about {span(rollout_progress.left_s)} left")
    elif row.state.has_runner:
        parts.append("time left unknown")
    waits = [_wait_line(row.id, rollout_progress.waits_for)] if rollout_progress.waits_for else []
    words = f"rollout {row.id} of {row.release}: {row.state.replace('_', ' ')} ({row.reason})"
    return [words, *waits, "; ".join(parts)]


def _wait_line(rollout_id: str, why: str) -> str:
    from hermesops.agents.rollout.plan.open_alerts import HELD, UNKNOWN

    if not why.startswith((HELD, UNKNOWN)):
        return f"waits: {why}"
    resume = ("rollout", "resume", rollout_id, "--despite-alerts", "WHY")
    return advice(f"waits: {why};", ("alert", "list"), "says what is next;", resume, "goes on all the same")


def _count(rollout_progress: "RolloutProgress", state: "TargetState") -> int:
    return sum(stage.states.get(state, 0) for stage in rollout_progress.stages)


def _gate_lines(gates: Mapping[str, Any]) -> list[str]:
    lines = []
    for name in ("answers", "failures", "health", "probe"):
        said = gates.get(name)
        if isinstance(said, dict):
            lines.append(f"gate {name:<9} {str(said.get('result')).replace('_', ' '):<14} {said.get('why')}")
    return lines


def _stage_lines(rollout_progress: "RolloutProgress") -> list[str]:
    """All stages, also those without a target of their own: stages before them reach their share of few targets."""
    of_number = {stage.number: stage for stage in rollout_progress.stages}
    numbers = range(1, max(of_number, default=0) + 1)
    return [
        _stage_line(of_number[one]) if one in of_number else f"stage {one} has no instances of its own"
        for one in numbers
    ]


def _stage_line(stage: "StageProgress") -> str:
    done = round(_BAR * stage.reached / stage.targets) if stage.targets else _BAR
    states = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in stage.states.items())
    bar = "#" * done + "." * (_BAR - done)
    return (
        f"stage {stage.number} [{bar}] {stage.reached}/{stage.targets}, batch {stage.batch}/{stage.batches}: {states}"
    )


def _notable(records: "Records", most: int) -> list[str]:
    notable = [
        one
        for one in records.targets
        if one.state.is_in_flight or one.state.has_failed or one.state.value == "unreachable" or one.progress.stuck
    ]
    lines = [target_line(one) for one in notable[:most]]
    if len(notable) > most:
        lines.append(advice(f"and {len(notable) - most} more:", ("rollout", "status", records.rollout.id, "--all")))
    return lines


def _wrapped(line: str, width: int) -> list[str]:
    return wrap(line, width, subsequent_indent=_INDENT, break_on_hyphens=False) or [""]
