"""JSON shapes of the certificates of machines and of the relay's callers."""

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermesops.model.certificate import Caller, Certificate


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
