"""Shapes of certificates: of machines, and of services that call the relay."""

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermesops.model.access.certificate import Caller, Certificate


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
