"""Shapes of instances, operations, stacks, secrets and certificates."""

from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.errors import Hint

if TYPE_CHECKING:
    from hermesops.access.secrets.store import SecretState
    from hermesops.agents.cells.cost.bill import Bill
    from hermesops.agents.instances.observation import Observation
    from hermesops.agents.instances.requests.bulk import ProvisionResult
    from hermesops.agents.instances.suspension import Suspension
    from hermesops.model.certificate import Caller, Certificate
    from hermesops.model.check import Check
    from hermesops.model.health import Judgement
    from hermesops.model.instance import Instance
    from hermesops.model.operation import Operation
    from hermesops.model.stack import Change, StateVersion


def timestamp(when: datetime | None) -> str | None:
    """ISO 8601 in UTC, to the second."""
    return when.isoformat(timespec="seconds") if when else None


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
    """Whether its termination is scheduled."""
    return row.status.value == "suspended" and row.grace_until is not None


def suspension(row: "Instance", found: "Suspension | None") -> dict[str, object]:
    """Since when and why an agent is suspended, and what ends that; empty for one that is not."""
    if row.status.value != "suspended":
        return {}
    undo = (
        ("instance", "terminate", row.title, "--undo")
        if row.grace_until
        else ("instance", "resume", row.title, "--reason", "WHY")
    )
    return {
        "suspended_at": timestamp(found.since) if found else None,
        "suspended_reason": found.reason if found else None,
        "undo": Hint(undo),
    }


def provision_result(one: "ProvisionResult", row: "Instance | None") -> dict[str, object]:
    """What became of one of many requests; without a row where none was written."""
    failure = one.failure
    return {
        "line": one.request.line,
        "user": one.request.user,
        "plan": one.request.plan.value,
        "instance_id": row.id if row else None,
        "status": row.status.value if row else None,
        "cell": row.cell if row else None,
        "machine_name": row.machine_name if row else None,
        "operation_id": one.operation.id if one.operation else None,
        "outcome": failure.message if failure else one.outcome,
        "exit_code": failure.exit_code if failure else 0,
    }


def observation(seen: "Observation", health: "Judgement | None") -> dict[str, object]:
    """An instance with what the vendor, its machine and its gateway say; ``None`` where it should not run."""
    return {
        **instance(seen.instance),
        "machine_status": seen.machine.status.value if seen.machine else None,
        "release": seen.node.release if seen.node else None,
        "gateway": seen.gateway.value if seen.gateway else None,
        "health": health.condition.value if health else None,
        "reasons": list(health.reasons) if health else [],
    }


def route(name: str) -> dict[str, object]:
    """Who answers an agent of which that model is set; empty for the default.

    The provider is ``None`` of a model that the platform's router does not have.
    """
    from hermesops.model.route import ROUTES

    found = next((one for one in ROUTES if one.name == (name or ROUTES[0].name)), None)
    return {
        "model": found.name if found else name,
        "is_default": not name,
        "provider": found.provider if found else None,
        "provider_model": found.provider_model if found else None,
    }


def operation(row: "Operation") -> dict[str, object]:
    """An operation."""
    return {
        "id": row.id,
        "kind": row.kind.value,
        "subject": row.subject,
        "status": row.status.value,
        "step": row.step,
        "outcome": row.outcome,
        "created_at": timestamp(row.created_at),
        "updated_at": timestamp(row.updated_at),
    }


def check(made: "Check") -> dict[str, object]:
    """A check; what to do about it only where something is to be done."""
    hint = made.hint if made.verdict.value != "ok" else ""
    return {"check": made.name, "verdict": made.verdict.value, "seen": made.seen, "hint": hint or None}


def held_secret(one: "SecretState", now: datetime) -> dict[str, object]:
    """A secret without its value."""
    return {
        "name": one.needed.name,
        "home": one.where,
        "is_there": one.is_there,
        "changed_at": timestamp(one.changed_at),
        "age": f"{(now - one.changed_at).days} d" if one.changed_at else None,
        "setting": one.needed.setting,
        "purpose": one.needed.purpose,
    }


def change(one: "Change") -> dict[str, object]:
    """A change of one resource."""
    return {
        "kind": one.kind.value,
        "type": one.type,
        "name": one.name,
        "id": one.id or None,
        "urn": one.urn,
        "properties": list(one.properties),
    }


def state_version(copy: "StateVersion") -> dict[str, object]:
    """A copy of a stack's state."""
    return {
        "version": copy.version,
        "at": timestamp(copy.at),
        "what": copy.what or None,
        "resources": copy.resources,
        "damaged": copy.resources is None,
        "current": copy.current,
        "note": "damaged" if copy.resources is None else "as now" if copy.current else None,
    }


def bill(one: "Bill") -> dict[str, object]:
    """What some machines cost."""
    return {"monthly": f"{one.monthly:.2f}", "machines": one.machines, "unpriced": sorted(set(one.unpriced))}


def certificate(title: str, one: "Certificate", now: datetime) -> dict[str, object]:
    """The certificate of the machine of that title; ``now`` is the registry's time."""
    return {
        "machine": title,
        "machine_id": one.machine_id,
        "instance_id": one.instance_id,
        "cell": one.cell,
        **_validity(one, now),
    }


def caller(one: "Caller", now: datetime) -> dict[str, object]:
    """A certificate of a service that may call the relay; ``now`` is the registry's time."""
    return {"service": one.name, **_validity(one, now)}


def _validity(one: "Caller | Certificate", now: datetime) -> dict[str, object]:
    return {
        "state": "revoked" if one.revoked_at else "expired" if one.not_after <= now else "good",
        "issued_at": one.issued_at.isoformat(),
        "not_after": one.not_after.isoformat(),
        "revoked_at": one.revoked_at.isoformat() if one.revoked_at else None,
        "why": one.why,
        "serial": one.serial,
    }
