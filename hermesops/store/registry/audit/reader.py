"""The audit log as an operator reads and verifies it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hermesops.errors import BrokenInvariantError, Hint, Parameter, RefusedError
from hermesops.model.access.audit import AuditEntry, ChainFinding, ChainReport
from hermesops.store.registry.audit.anchor import Anchor
from hermesops.store.registry.audit.entries import AuditRepository

_NAMED = 20
"""Further findings that an error names."""


@dataclass(frozen=True)
class AuditLogReader:
    """The audit log of one environment.

    Attributes:
        anchor: The heads of this environment that are kept outside the database.
    """

    entries: AuditRepository
    anchor: Anchor

    def list(
        self, *, subject: str = "", who: str = "", since: datetime | None = None, limit: int = 1000
    ) -> Sequence[AuditEntry]:
        """Return entries, newest first; as ``who``, the part of an identity before ``@`` is enough."""
        return self.entries.list(subject=subject, who=who, since=since, limit=limit)

    def verify(self, anchor: Path | None = None) -> tuple[ChainReport, Path]:
        """Verify that no entry was edited, removed, moved or recomputed.

        Args:
            anchor: File of anchored heads of another computer; ``None`` for this environment's.

        Returns:
            The report, and the file of the anchored heads.

        Raises:
            BrokenInvariantError: An entry was changed or removed.
            RefusedError: The file may not be read, or no head of it is of these entries.
        """
        heads = Anchor(anchor) if anchor else self.anchor
        report = self.entries.check(heads)
        if report.findings:
            raise _broken(report.findings)
        if report.entries and not report.anchors:
            raise RefusedError(
                f"the {report.entries} entries are chained, but {heads.path} anchors none of them: "
                "a recomputed chain would look the same",
                hint=Hint(
                    Parameter("anchor", "FILE"),
                    "checks against another computer's anchor; the next change anchors new entries",
                ),
            )
        return report, heads.path


def _broken(findings: Sequence[ChainFinding]) -> BrokenInvariantError:
    first, *others = findings
    place = f"audit entry {first.id}" if first.id else "the audit:"
    more = f"; and {len(others)} more: {', '.join(str(finding.id) for finding in others[:_NAMED])}" if others else ""
    return BrokenInvariantError(
        f"{place} {first.what}{more}",
        hint=Hint(("registry", "copies"), ": an older copy shows the original entry; do not change the database"),
    )
