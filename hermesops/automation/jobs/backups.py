"""Jobs about backups: daily ones, drills, pruning, recovery records, and backups of ended agents."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from hermesops.agents.backup.drills import Drills
from hermesops.agents.backup.service import Backups
from hermesops.automation.jobs.reports import left_to_workers, report_of, reported
from hermesops.automation.jobs.runner import Job, ManualRun, Report
from hermesops.base.fan_out import Limits, problems
from hermesops.base.narration import counted
from hermesops.store.operations.outcomes import Outcome
from hermesops.store.operations.runner import Operations
from hermesops.store.registry import Registry

_RECORDS = "recovery-records"

_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)

_ONE_BY_ONE = Limits(at_once=1, slow_after_s=600.0, within_s=3600.0)
"""Of repositories: forgetting and pruning is the object store's work."""


@dataclass(frozen=True)
class BackupJobs:
    """Declares the jobs about backups; workers and operators run them."""

    registry: Registry
    operations: Operations
    backups: Backups
    drills: Drills

    def all(self) -> tuple[Job, ...]:
        """Every job about backups, in the order of ``job list``."""
        return (
            Job(
                "backups",
                "back up agents whose turn of the day has come",
                _MINUTE,
                lambda: [instance.title for instance in self.backups.nightly.due()],
                lambda: reported(self.backups.nightly.run(), "{} backed up", "agent"),
                longest=timedelta(hours=8),
            ),
            Job(
                "drill",
                "restore a backup onto a machine, for proof",
                10 * _MINUTE,
                self._undrilled,
                lambda: left_to_workers(self._open_drill(), self.operations),
                lambda _, __: ManualRun(self._open_drill),
            ),
            Job(
                "prune",
                "take away backups that no rule keeps",
                timedelta(hours=6),
                lambda: [instance.title for instance in self.backups.pruning.due()],
                self._prune,
                self._prune_by_hand,
                rest=timedelta(days=7),
            ),
            Job(
                _RECORDS,
                "keep what opens backups and data volumes where it outlives the registry",
                _MINUTE,
                self._unrecorded,
                lambda: reported(self.backups.records.save_all(), "recovery records of {} are up to date", "agent"),
            ),
            Job(
                "ended",
                "take away backups of agents that ended long ago",
                timedelta(hours=1),
                lambda: [instance.id for instance in self.backups.ended.due()],
                self._erase,
                self._erase_by_hand,
            ),
        )

    async def _prune(self, reason: str = "") -> Report:
        pruning = self.backups.pruning
        due = {instance.title: instance.id for instance in pruning.due()}
        problem_by_subject = await problems(due, partial(pruning.prune, why=reason), _ONE_BY_ONE)
        return report_of(problem_by_subject, "backups of {} pruned", "agent")

    def _prune_by_hand(self, _: Sequence[str], reason: str) -> ManualRun:
        due = [
            f"{instance.title}: its backups that no rule keeps are deleted" for instance in self.backups.pruning.due()
        ]
        return ManualRun(partial(self._prune, reason), tuple(due), f"deletes backups of {counted(len(due), 'agent')}")

    async def _erase(self, reason: str = "") -> Report:
        ended = self.backups.ended
        due = {str(instance.id): instance for instance in ended.due()}
        problem_by_subject = await problems(due, partial(ended.erase, why=reason), _ONE_BY_ONE)
        return report_of(problem_by_subject, "backups of {} erased", "ended agent")

    def _erase_by_hand(self, _: Sequence[str], reason: str) -> ManualRun:
        due = [
            f"{instance.title} ({instance.id}): all its backups are deleted" for instance in self.backups.ended.due()
        ]
        consent = f"deletes all backups of {counted(len(due), 'ended agent')}"
        return ManualRun(partial(self._erase, reason), tuple(due), consent)

    def _unrecorded(self) -> list[str]:
        last = self.registry.jobs.get(_RECORDS)
        ended_at = last.ended_at if last and not last.problem else None
        is_fresh = ended_at is not None and self.registry.now() - ended_at < _HOUR
        if is_fresh or not self.backups.store.holds_anything:
            return []
        return [instance.title for instance in self.registry.instances.list()]

    def _undrilled(self) -> list[str]:
        instance = self.drills.due()
        return [instance.title] if instance else []

    async def _open_drill(self) -> Report:
        instance = self.drills.due()
        if instance is None:
            return Report("no drill is due")
        operation = await self.drills.open(instance, why="weekly")
        done = f"a drill of the newest backup of {instance.title} has begun"
        return Report(done, outcomes=(Outcome(instance.title, operation),))
