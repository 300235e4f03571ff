"""Shapes of releases: their contents, builds, differences and revocations, and upstream's newer tags."""

from typing import TYPE_CHECKING

from hermesops.agents.health.instance_list import UNKNOWN
from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hermesops.machines.capabilities.upstream import Newer, Upstream
    from hermesops.machines.release import Kept
    from hermesops.machines.release.diff import Difference
    from hermesops.machines.release.releases import Damage
    from hermesops.machines.release.service import BuildPreview
    from hermesops.wire.documents.lock import Lock
    from hermesops.wire.documents.revocations import Revocations


def kept(release: "Kept", users: "Sequence[str]") -> dict[str, object]:
    """The JSON object of a release in a list; ``users`` are those with a running agent of it."""
    at = release.about.created_at
    return {
        "id": release.id,
        "agent": release.lock.agent_version,
        "origin": release.lock.origin,
        "pythons": sorted(release.lock.pythons),
        "state": release.revoked or "good",
        "created_at": timestamp(at) if at else None,
        "who": release.about.who,
        "note": release.about.note,
        "agents": len(users),
    }


def elsewhere(users: "Mapping[str, Sequence[str]]", listed: "Collection[str]") -> dict[str, object]:
    """Running agents that run none of the listed releases: by a release that is not there, or an unknown one."""
    return {
        "agents_of_unknown_release": len(users.get(UNKNOWN, ())),
        "agents_of_other_releases": {
            release: len(names) for release, names in sorted(users.items()) if release not in {*listed, UNKNOWN}
        },
    }


def built(lock: "Lock", *, is_new: bool) -> dict[str, object]:
    """The JSON object of a build: the release, its size, and whether it is new."""
    blobs = lock.all_blobs()
    return {
        "id": lock.id,
        "digest": lock.digest,
        "agent": lock.agent_version,
        "made": is_new,
        "files": len(blobs),
        "bytes": sum(blob.size for blob in blobs),
    }


def lock(release: "Lock") -> dict[str, object]:
    """A release as it is shown; the lock itself says every hash."""
    return {
        "id": release.id,
        "digest": release.digest,
        "agent": {"version": release.agent_version, "origin": release.origin, "config_schema": release.config_schema},
        "pythons": {python: _packages(release, python) for python in sorted(release.pythons)},
        "bytes": {python: sum(blob.size for blob in release.blobs(python)) for python in sorted(release.pythons)},
        "managed": {"config": dict(release.managed.config), "environment": dict(release.managed.environment)},
        "site": [blob.name for blob in release.site],
        "unit": release.unit.sha256,
        "skills": release.skills.sha256,
        "interpreter": release.interpreter.version if release.interpreter else None,
        "resources": release.resources.sha256 if release.resources else None,
        "node": {"protocol": release.node.protocol, "sha256": release.node.program.sha256},
    }


def difference(change: "Difference") -> dict[str, object]:
    """The JSON object of one difference between two releases."""
    return {"what": change.what, "before": change.before or None, "after": change.after or None}


def revocations(document: "Revocations") -> dict[str, object]:
    """The JSON object of the signed list of revoked releases."""
    return {"number": document.number, "floor": document.floor or None, "revoked": dict(document.revoked)}


def upstream(comparison: "Upstream") -> dict[str, object]:
    """The JSON object of a comparison with upstream's tags."""
    return {
        "ours": comparison.ours,
        "tags": comparison.tags,
        "skipped": comparison.skipped,
        "newer": [_newer(tag) for tag in comparison.newer],
    }


def _packages(release: "Lock", python: str) -> dict[str, str]:
    from hermesops.machines.release.requirements import pin_of

    pins = sorted((pin_of(wheel) for wheel in release.pythons[python].wheels), key=lambda pin: pin.name)
    return {pin.name: pin.version for pin in pins}


def _newer(newer: "Newer") -> dict[str, object]:
    changes = [{"fact": fact.name, "before": was or None, "after": now or None} for fact, was, now in newer.changes]
    return {
        "tag": newer.tag.name,
        "version": newer.tag.version or None,
        "is_known": newer.is_known,
        "caution": newer.caution or None,
        "changes": changes,
        "commands": [list(command) for command in newer.commands],
    }


def compared(before: str, after: str, differences: "Sequence[Difference]") -> dict[str, object]:
    """Two releases, and the differences from the first to the second."""
    return {"from": before, "to": after, "differences": [difference(each) for each in differences]}


def verified(release: "Lock", damage: "Sequence[Damage]") -> dict[str, object]:
    """A release whose files were checked; ``damage`` names the missing and the changed ones."""
    damaged = [{"name": file.name, "what": file.what} for file in damage]
    return {"id": release.id, "files": len(release.all_blobs()), "damage": damaged}


def build_preview(preview: "BuildPreview") -> dict[str, object]:
    """An order for a release that was not given, and the releases that have the agent's version."""
    order = preview.order
    return {
        "agent": order.agent or None,
        "wheel": order.wheel.name if order.wheel else None,
        "source_sha256": order.archive.sha256 if order.archive else None,
        "pythons": list(order.pythons),
        "interpreter_sha256": order.interpreter.sha256 if order.interpreter else None,
        "same_agent": list(preview.same_agent),
    }


def revocation_preview(release: str, users: "Sequence[str]", revoked_because: str) -> dict[str, object]:
    """A release before its revocation: the users whose agents run it, and the reason where it is revoked already."""
    return {"id": release, "users": list(users), "revoked": revoked_because or None}


def revoked(release: str, reason: str, number: int) -> dict[str, object]:
    """A release that no machine installs any more, and the number of the list that says so."""
    return {"id": release, "reason": reason, "number": number}
