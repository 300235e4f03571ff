"""Moves the registry of an environment to its platform and back; its audit is verified on both ways."""

from collections.abc import Callable
from dataclasses import dataclass

from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.model.access.audit import ChainReport
from hermesops.store.registry import Registry
from hermesops.store.registry.audit.anchor import Anchor
from hermesops.store.registry.audit.entries import check_chain
from hermesops.store.registry.database import Database
from hermesops.store.registry.maintenance import transfer
from hermesops.store.registry.schema import schema_version

_BROKEN = Hint(
    ("audit", "verify"),
    "shows more;",
    ("platform", "connect", "--broken-audit", "WHY"),
    "moves it, and it stays broken",
)


@dataclass(frozen=True)
class RegistryMove:
    """Moves an environment's registry to its platform, and back.

    Args:
        source_url: The registry in SQLite.
        target_url: That of the platform.
        open_target: Opens the registry at a URL.
        anchor_at: The heads of the audit of the registry at a URL.
    """

    source_url: str
    target_url: str
    open_target: Callable[[str], Registry]
    anchor_at: Callable[[str], Anchor]
    report: Callable[[str], None]

    def verified(self, despite: str) -> ChainReport | None:
        """The audit of the registry in SQLite, verified against its own anchor; ``None`` where there is no registry.

        Raises:
            RefusedError: It is broken, and that is not to be carried over.
        """
        source = Database(self.source_url)
        try:
            if source.is_missing() or schema_version.current(source) is None:
                return None
            report = check_chain(source, self.anchor_at(self.source_url))
        finally:
            source.close()
        if report.doubt and not despite:
            raise RefusedError(
                f"the audit of the registry {source.title} is broken: {report.doubt}; nothing was moved",
                hint=_BROKEN,
            )
        return report

    def move(self, verified: ChainReport | None, despite: str) -> tuple[int, int]:
        """Copy the rows to the platform, and begin an epoch there.

        Args:
            verified: As ``verified`` returned it.
            despite: Why a broken audit is carried over; empty refuses it.

        Returns:
            The number of copied rows, 0 when they had been copied before, and the epoch.

        Raises:
            RefusedError: An operation is open, the audit is broken, or the platform's registry has rows of its own.
        """
        source, target = Database(self.source_url), Database(self.target_url)
        try:
            if source.is_missing():
                return 0, self._begin_epoch(0, verified, despite)
            moved = 0 if transfer.moved_to(source) else transfer.transfer(source, target).total
            try:
                return moved, self._begin_epoch(transfer.epoch_of(source), verified, despite)
            except RefusedError:
                transfer.unmark_moved(source)
                raise
        finally:
            source.close()
            target.close()

    def take_back(self, verified: ChainReport | None, despite: str) -> tuple[int, ChainReport]:
        """Have the registry in SQLite count again, above the platform's epoch.

        Returns:
            The epoch that began, and the verified audit.

        Raises:
            RefusedError: An operation is open on the platform, or the audit is broken.
        """
        target, source = Database(self.target_url), Database(self.source_url)
        try:
            known = transfer.epoch_of(target)
            transfer.refuse_open(target)
        except UnavailableError as error:
            self.report(f"the platform's registry does not answer, so its epoch is not known: {error.message}")
            known = 0
        try:
            transfer.unmark_moved(source)
        finally:
            source.close()
            target.close()
        # What was written since is missed by the heads that were stored of it.
        self.anchor_at(self.source_url).take_over(self.anchor_at(self.target_url))
        registry = self.open_target(self.source_url)
        try:
            epoch = registry.epochs.open("back from the platform", above=known)
            return epoch, self._require_audit(registry, verified, despite)
        finally:
            registry.close()

    def _begin_epoch(self, before: int, verified: ChainReport | None, despite: str) -> int:
        """Open the platform's registry, with an epoch above the one before; anchored heads go on to bind its audit."""
        url = self.target_url
        self.anchor_at(url).take_over(self.anchor_at(self.source_url))
        registry = self.open_target(url)
        try:
            epoch = registry.epochs.now()
            if epoch <= before:
                epoch = registry.epochs.open("moved to the platform", above=before)
            self._require_audit(registry, verified, despite)
            return epoch
        finally:
            registry.close()

    def _require_audit(self, registry: Registry, verified: ChainReport | None, despite: str) -> ChainReport:
        """The audit of a registry that counts from now on; a break that is carried over is noted in it.

        Raises:
            RefusedError: It is broken, and that is not to be carried over.
        """
        report = registry.audit.check()
        if report.doubt and not despite:
            raise RefusedError(
                f"the audit of the moved registry is broken: {report.doubt}", hint=Hint(("audit", "verify"))
            )
        if doubt := report.doubt or (verified.doubt if verified else ""):
            after = {"findings": len(report.findings), "first": doubt}
            registry.audit.append("broken_audit_carried_over", "registry", why=despite, after=after)
        return report


def unmark_moved(source_url: str) -> None:
    """Have the registry in SQLite count again, where the platform is gone."""
    source = Database(source_url)
    try:
        if not source.is_missing():
            transfer.unmark_moved(source)
    finally:
        source.close()
