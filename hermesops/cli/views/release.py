"""Lines about releases and upstream's tags, for people."""

import json
from typing import TYPE_CHECKING

from hermesops.agents.health.instance_list import UNKNOWN
from hermesops.base.narration import counted
from hermesops.cli.console import advice
from hermesops.views.machines import releases
from hermesops.wire.foreign_text import unbroken

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hermesops.machines.capabilities.upstream import Newer, Upstream
    from hermesops.machines.release.diff import Difference
    from hermesops.wire.documents.lock import Lock


_NAMED = 10
"""Users who are named in a line for people."""


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


def lock_lines(release: "Lock") -> list[str]:
    """Render a release's lock as lines: versions, packages, size and digest."""
    shape = releases.lock(release)
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


def difference_lines(differences: "Sequence[Difference]") -> list[str]:
    """Render the differences between two releases, one line each."""
    if not differences:
        return ["they are the same"]
    return [f"  {change.what}: {change.before or '(absent)'} -> {change.after or '(absent)'}" for change in differences]


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
