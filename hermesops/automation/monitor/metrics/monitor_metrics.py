"""The monitor's metrics about itself and about instances, and their push to the platform."""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import structlog

from hermesops.automation.monitor.metrics.exposition import Exposition, Series, series
from hermesops.automation.monitor.metrics.figures import Figures
from hermesops.automation.monitor.metrics.platform_metrics import PlatformMetrics
from hermesops.automation.monitor.sources import Sources
from hermesops.errors import HermesError
from hermesops.model.fleet.overview import ExpectedFleet

_FLAGS = (
    "hermesops_break_glass_open",
    "hermesops_cell_expected",
    "hermesops_instance_busy",
    "hermesops_instance_condition",
    "hermesops_instance_expected",
    "hermesops_instance_outdated",
    "hermesops_monitor_leader",
    "hermesops_monitor_stopped_acting",
    "hermesops_rollout_halted",
    "hermesops_rollout_state",
)
"""Series that are pushed as 0 once they do not hold any more."""

_log = structlog.get_logger(__name__)


@dataclass
class Tally:
    """Counts of a monitor's actions since it began.

    Attributes:
        heartbeats: How many were recorded.
        repairs: Ended ones, by action and outcome.
        was_leader: Whether it acted at all.
        follows: Holder of the lease, where another monitor leads.
    """

    passes: int = 0
    heartbeats: int = 0
    repairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    was_leader: bool = False
    follows: str = ""


class MonitorMetrics:
    """Pushes metrics after each pass, and while the registry does not answer.

    Args:
        metrics: ``None`` where the environment has no monitoring: then nothing is pushed.
    """

    def __init__(self, metrics: PlatformMetrics | None, sources: Sources, tally: Tally) -> None:
        self._metrics = metrics
        self._sources = sources
        self._tally = tally
        self._exposition = Exposition(_FLAGS)
        self._of_fleet: Mapping[Series, float] = {}
        self._push_fails = False

    async def push_pass(self, took_s: float, stops: Collection[str], of_fleet: Mapping[Series, float]) -> None:
        """Push the metrics of a pass that was made.

        Args:
            took_s: Seconds that the pass took.
            stops: Reasons for which the monitor does not repair.
            of_fleet: Metrics of instances and of the fleet.
        """
        self._of_fleet = of_fleet
        await self._push({**self._own(took_s, stops), series("hermesops_monitor_leader"): 1.0, **of_fleet})

    async def push_cut_off(self, took_s: float, stops: Collection[str]) -> None:
        """Push metrics without the registry: the fleet as last known, and no leader; arguments as ``push_pass``."""
        await self._push({**self._own(took_s, stops), **self._of_fleet})

    async def _push(self, values: Mapping[Series, float]) -> None:
        if self._metrics is None:
            return
        try:
            await self._metrics.push(self._exposition.text(values, now_s=asyncio.get_running_loop().time()))
        except HermesError as error:
            if not self._push_fails:
                _log.warning("metrics_are_not_taken", problem=error.message)
            self._push_fails = True
        else:
            self._push_fails = False

    def _own(self, took_s: float, stops: Collection[str]) -> dict[Series, float]:
        actions = {
            series("hermesops_monitor_actions_total", action=action, outcome=outcome): float(count)
            for (action, outcome), count in self._tally.repairs.items()
        }
        return {
            series("hermesops_monitor_pass_seconds"): took_s,
            series("hermesops_monitor_heartbeats_total"): float(self._tally.heartbeats),
            **self._of_sources(),
            **actions,
            **{series("hermesops_monitor_stopped_acting", reason=reason): 1.0 for reason in stops},
        }

    def _of_sources(self) -> dict[Series, float]:
        return {
            series("hermesops_monitor_source_up", service=source.value): float(answers)
            for source, answers in self._sources.all().items()
        }


def of_instances(fleet: ExpectedFleet, figures: Figures) -> dict[Series, float]:
    """Metrics of instances that should run, and of their cells."""
    now, values = fleet.now, dict[Series, float]()
    for instance in fleet.instances:
        values[series("hermesops_instance_expected", instance_id=instance.id, cell=instance.cell)] = 1.0
        if instance.busy:
            values[series("hermesops_instance_busy", instance_id=instance.id)] = 1.0
        if backed_up_at := figures.backed_up_at.get(instance.id):
            age_s = (now - backed_up_at).total_seconds()
            values[series("hermesops_instance_backup_age_seconds", instance_id=instance.id)] = age_s
    for cell, count in Counter(instance.cell for instance in fleet.instances).items():
        values[series("hermesops_cell_expected", cell=cell)] = float(count)
    return values
