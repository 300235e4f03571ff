"""The audit log as an operator reads and verifies it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hermesops.errors import BrokenInvariantError, Hint, RefusedError
from hermesops.model.audit import AuditEntry, ChainFinding, ChainReport
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
        """Entries, newest first. Of ``who``, an operator, pipeline or program, the part before ``@`` is enough."""
        return self.entries.list(subject=subject, who=who, since=since, limit=limit)

    def verify(self, anchor: Path | None = None) -> tuple[ChainReport, Path]:
        """Verify that no entry was edited, removed, moved or recomputed.

        Args:
            anchor: File of anchored heads of another computer; ``None`` for this environment's.

        Returns:
            The report, and the file of the anchored heads.

        Raises:
            BrokenInvariantError: An entry is not what was written.
            RefusedError: The file may not be read, or no head of it is of these entries.
        """
        held = Anchor(anchor) if anchor else self.anchor
        report = self.entries.check(held)
        if report.findings:
            raise _broken(report.findings)
        if report.entries and not report.anchors:
            raise RefusedError(
                f"the {report.entries} entries are chained, but {held.path} anchors none of them: "
                "a log that was computed anew would look the same",
                hint="--anchor FILE takes that of another computer; any change anchors them from now on",
            )
        return report, held.path


def _broken(findings: Sequence[ChainFinding]) -> BrokenInvariantError:
    first, *others = findings
    place = f"audit entry {first.id}" if first.id else "the audit:"
    more = f"; and {len(others)} more: {', '.join(str(one.id) for one in others[:_NAMED])}" if others else ""
    return BrokenInvariantError(
        f"{place} {first.what}{more}",
        hint=Hint(("registry", "copies"), ": an older copy shows what stood there; keep the database as it is"),
    )
