"""Audit entries (author, change and reason), and reports on the chain of their hashes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class AuditEntry:
    """A row of ``audit``, which is only ever appended to.

    Attributes:
        id: Rises; the order of entries.
        who: The operator, pipeline or program that acted.
        action: Past tense, as ``status_changed``.
        subject: What was acted on, as ``instance/<id>``.
        why: The reason a person gave, or the operation's kind and id.
        before: What was changed, as it was; empty for what is new. No secrets, no users' words.
        epoch: The registry's epoch in which it was written.
        previous: Hash of the entry before; empty in the first one.
        hash: Over everything above: SHA-256 in hexadecimal.
    """

    id: int
    at: datetime
    who: str
    action: str
    subject: str
    why: str
    before: Mapping[str, object]
    after: Mapping[str, object]
    epoch: int = 1
    previous: str = ""
    hash: str = ""


@dataclass(frozen=True)
class AuditHead:
    """The newest entry at some moment; its hash covers all entries before it."""

    epoch: int
    id: int
    hash: str


@dataclass(frozen=True)
class ChainFinding:
    """Something in the audit log that appending cannot cause.

    Attributes:
        id: The entry where it shows; 0 when it concerns the table.
        what: What is wrong with it, in words.
    """

    id: int
    what: str


@dataclass(frozen=True)
class ChainReport:
    """The result of checking every entry and every anchored head.

    Attributes:
        head: The newest one; ``None`` when there is none.
        anchors: How many heads outside the database were compared.
        anchored_to: The newest entry whose hash is stored outside the database; 0 for none.
        lost: How many anchored heads a restored registry lacks: they were written after its copy was taken.
        findings: Empty when the audit log is intact.
    """

    entries: int
    head: AuditHead | None
    anchors: int
    anchored_to: int
    lost: int
    findings: tuple[ChainFinding, ...]

    @property
    def doubt(self) -> str:
        """The first contradiction in the audit; empty when every entry agrees with the heads stored outside."""
        if self.findings:
            first, *others = self.findings
            more = f"; and {len(others)} more" if others else ""
            return f"entry {first.id} {first.what}{more}" if first.id else f"{first.what}{more}"
        if self.entries and not self.anchors:
            return f"no head of its {self.entries} entries is stored outside the database"
        return ""

    @property
    def told(self) -> str:
        """The result of the verification, as one line for the operator."""
        if self.doubt:
            return f"the audit is broken: {self.doubt}"
        lost = f"; {self.lost} anchored entries are lost: they were not restored" if self.lost else ""
        return f"{self.entries} audit entries were verified, up to {self.anchored_to} against the anchor{lost}"
