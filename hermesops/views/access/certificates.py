"""Shapes of certificates: of machines, and of services that call the relay."""

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from hermesops.access.pki.callers import Admitted
    from hermesops.agents.instances.credentials.certificates import Holder
    from hermesops.model.access.certificate import Caller, Certificate
    from hermesops.platform.parts.tls import HostFiles
    from hermesops.wire.protocol import Credential


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


def held(holder: "Holder", issued: "Certificate", now: datetime) -> dict[str, object]:
    """A machine's certificate with its user and its name; ``now`` is the registry's time."""
    user = holder.instance.title if holder.instance else None
    return {**certificate(holder.title, issued, now), "user": user, "machine_name": holder.machine_name}


def revoked(holder: "Holder", count: int) -> dict[str, object]:
    """A machine whose certificates were revoked, and their number."""
    return {"machine": holder.title, "machine_id": holder.machine_id, "certificates": count}


def renewed(holder: "Holder", issued: "Credential") -> dict[str, object]:
    """A machine's new certificate, with the names that it is for."""
    return {
        "machine": holder.title,
        "serial": issued.serial,
        "names": list(issued.names),
        "not_after": issued.not_after,
    }


def host(issued: "HostFiles") -> dict[str, object]:
    """The certificates of a platform's host, in their folder; ``changed`` names the files that were written."""
    return {
        "folder": str(issued.folder),
        "names": list(issued.names),
        "changed": list(issued.changed),
        "not_after": issued.not_after,
    }


def admitted(service: str, issued: "Admitted", folder: "Path") -> dict[str, object]:
    """A service that may call the relay, and the folder that took its certificate."""
    return {
        "service": service,
        "serial": issued.serial,
        "not_after": issued.not_after.isoformat(),
        "folder": str(folder),
    }
