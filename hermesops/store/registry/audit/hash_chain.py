"""The chain of audit entries: each carries a hash over itself and the hash of the entry before. Pure.

An edited, removed or reordered entry breaks it; a recomputed chain contradicts the heads anchored outside the database
(``hermesops.store.registry.audit.anchor``). ``link`` must never change: it hashed the entries of every registry.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC

from hermesops.model.access.audit import AuditEntry, AuditHead, ChainFinding, ChainReport

_FORM = "hermesops-audit-1"


def link(entry: AuditEntry, previous: str) -> AuditEntry:
    """Return the entry with its hash, which includes ``previous``, the hash of the entry before (empty for none)."""
    return dataclasses.replace(entry, previous=previous, hash=_hash(entry, previous))


def examine(entries: Iterable[AuditEntry], anchors: Iterable[AuditHead]) -> ChainReport:
    """Compare every entry with the one before, and every anchored head with its entry.

    The entries are all of them, by id; the heads were read before the entries, in any order.
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
            findings.append(ChainFinding(entry.id, "was changed: its hash does not match"))
        if entry.epoch < epoch:
            findings.append(ChainFinding(entry.id, f"is of epoch {entry.epoch}, the one before it of {epoch}"))
        last, epoch = entry.hash, max(epoch, entry.epoch)
        begins.setdefault(entry.epoch, entry.id)
        hashes[entry.id] = AuditHead(entry.epoch, entry.id, entry.hash)
    count = lost = anchored_to = 0
    for anchor in anchors:
        count += 1
        entry_head = hashes.get(anchor.id)
        if entry_head == anchor:
            anchored_to = max(anchored_to, anchor.id)
        elif _is_lost(anchor, entry_head, begins):
            lost += 1
        else:
            findings.append(_contradiction(anchor, entry_head))
    head = hashes[max(hashes)] if hashes else None
    ordered = tuple(sorted(dict.fromkeys(findings), key=lambda finding: finding.id))
    return ChainReport(len(hashes), head, count, anchored_to, lost, ordered)


def _is_lost(anchor: AuditHead, entry_head: AuditHead | None, begins: Mapping[int, int]) -> bool:
    """Return whether a later epoch began from a copy that was taken before the anchored entry was written."""
    if anchor.epoch not in begins:
        return any(epoch > anchor.epoch for epoch in begins)  # all of its epoch: the copy is from before that began
    if entry_head is not None and entry_head.epoch <= anchor.epoch:
        return False
    return any(epoch > anchor.epoch and first <= anchor.id for epoch, first in begins.items())


def _contradiction(anchor: AuditHead, entry_head: AuditHead | None) -> ChainFinding:
    if entry_head is None:
        return ChainFinding(anchor.id, "is missing, and its hash is anchored outside the database")
    return ChainFinding(
        anchor.id, "has another hash than the one anchored outside the database: the chain was recomputed"
    )


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
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _as_stored(value: Mapping[str, object]) -> object:
    """The value as the database returns it: keys are text, tuples are lists."""
    return json.loads(json.dumps(value))
