"""Rows of rollouts, and results of rollbacks and decisions in words."""

from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.base.narration import counted
from hermesops.cli.views.rollout.progress import span
from hermesops.views.agents import rollouts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hermesops.agents.rollout.operators.service import Preview
    from hermesops.agents.rollout.plan.losses import AgentLosses
    from hermesops.agents.rollout.reports.explain import Explained
    from hermesops.model.fleet.slot import RollbackResult
    from hermesops.model.ids import InstanceId
    from hermesops.model.rollout.records import Rollout

_NAMED = 20
"""First agents whose losses are named before a rollback."""


def row(record: "Rollout", now: datetime) -> dict[str, object]:
    """A rollout as a row of a list: also how long ago it came into its state."""
    return {**rollouts.rollout(record), "since": f"{span(max(0.0, (now - record.updated_at).total_seconds()))} ago"}


def rollback_line(user: str, done: "RollbackResult") -> str:
    """The result of a rollback in one line."""
    if done.release == done.before:
        return f"{user} already runs {done.release}"
    words = f"{user} is back on {done.release}; its gateway was down for {done.gap_s:.1f} s"
    if done.migrated:
        words += f"; migrated {counted(done.migrated, 'row')} written since"
    if done.listed:
        words += f"; {counted(done.listed, 'row')} written since could not be migrated: see {done.kept}"
    if done.settings_migrated:
        words += f"; {counted(done.settings_migrated, 'setting')} changed since stay in force"
    if done.settings_lost:
        words += f"; not in force, as they are the newer release's alone: {', '.join(done.settings_lost)}"
    return words


def losses(previews: "Sequence[AgentLosses]") -> list[str]:
    """The losses by a change of release in a line for each of the first agents that have some; none for none.

    Agents whose losses are unknown are named likewise.
    """
    lines = [f"{preview.user}: {words}" for preview in previews if (words := _loss(preview))]
    more = len(lines) - _NAMED
    return [*lines[:_NAMED], *([f"{counted(more, 'agent')} more: --dry-run names all"] if more > 0 else [])]


def _loss(preview: "AgentLosses") -> str:
    result = preview.result
    if result is None:
        return f"its losses are unknown: {preview.problem}"
    settings = f"settings not in force afterwards: {', '.join(result.settings_lost)}" if result.settings_lost else ""
    rows = f"{counted(result.listed, 'row')} that do not fit the older databases" if result.listed else ""
    return "; ".join(filter(None, (settings, rows)))


def command_lines(preview: "Preview") -> list[str]:
    """A command to a rollout that was not given: the states before and after, and the agents that it changes."""
    before, after = preview.before.state.replace("_", " "), preview.after.state.replace("_", " ")
    users = [target.facts.user for target in preview.targets]
    named = f"; tried again: {', '.join(users[:_NAMED])}" if users else ""
    more = f" and {len(users) - _NAMED} more" if len(users) > _NAMED else ""
    return [f"rollout {preview.before.id}: {before} → {after}{named}{more}", "dry run: nothing was changed"]


def explain_lines(decision: "Explained", titles: "Mapping[InstanceId, str]") -> list[str]:
    """Render a decision of a rollout: its time, kind, reason and figures."""
    lines = [f"{decision.at:%Y-%m-%d %H:%M:%S}  {decision.what}{f': {decision.why}' if decision.why else ''}"]
    for line in decision.evidence:
        for instance_id, title in titles.items():
            line = line.replace(instance_id, title)  # noqa: PLW2901 - the same line, with a name in it
        lines.append(f"    {line}")
    return lines
