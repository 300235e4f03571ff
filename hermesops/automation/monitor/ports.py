"""What the monitor needs of the outside world; ``hermesops.app`` passes it in. Failures are ``HermesError``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from hermesops.automation.monitor.decide import Repairing
from hermesops.automation.monitor.exposition import Series
from hermesops.model.fleet import ExpectedFleet
from hermesops.model.health import Answers, GatewayHealth
from hermesops.model.ids import InstanceId, OperationId
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class Figures:
    """What is read less often than every pass.

    Attributes:
        backed_up_at: When each instance was backed up last; ``None`` for never.
        series: What is told of the fleet beside the monitor's own.
    """

    backed_up_at: Mapping[InstanceId, datetime | None] = field(default_factory=dict)
    series: Mapping[Series, float] = field(default_factory=dict)


class Records(Protocol):
    """The registry. Its methods block, and are called in its thread."""

    def expected(self) -> ExpectedFleet:
        """Every instance that should run."""

    def record_reported(self, reported: Mapping[InstanceId, GatewayHealth | None]) -> None:
        """Record what machines said of their gateways."""

    def record_heartbeats(self, beats: Mapping[InstanceId, datetime]) -> int:
        """Record heartbeats where they are newer; how many were."""

    def figures(self, fleet: ExpectedFleet) -> Figures:
        """What is read less often."""


class Metrics(Protocol):
    """The platform's monitoring."""

    async def query(self, promql: str) -> list[Any]:
        """The vector that an expression amounts to now."""

    async def push(self, text: str) -> None:
        """Take samples in Prometheus's text format."""


class Machines(Protocol):
    """The vendor, and machines through it."""

    async def list(self) -> None:
        """Have the registry record how the vendor lists all machines."""

    async def ask(self, instance_id: InstanceId) -> Answers:
        """Ask a machine by both ways; raises nothing of the vendor's."""

    async def cost(self) -> Mapping[str, float]:
        """US dollars a month, by cell."""


class Repairs(Protocol):
    """Operations that repair instances. Each takes the instance's lease, and may be killed at any moment."""

    async def run(self, wanted: Repairing) -> str:
        """Open the operation and bring it to its end; its outcome.

        Raises:
            RefusedError: It may not be done, or could not be.
            UnavailableError: It stopped halfway; it is continued later.
        """

    async def resume(self, operation_id: OperationId) -> str:
        """Continue an operation; as ``run``."""


class Notify(Protocol):
    """The service manager that runs this process."""

    def __call__(self, *said: str) -> None:
        """Tell it, as ``WATCHDOG=1``; harmless without one."""


def _notify_nobody(*_: str) -> None:
    """Without a service manager."""


@dataclass(frozen=True)
class Ports:
    """All of them.

    Attributes:
        registry: Of the lease that the acting monitor holds.
        metrics: ``None`` where the environment has no monitoring: then only machines that are switched off are started.
    """

    registry: Registry
    records: Records
    metrics: Metrics | None
    machines: Machines
    repairs: Repairs
    notify: Notify = _notify_nobody
