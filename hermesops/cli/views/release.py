"""Shapes of releases, for programs and for people."""

import json
from typing import TYPE_CHECKING

from hermesops.agents.health.instance_list import UNKNOWN
from hermesops.base.narration import counted
from hermesops.cli.console import advice
from hermesops.views.timestamps import timestamp
from hermesops.wire.foreign_text import unbroken

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hermesops.machines.capabilities.upstream import Newer, Upstream
    from hermesops.machines.release import Kept
    from hermesops.machines.release.diff import Difference
    from hermesops.wire.documents.lock import Lock
    from hermesops.wire.documents.revocations import Revocations


_NAMED = 10
"""Users who are named in a line for people."""


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


def elsewhere_lines(counts: "Mapping[str, object]") -> list[str]:
    """Render running agents that run no listed release; empty where all run a listed one."""
    lines = []
    if isinstance(unknown := counts["agents_of_unknown_release"], int) and unknown:
        shows = ("instance", "list", "--where", f"release={UNKNOWN}")
        lines.append(advice(f"{counted(unknown, 'agent')} with an unknown release:", shows))
    if isinstance(others := counts["agents_of_other_releases"], dict):
        lines += [
            f"{counted(count, 'agent')} with {release}, which is not in the store" for release, count in others.items()
        ]
    return lines


def agents_line(users: "Sequence[str]") -> str:
    """Render the number of running agents with a release, and the first of their names."""
    more = f" +{len(users) - _NAMED}" if len(users) > _NAMED else ""
    named = f" ({', '.join(map(unbroken, users[:_NAMED]))}{more})" if users else ""
    return f"  agents that run it: {len(users)}{named}"


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


def lock_lines(release: "Lock") -> list[str]:
    """Render a release's lock as lines: versions, packages, size and digest."""
    shape = lock(release)
    agent = f"hermes-agent {release.agent_version}, origin {release.origin}"
    lines = [f"{release.id}: {agent}, configuration {release.config_schema}"]
    if release.interpreter:
        lines.append(f"  brings Python {release.interpreter.version}, {release.interpreter.archive.size / 1e6:.0f} MB")
    for python in sorted(release.pythons):
        size = sum(blob.size for blob in release.blobs(python))
        lines.append(f"  Python {python}: {len(release.pythons[python].wheels)} packages, {size / 1e6:.0f} MB in all")
    return [
        *lines,
        f"  laid over the base configuration: {json.dumps(shape['managed'])}",
        f"  lock: sha256 {release.digest}",
    ]


def difference(change: "Difference") -> dict[str, object]:
    """The JSON object of one difference between two releases."""
    return {"what": change.what, "before": change.before or None, "after": change.after or None}


def difference_lines(differences: "Sequence[Difference]") -> list[str]:
    """Render the differences between two releases, one line each."""
    if not differences:
        return ["they are the same"]
    return [f"  {change.what}: {change.before or '(absent)'} -> {change.after or '(absent)'}" for change in differences]


def revocations(document: "Revocations") -> dict[str, object]:
    """The JSON object of the signed list of revoked releases."""
    return {"number": document.number, "floor": document.floor or None, "revoked": dict(document.revoked)}


def _packages(release: "Lock", python: str) -> dict[str, str]:
    from hermesops.machines.release.requirements import pin_of

    pins = sorted((pin_of(wheel) for wheel in release.pythons[python].wheels), key=lambda pin: pin.name)
    return {pin.name: pin.version for pin in pins}


def upstream(comparison: "Upstream") -> dict[str, object]:
    """The JSON object of a comparison with upstream's tags."""
    return {
        "ours": comparison.ours,
        "tags": comparison.tags,
        "skipped": comparison.skipped,
        "newer": [_newer(tag) for tag in comparison.newer],
    }


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


def upstream_lines(comparison: "Upstream") -> list[str]:
    """Render a comparison with upstream's tags: each newer tag, then changes and commands of the newest known one."""
    if not comparison.newer:
        return [f"no tag is newer than hermes-agent {comparison.ours} ({counted(comparison.tags, 'tag')} compared)"]
    lines = [f"{counted(len(comparison.newer), 'tag')} newer than hermes-agent {comparison.ours}:"]
    lines += [f"  {_title(newer)}" for newer in comparison.newer]
    known = next((newer for newer in comparison.newer if newer.is_known and not newer.caution), None)
    if known is None:
        return [*lines, "no hermesops of this version can take one of them: install a newer hermesops"]
    lines.append(f"changes from {comparison.ours} to {known.tag.version} that hermesops relies on:")
    lines += [f"  {fact.name}: {was or '(absent)'} -> {now or '(absent)'}" for fact, was, now in known.changes]
    lines.append("to take it, check the archive's SHA-256 at its source, then:")
    return [*lines, *(f"  {advice('', command).strip()}" for command in known.commands)]


def _title(newer: "Newer") -> str:
    if not newer.is_known:
        return f"{newer.tag.name}: {newer.tag.version or 'of an unknown version'}, capabilities unknown"
    caution = f"; caution: {newer.caution}" if newer.caution else ""
    return f"{newer.tag.name}: {newer.tag.version}, {counted(len(newer.changes), 'change')}{caution}"
