"""Shapes of instances: rows of the registry, provisioning, observations, suspensions and models."""

from typing import TYPE_CHECKING

from hermesops.errors import Hint
from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from hermesops.agents.health.instance_list import ListedInstance
    from hermesops.agents.health.instance_waits import State, Waited
    from hermesops.agents.instances.observation import Observation
    from hermesops.agents.instances.requests.bulk import ProvisionResult
    from hermesops.agents.instances.suspension import Suspension
    from hermesops.model.fleet.health import Judgement
    from hermesops.model.fleet.instance import Instance
    from hermesops.model.providers.choice import ProviderChoice
    from hermesops.observability.telemetry.logs.instance_logs import InstanceLog


def instance(row: "Instance") -> dict[str, object]:
    """An instance, as the registry has it."""
    return {
        "user": row.title,
        "instance_id": row.id,
        "user_id": row.user_id,
        "plan": row.plan.value,
        "status": row.status.value,
        "cell": row.cell,
        "machine_name": row.machine_name,
        "machine_id": row.machine_id,
        "epoch": row.epoch,
        "created_at": timestamp(row.created_at),
        "last_heartbeat": timestamp(row.last_heartbeat),
        "ends_at": timestamp(row.grace_until),
    }


def is_ending(row: "Instance") -> bool:
    """Return whether the instance's termination is scheduled."""
    return row.status.value == "suspended" and row.grace_until is not None


def suspension(row: "Instance", record: "Suspension | None") -> dict[str, object]:
    """Begin, reason and undo of an agent's suspension; empty if it is not suspended."""
    if row.status.value != "suspended":
        return {}
    undo = (
        ("instance", "terminate", row.title, "--undo")
        if row.grace_until
        else ("instance", "resume", row.title, "--reason", "WHY")
    )
    return {
        "suspended_at": timestamp(record.since) if record else None,
        "suspended_reason": record.reason if record else None,
        "undo": Hint(undo),
    }


def provision_result(answer: "ProvisionResult", row: "Instance | None") -> dict[str, object]:
    """The result of one of many requests; without a row where none was written."""
    failure = answer.failure
    return {
        "line": answer.request.line,
        "user": answer.request.user,
        "plan": answer.request.plan.value,
        "instance_id": row.id if row else None,
        "status": row.status.value if row else None,
        "cell": row.cell if row else None,
        "machine_name": row.machine_name if row else None,
        "operation_id": answer.operation.id if answer.operation else None,
        "outcome": failure.message if failure else answer.outcome,
        "exit_code": failure.exit_code if failure else 0,
    }


def observation(observed: "Observation", health: "Judgement | None") -> dict[str, object]:
    """An instance with the states of its machine and gateway; ``None`` where it should not run."""
    return {
        **instance(observed.instance),
        "machine_status": observed.machine.status.value if observed.machine else None,
        "release": observed.node.release if observed.node else None,
        "gateway": observed.gateway.value if observed.gateway else None,
        "health": health.condition.value if health else None,
        "reasons": list(health.reasons) if health else [],
    }


def route(name: str, own: "ProviderChoice | None" = None) -> dict[str, object]:
    """The provider that answers an agent with this model; empty for the default.

    The provider is ``None`` of a model that the platform's router does not have.

    Args:
        own: The user's own provider, which answers in the place of the router.
    """
    if own:
        model = {"model": own.model, "is_default": False}
        return {**model, "provider": own.provider, "provider_model": own.model, "own_key": True}
    from hermesops.model.billing.route import ROUTES

    known = next((candidate for candidate in ROUTES if candidate.name == (name or ROUTES[0].name)), None)
    return {
        "model": known.name if known else name,
        "is_default": not name,
        "provider": known.provider if known else None,
        "provider_model": known.provider_model if known else None,
        "own_key": False,
    }


def listed(row: "ListedInstance", now: "datetime") -> dict[str, object]:
    """An instance in a list; ``null`` for a release that is not recorded, and for the health of one that stands."""
    health, release = row.health, row.release
    return {
        **instance(row.instance),
        "health": health.condition.value if health else None,
        "reasons": list(health.reasons) if health else [],
        "release": release.id if release else None,
        "release_since": timestamp(release.since) if release else None,
        "region": row.region or None,
        "age_s": age_s(row, now),
    }


def age_s(row: "ListedInstance", now: "datetime") -> int:
    """Seconds since the instance was created."""
    return max(0, round((now - row.instance.created_at).total_seconds()))


def waited(last: "Waited") -> dict[str, object]:
    """The last state of an instance that was waited for."""
    return {
        "user": last.instance.title,
        "instance_id": last.instance.id,
        "state": last.state,
        "detail": last.detail or None,
        "reached": last.is_reached,
        "waited_s": round(last.waited_s, 1),
    }


def waits(goal: "State", timeout_s: float, last: "Sequence[Waited]") -> dict[str, object]:
    """Instances that were waited for until they had a state, or the time was up."""
    return {"for": goal.value, "timeout_s": timeout_s, "instances": [waited(each) for each in last]}


def export(user: str, file: "Path", counts: "Mapping[str, int]") -> dict[str, object]:
    """An exported state: its file, and the number of entries of each kind."""
    return {"user": user, "file": str(file), "counts": counts}


def log_excerpt(user: str, excerpt: "InstanceLog") -> dict[str, object]:
    """Lines of an instance's log, and the place that they are from."""
    return {"user": user, "source": excerpt.source.value, "note": excerpt.note or None, "lines": list(excerpt.lines)}


def settings(
    user: str, masked: "Mapping[str, object]", route: "Mapping[str, object]", outcome: str
) -> dict[str, object]:
    """Settings of an agent with masked secrets; ``outcome`` is null where they were only read."""
    return {"user": user, "settings": masked, "route": route, "outcome": outcome or None}


def policy_change(user: str, policy: "Mapping[str, object]", *, dry_run: bool) -> dict[str, object]:
    """The place of an instance in rollouts, as it is now, or as a dry run would make it."""
    return {"user": user, "policy": policy, "dry_run": dry_run}
