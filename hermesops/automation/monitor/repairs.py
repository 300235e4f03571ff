"""Carries out the monitor's decisions: each repair is a task, and none begins on outdated observations."""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import structlog

from hermesops.automation.monitor.decide import Continue, Repairing, Verdict
from hermesops.automation.monitor.facts import span
from hermesops.automation.monitor.metrics.monitor_metrics import Tally
from hermesops.automation.monitor.service import InstanceRepairs
from hermesops.base import waiting
from hermesops.errors import HermesError, RefusedError, UsageError
from hermesops.model.fleet.health import SILENT_S
from hermesops.model.operation import Lease, LeaseHeldError
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.registry import Registry

if TYPE_CHECKING:
    from hermesops.model.ids import OperationId

_OUTDATED_S = SILENT_S
"""Age of the answers of machines from which on no repair begins: the process stood still since it asked."""

_CONTINUE_S = 60.0
"""Seconds until an operation that was left unfinished is continued again."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Conditions:
    """Conditions under which a decision may be carried out.

    Attributes:
        lease: The lease under which it was decided.
        observed_at: Time at which the machines were asked, by the registry's clock.
    """

    lease: Lease
    observed_at: datetime


class RepairsUnderWay:
    """Begins repairs, one at a time for each instance, and counts their outcomes."""

    def __init__(self, registry: Registry, repairs: InstanceRepairs, tally: Tally) -> None:
        self._registry = registry
        self._repairs = repairs
        self._tally = tally
        self._repairing: dict[str, asyncio.Task[None]] = {}
        self._continued: dict[OperationId, float] = {}

    def begin(self, verdict: Verdict, conditions: Conditions) -> None:
        """Begin the verdict's repairs, and continue unfinished ones; those under way go on."""
        clock = asyncio.get_running_loop().time()
        self._continued = {operation_id: at for operation_id, at in self._continued.items() if clock - at < _CONTINUE_S}
        for decision in verdict.decisions:
            if isinstance(decision, Continue) and decision.operation_id not in self._continued:
                self._continued[decision.operation_id] = clock
                self._begin(decision.operation_id, decision, conditions)
        for repair in verdict.repairs:
            self._begin(repair.instance_id, repair, conditions)

    async def finish(self, grace_s: float) -> None:
        """Wait for repairs under way, for this many seconds at most; others continue the rest."""
        await waiting.finish(self._repairing.values(), grace_s)

    def _begin(self, key: str, repair: Repairing | Continue, conditions: Conditions) -> None:
        if key in self._repairing:
            return
        task = asyncio.create_task(self._repair(repair, conditions))
        self._repairing[key] = task
        task.add_done_callback(lambda _: self._repairing.pop(key, None))

    async def _repair(self, repair: Repairing | Continue, conditions: Conditions) -> None:
        action = type(repair).__name__.lower()
        log = _log.bind(action=action, **vars(repair))
        if outdated := await self._outdated(conditions):
            log.warning("repair_not_begun", problem=outdated)
            return
        log.warning("repair_begins")
        try:
            if isinstance(repair, Continue):
                result = await self._repairs.resume(repair.operation_id)
            else:
                result = await self._repairs.run(repair)
            outcome = "done"
        except LeaseHeldError as held:
            outcome, result = "unfinished", held.message
        except (RefusedError, UsageError) as refused:
            outcome, result = "failed", refused.message
        except HermesError as error:
            outcome, result = "unfinished", error.message
        except Exception as error:
            log.exception("repair_broke")
            outcome, result = "failed", f"a bug: {type(error).__name__}: {error}"
        self._tally.repairs[action, outcome] += 1
        log.warning("repair_ends", outcome=outcome, said=result)

    async def _outdated(self, conditions: Conditions) -> str:
        """Why nothing may be done under these conditions any more; empty if it may.

        This process may have stood still since it decided, and another monitor may have led meanwhile.
        """
        try:
            if await in_db_thread(self._registry.leases.renew, [conditions.lease]):
                return "another monitor leads"
            age_s = (await in_db_thread(self._registry.now) - conditions.observed_at).total_seconds()
        except HermesError as error:
            return error.message
        return f"the machines were asked {span(age_s)} ago" if age_s > _OUTDATED_S else ""
