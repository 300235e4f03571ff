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
    from hermesops.model.access.certificate import Caller, Certificate
    from hermesops.model.check import Check
    from hermesops.model.fleet.health import Judgement
    from hermesops.model.fleet.instance import Instance
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


def route(name: str) -> dict[str, object]:
    """The provider that answers an agent with this model; empty for the default.

    The provider is ``None`` of a model that the platform's router does not have.
    """
    from hermesops.model.billing.route import ROUTES

    known = next((candidate for candidate in ROUTES if candidate.name == (name or ROUTES[0].name)), None)
    return {
        "model": known.name if known else name,
        "is_default": not name,
        "provider": known.provider if known else None,
        "provider_model": known.provider_model if known else None,
    }


def operation(row: "Operation") -> dict[str, object]:
    """The JSON object of an operation: kind, subject, status, step and times."""
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


def check(verified: "Check") -> dict[str, object]:
    """A check; with a hint only where something is to be done."""
    hint = verified.hint if verified.verdict.value != "ok" else ""
    return {"check": verified.name, "verdict": verified.verdict.value, "seen": verified.seen, "hint": hint or None}


def held_secret(state: "SecretState", now: datetime) -> dict[str, object]:
    """The JSON object of a secret: its home, age and purpose, never its value."""
    return {
        "name": state.needed.name,
        "home": state.where,
        "is_there": state.is_there,
        "changed_at": timestamp(state.changed_at),
        "age": f"{(now - state.changed_at).days} d" if state.changed_at else None,
        "setting": state.needed.setting,
        "purpose": state.needed.purpose,
    }


def change(resource: "Change") -> dict[str, object]:
    """The JSON object of a change of one resource of a stack."""
    return {
        "kind": resource.kind.value,
        "type": resource.type,
        "name": resource.name,
        "id": resource.id or None,
        "urn": resource.urn,
        "properties": list(resource.properties),
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


def bill(costs: "Bill") -> dict[str, object]:
    """The monthly cost of some machines."""
    return {"monthly": f"{costs.monthly:.2f}", "machines": costs.machines, "unpriced": sorted(set(costs.unpriced))}


def certificate(title: str, issued: "Certificate", now: datetime) -> dict[str, object]:
    """The certificate of the machine of that title; ``now`` is the registry's time."""
    return {
        "machine": title,
        "machine_id": issued.machine_id,
        "instance_id": issued.instance_id,
        "cell": issued.cell,
        **_validity(issued, now),
    }


def caller(issued: "Caller", now: datetime) -> dict[str, object]:
    """A certificate of a service that may call the relay; ``now`` is the registry's time."""
    return {"service": issued.name, **_validity(issued, now)}


def _validity(issued: "Caller | Certificate", now: datetime) -> dict[str, object]:
    return {
        "state": "revoked" if issued.revoked_at else "expired" if issued.not_after <= now else "good",
        "issued_at": issued.issued_at.isoformat(),
        "not_after": issued.not_after.isoformat(),
        "revoked_at": issued.revoked_at.isoformat() if issued.revoked_at else None,
        "why": issued.why,
        "serial": issued.serial,
    }
