"""Everything that the monitor uses; ``hermesops.app`` passes it in. Failures are ``HermesError``."""

from collections.abc import Callable
from dataclasses import dataclass, field

from hermesops.automation.monitor.metrics.figures import Figures
from hermesops.automation.monitor.metrics.platform_metrics import PlatformMetrics
from hermesops.automation.monitor.service import InstanceRepairs, VendorMachines
from hermesops.automation.monitor.service_manager import SystemdNotify
from hermesops.model.fleet.overview import ExpectedFleet
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class Ports:
    """All of them.

    Attributes:
        registry: Of the lease that the acting monitor holds.
        figures: Reads what is read less often than every pass; called in the registry's thread.
        metrics: ``None`` where the environment has no monitoring: then only machines that are switched off are started.
    """

    registry: Registry
    figures: Callable[[ExpectedFleet], Figures]
    metrics: PlatformMetrics | None
    machines: VendorMachines
    repairs: InstanceRepairs
    notify: SystemdNotify = field(default_factory=lambda: SystemdNotify(""))
