"""A rollout as people read it: stages with bars, who is under way and who is hurt with the reason, gates, time left."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermesops.model.rollout import RolloutTarget
    from hermesops.rollout.outlook import Outlook, StageOutlook
    from hermesops.rollout.ports import Records

_BAR = 24
_NAMED = 12
"""Targets named one by one; the rest are counted."""


def picture(records: "Records", outlook: "Outlook") -> list[str]:
    """The whole of it."""
    return [
        *_head(records, outlook),
        *(_stage_line(stage) for stage in outlook.stages),
        *_gate_lines(outlook.gates),
        *_notable(records),
    ]


def _head(records: "Records", outlook: "Outlook") -> list[str]:
    """What it is, where it stands and why."""
    row = records.rollout
    pace = f", {outlook.per_minute:g} a minute" if outlook.per_minute else ""
    left = f", some {span(outlook.left_s)} left" if outlook.left_s is not None else ""
    return [
        f"rollout {row.id} of {row.release}: {row.state.replace('_', ' ')} ({row.reason})",
        f"{outlook.touched} of {outlook.targets} touched, {outlook.reached} well, {outlook.failed} failed{pace}{left}",
    ]


def _gate_lines(gates: Mapping[str, Any]) -> list[str]:
    """What the gates said last."""
    lines = []
    for name in ("failures", "health", "probe"):
        said = gates.get(name)
        if isinstance(said, dict):
            lines.append(f"gate {name:<9} {str(said.get('result')).replace('_', ' '):<14} {said.get('why')}")
    return lines


def target_line(target: "RolloutTarget") -> str:
    """One instance with its reason."""
    why = f": {target.detail}" if target.detail else ""
    where = f"stage {target.stage + 1}, batch {target.batch + 1}"
    return f"{target.facts.user} ({where}) is {target.state.replace('_', ' ')}{why}"


def span(seconds: float) -> str:
    """A stretch of time as people say it."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"  # noqa: PLR2004 - two hours


def _stage_line(stage: "StageOutlook") -> str:
    done = round(_BAR * stage.reached / stage.targets) if stage.targets else _BAR
    states = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in stage.states.items())
    bar = "#" * done + "." * (_BAR - done)
    return (
        f"stage {stage.number} [{bar}] {stage.reached}/{stage.targets}, batch {stage.batch}/{stage.batches}: {states}"
    )


def _notable(records: "Records") -> Iterator[str]:
    notable = [one for one in records.targets if one.state.is_in_flight or one.state.has_failed or one.progress.stuck]
    yield from map(target_line, notable[:_NAMED])
    if len(notable) > _NAMED:
        yield f"and {len(notable) - _NAMED} more: hermesops rollout status {records.rollout.id} --all"
