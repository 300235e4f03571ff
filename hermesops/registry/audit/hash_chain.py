"""The chain of audit entries: each carries a hash over itself and the hash of the entry before. Pure.

Whoever edits, removes or reorders entries breaks it; whoever computes it anew meets the heads anchored outside the
database (``hermesops.registry.audit.anchor``). ``link`` can never change: the entries of every registry were hashed
with it.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC

from hermesops.model.audit import AuditEntry, AuditHead, ChainFinding, ChainReport

_FORM = "hermesops-audit-1"


def link(entry: AuditEntry, previous: str) -> AuditEntry:
    """The entry as it stands behind the one whose hash is ``previous`` (empty for the first)."""
    return dataclasses.replace(entry, previous=previous, hash=_hash(entry, previous))


def examine(entries: Iterable[AuditEntry], anchors: Iterable[AuditHead]) -> ChainReport:
    """Hold every entry against the one before, and every anchored head against its entry.

    Args:
        entries: All of them, by id.
        anchors: Heads written outside the database, in any order, read before the entries were.
    """
    findings: list[ChainFinding] = []
    hashes: dict[int, AuditHead] = {}
    begins: dict[int, int] = {}
    last = ""
    epoch = 0
    for entry in entries:
        if entry.previous != last:
            findings.append(ChainFinding(entry.id, "does not follow the entry before it: one was removed or moved"))
        if entry.hash != _hash(entry, entry.previous):
            findings.append(ChainFinding(entry.id, "is not what was written: its hash is another"))
        if entry.epoch < epoch:
            findings.append(ChainFinding(entry.id, f"is of epoch {entry.epoch}, the one before it of {epoch}"))
        last, epoch = entry.hash, max(epoch, entry.epoch)
        begins.setdefault(entry.epoch, entry.id)
        hashes[entry.id] = AuditHead(entry.epoch, entry.id, entry.hash)
    count = lost = anchored_to = 0
    for anchor in anchors:
        count += 1
        held = hashes.get(anchor.id)
        if held == anchor:
            anchored_to = max(anchored_to, anchor.id)
        elif _is_lost(anchor, held, begins):
            lost += 1
        else:
            findings.append(_contradiction(anchor, held))
    head = hashes[max(hashes)] if hashes else None
    ordered = tuple(sorted(dict.fromkeys(findings), key=lambda finding: finding.id))
    return ChainReport(len(hashes), head, count, anchored_to, lost, ordered)


def _is_lost(anchor: AuditHead, held: AuditHead | None, begins: Mapping[int, int]) -> bool:
    """Whether the anchored entry was written after the copy was taken from which a later epoch began."""
    if held is not None and held.epoch <= anchor.epoch:
        return False
    return any(epoch > anchor.epoch and first <= anchor.id for epoch, first in begins.items())


def _contradiction(anchor: AuditHead, held: AuditHead | None) -> ChainFinding:
    if held is None:
        return ChainFinding(anchor.id, "is missing, and its hash is anchored outside the database")
    return ChainFinding(anchor.id, "has another hash than the one anchored outside the database: computed anew")


def _hash(entry: AuditEntry, previous: str) -> str:
    content = [
        _FORM,
        previous,
        entry.epoch,
        entry.id,
        entry.at.astimezone(UTC).isoformat(timespec="microseconds"),
        entry.who,
        entry.action,
        entry.subject,
        entry.why,
        _as_stored(entry.before),
        _as_stored(entry.after),
    ]
    return hashlib.sha256(_canonical(content).encode()).hexdigest()


def _as_stored(value: Mapping[str, object]) -> object:
    """The value as it comes back from the database: keys are text there, tuples are lists."""
    return json.loads(json.dumps(value))


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
