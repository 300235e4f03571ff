"""Shapes of releases, for programs and for people."""

from typing import TYPE_CHECKING

from hermesops.cli.views import shapes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.machines.release import Kept
    from hermesops.machines.release.diff import Difference
    from hermesops.wire.documents.lock import Lock
    from hermesops.wire.documents.revocations import Revocations


def kept(one: "Kept") -> dict[str, object]:
    """A release in a list."""
    at = one.about.created_at
    return {
        "id": one.id,
        "agent": one.lock.agent_version,
        "origin": one.lock.origin,
        "pythons": sorted(one.lock.pythons),
        "state": one.revoked or "good",
        "created_at": shapes.timestamp(at) if at else None,
        "who": one.about.who,
        "note": one.about.note,
    }


def built(lock: "Lock", *, made: bool) -> dict[str, object]:
    """What a build came to."""
    blobs = lock.all_blobs()
    return {
        "id": lock.id,
        "digest": lock.digest,
        "agent": lock.agent_version,
        "made": made,
        "files": len(blobs),
        "bytes": sum(blob.size for blob in blobs),
    }


def lock(one: "Lock") -> dict[str, object]:
    """A release as it is shown; the lock itself says every hash."""
    return {
        "id": one.id,
        "digest": one.digest,
        "agent": {"version": one.agent_version, "origin": one.origin, "config_schema": one.config_schema},
        "pythons": {python: _packages(one, python) for python in sorted(one.pythons)},
        "bytes": {python: sum(blob.size for blob in one.blobs(python)) for python in sorted(one.pythons)},
        "managed": {"config": dict(one.managed.config), "environment": dict(one.managed.environment)},
        "site": [blob.name for blob in one.site],
        "unit": one.unit.sha256,
        "skills": one.skills.sha256,
        "node": {"protocol": one.node.protocol, "sha256": one.node.program.sha256},
    }


def lock_lines(one: "Lock") -> list[str]:
    """The same for a person."""
    shape = lock(one)
    lines = [f"{one.id}: hermes-agent {one.agent_version} from the {one.origin}, configuration {one.config_schema}"]
    for python in sorted(one.pythons):
        size = sum(blob.size for blob in one.blobs(python))
        lines.append(f"  Python {python}: {len(one.pythons[python].wheels)} packages, {size / 1e6:.0f} MB in all")
    return [*lines, f"  laid over the base configuration: {shape['managed']}", f"  lock: sha256 {one.digest}"]


def difference(one: "Difference") -> dict[str, object]:
    """One thing that is otherwise."""
    return {"what": one.what, "before": one.before or None, "after": one.after or None}


def difference_lines(differences: "Sequence[Difference]") -> list[str]:
    """The same for a person."""
    if not differences:
        return ["they are the same"]
    return [f"  {one.what}: {one.before or '(absent)'} -> {one.after or '(absent)'}" for one in differences]


def revocations(one: "Revocations") -> dict[str, object]:
    """What must not run any more."""
    return {"number": one.number, "floor": one.floor or None, "revoked": dict(one.revoked)}


def _packages(one: "Lock", python: str) -> dict[str, str]:
    from hermesops.machines.release.requirements import pin_of

    pins = sorted((pin_of(wheel) for wheel in one.pythons[python].wheels), key=lambda pin: pin.name)
    return {pin.name: pin.version for pin in pins}
