"""Shapes of rollouts, rollbacks, freezes and rollout policies."""

from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hermesops.agents.rollout.operators.service import Preview
    from hermesops.agents.rollout.plan.backlog import OutdatedInstance
    from hermesops.agents.rollout.plan.losses import AgentLosses
    from hermesops.agents.rollout.ports import Records
    from hermesops.agents.rollout.records.events import CommandGiven, Event, Recorded, RolloutStarted, StateChanged
    from hermesops.agents.rollout.reports.progress import RolloutProgress
    from hermesops.model.fleet.instance import InstancePolicy
    from hermesops.model.fleet.slot import RollbackResult
    from hermesops.model.rollout.records import Freeze, Rollout, RolloutTarget


def freeze(record: "Freeze", now: datetime) -> dict[str, object]:
    """A freeze, and whether it holds."""
    return {
        "id": record.id,
        "state": "holds" if record.holds_at(now) else "past" if record.is_past(now) else "to come",
        "begins_at": timestamp(record.begins_at),
        "ends_at": timestamp(record.ends_at),
        "lifted_at": timestamp(record.lifted_at),
        "reason": record.reason,
        "who": record.who,
    }


def freeze_preview(rollouts: "Iterable[Rollout]") -> dict[str, object]:
    """The rollouts that a freeze stops, or that continue after its end."""
    return {"rollouts": [rollout(row) for row in rollouts]}


def policy(chosen: "InstancePolicy") -> dict[str, object]:
    """When and how early an instance takes part in rollouts."""
    quiet = chosen.quiet
    return {
        "turn": "first" if chosen.opted_in else "last" if chosen.protected else "as it comes",
        "opted_in": chosen.opted_in,
        "protected": chosen.protected,
        "quiet_hours": f"{quiet.begin:%H:%M}-{quiet.end:%H:%M}" if quiet else None,
        "timezone": quiet.timezone if quiet else None,
    }


def rollout(row: "Rollout") -> dict[str, object]:
    """The JSON object of a rollout: release, state, reason and times."""
    return {
        "id": row.id,
        "release": row.release,
        "action": row.action.value,
        "state": row.state.value,
        "reason": row.reason,
        "who": row.who,
        "created_at": timestamp(row.created_at),
        "updated_at": timestamp(row.updated_at),
    }


def target(record: "RolloutTarget") -> dict[str, object]:
    """Where one instance stands in a rollout."""
    return {
        "user": record.facts.user,
        "instance_id": record.id,
        "stage": record.stage + 1,
        "batch": record.batch + 1,
        "state": record.state.value,
        "detail": record.detail or None,
        "release_before": record.facts.release_before or None,
        "on_release": record.progress.on_release,
        "settings_lost": list(record.progress.settings_lost),
        "touched_at": timestamp(record.touched_at),
        "updated_at": timestamp(record.updated_at),
    }


def rollout_progress(shown: "RolloutProgress") -> dict[str, object]:
    """The JSON object of a rollout's progress: counts, figures, stages and gates."""
    return {
        "targets": shown.targets,
        "touched": shown.touched,
        "reached": shown.reached,
        "failed": shown.failed,
        "per_minute": shown.per_minute,
        "left_s": shown.left_s,
        "waits_for": shown.waits_for or None,
        "figures": {
            "changed": shown.figures.changed,
            "well": shown.figures.well,
            "failed": shown.figures.failed,
            "stops_at": shown.figures.stops_at,
            "soaked_s": round(shown.figures.soaked_s),
            "soak_s": shown.figures.soak_s,
        },
        "stages": [
            {
                "stage": stage.number,
                "targets": stage.targets,
                "reached": stage.reached,
                "batch": stage.batch,
                "batches": stage.batches,
                "states": {state.value: count for state, count in stage.states.items()},
            }
            for stage in shown.stages
        ],
        "gates": dict(shown.gates),
    }


def event(recorded: "Recorded[Event]") -> dict[str, object]:
    """An event of a rollout, by its stored name and keys."""
    from hermesops.agents.rollout.records.events import to_row

    row = to_row(recorded)
    return {
        "id": row.id,
        "at": timestamp(row.at),
        "kind": row.kind,
        "why": str(row.decision.get("why") or ""),
        "decision": dict(row.decision),
        "evidence": dict(row.evidence),
    }


def outdated(instance: "OutdatedInstance") -> dict[str, object]:
    """An instance that has not got the release of the others."""
    return {
        "user": instance.user,
        "instance_id": instance.instance_id,
        "release": instance.release,
        "rollout": instance.rollout,
        "why": instance.why,
        "since": timestamp(instance.since),
    }


def rollback_result(user: str, done: "RollbackResult", *, machine: str = "") -> dict[str, object]:
    """The result of the rollback of one agent."""
    return {
        "user": user,
        "machine": machine or None,
        "release": done.release,
        "before": done.before,
        "changed": done.release != done.before,
        "gap_s": done.gap_s,
        "migrated": done.migrated,
        "listed": done.listed,
        "kept": done.kept or None,
        "settings_migrated": done.settings_migrated,
        "settings_lost": list(done.settings_lost),
    }


def losses(preview: "AgentLosses") -> dict[str, object]:
    """The losses of one agent by a change of its release; no figures where they are unknown."""
    result = preview.result
    return {
        "user": preview.user,
        "release": preview.release or None,
        "settings_lost": list(result.settings_lost) if result else None,
        "settings_migrated": result.settings_migrated if result else None,
        "rows_lost": result.listed if result else None,
        "rows_migrated": result.migrated if result else None,
        "problem": preview.problem or None,
    }


def change(at: "datetime", event: "RolloutStarted | StateChanged | CommandGiven") -> dict[str, object]:
    """A start, a change of state or a command of a rollout."""
    from hermesops.agents.rollout.records.events import CommandGiven, RolloutStarted

    match event:
        case RolloutStarted():
            what, before, after = "start", None, "pending"
        case CommandGiven(state):
            what, before, after = event.verb, state.value, state.value
        case _:
            what, before, after = event.verb or "decided", event.before.value, event.after.value
    who = event.who or "hermesops"
    return {"at": timestamp(at), "what": what, "from": before, "to": after, "who": who, "why": event.why}


def status(records: "Records", progress: "RolloutProgress") -> dict[str, object]:
    """A rollout with its progress and all its targets."""
    return {
        "rollout": rollout(records.rollout),
        "progress": rollout_progress(progress),
        "targets": [target(each) for each in records.targets],
    }


def command_preview(preview: "Preview") -> dict[str, object]:
    """A command to a rollout that was not given: its states before and after, and the agents that it changes."""
    before, after = preview.before, preview.after
    return {
        "rollout": before.id,
        "release": before.release,
        "from": before.state.value,
        "to": after.state.value,
        "stages_promoted": after.decisions.promoted,
        "users": [each.facts.user for each in preview.targets],
    }


def approved(row: "Rollout", stage: int, approver: str) -> dict[str, object]:
    """A rollout whose stages up to one were approved."""
    return {"rollout": rollout(row), "stage": stage, "approved_by": approver}
