"""Shapes of what machines prove themselves with, for programs and for people."""

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermesops.model.certificate import Certificate


def certificate(title: str, one: "Certificate", now: datetime) -> dict[str, object]:
    """A certificate.

    Args:
        title: Whose machine it is of.
        one: It.
        now: By the registry's clock.
    """
    state = "revoked" if one.revoked_at else "expired" if one.not_after <= now else "good"
    return {
        "machine": title,
        "machine_id": one.machine_id,
        "instance_id": one.instance_id,
        "cell": one.cell,
        "state": state,
        "issued_at": one.issued_at.isoformat(),
        "not_after": one.not_after.isoformat(),
        "revoked_at": one.revoked_at.isoformat() if one.revoked_at else None,
        "why": one.why,
        "serial": one.serial,
    }
