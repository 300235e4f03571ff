"""A fleet in memory under a monitor, in virtual time: machines go dead, networks flap, sources go away."""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from hermesops.automation.monitor import repairs, runner
from hermesops.automation.monitor.decide import Actions, Policy, Repairing, Replace
from hermesops.automation.monitor.metrics.figures import Figures
from hermesops.automation.monitor.metrics.heartbeats import METRIC
from hermesops.automation.monitor.metrics.platform_metrics import PlatformMetrics
from hermesops.automation.monitor.ports import Ports
from hermesops.automation.monitor.runner import Monitor
from hermesops.automation.monitor.service import InstanceRepairs, VendorMachines
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.fleet.health import Answer, Answers, GatewayHealth
from hermesops.model.fleet.overview import ExpectedFleet, ExpectedInstance, Repair, RepairKind
from hermesops.model.ids import CellName, InstanceId, OperationId
from hermesops.model.operation import LEASE_S, Lease, LeaseHeldError
from hermesops.store.operations.leases import keeper as lease_module
from tests.support.fakes.registry import FakeRegistry
from tests.support.fakes.virtual_time import BEGAN, VirtualClock

T = TypeVar("T")

HEARTBEATS_EVERY_S = 15.0
BOOT_S = 60.0
LONGEST_S = 400.0
"""Seconds after which a reboot gives a machine up that still does not answer."""


@dataclass
class Host:
    """One instance's machine.

    Attributes:
        dead_from: Seconds from the beginning when it stops to do anything until it is rebooted.
        is_broken: Whether no reboot helps.
        cut: Whether nothing reaches it, by spans of seconds.
        mute: Whether its heartbeats do not arrive, while it can be asked, by spans of seconds.
    """

    instance_id: InstanceId
    cell: CellName
    status: str = "ready"
    dead_from: float = float("inf")
    is_broken: bool = False
    cut: Callable[[float], bool] = lambda _: False
    mute: Callable[[float], bool] = lambda _: False
    busy: str = ""
    gone_at: float | None = None
    beat_at: float | None = None
    began_s: float = 0.0

    def answers(self, at: float) -> bool:
        return self.status == "ready" and at < self.dead_from and not self.cut(at) and at >= self.began_s


class Rows(FakeRegistry):
    """One lease, by the loop's clock, and the fleet's rows; no lease is reached at seconds that ``is_away`` names."""

    watched: "WatchedFleet"

    def __init__(self) -> None:
        self.holder, self.until, self.counter = "", 0.0, 0
        self.is_away: Callable[[float], bool] = lambda _: False

    def leases_take(self, subject: str, holder: str, *, over: str = "") -> Lease:
        self._reach()
        now = asyncio.get_running_loop().time()
        if self.holder and self.until > now and self.holder != over:
            raise LeaseHeldError(f"{subject} is being worked on by {self.holder}", holder=self.holder)
        self.holder, self.until, self.counter = holder, now + LEASE_S, self.counter + 1
        return Lease(subject, holder, 1, self.counter, datetime.now(UTC))

    def leases_renew(self, held: list[Lease]) -> frozenset[str]:
        self._reach()
        lost = frozenset(lease.subject for lease in held if lease.holder != self.holder)
        if not lost:
            self.until = asyncio.get_running_loop().time() + LEASE_S
        return lost

    def leases_release(self, lease: Lease) -> None:
        self._reach()
        if lease.holder == self.holder:
            self.holder = ""

    def fleet_expected(self, *, reason: str) -> ExpectedFleet:
        assert reason
        self.watched.reach("registry")
        now = self.watched.now()

        def at(seconds: float | None) -> datetime | None:
            return None if seconds is None else BEGAN + timedelta(seconds=seconds)

        instances = tuple(
            ExpectedInstance(
                host.instance_id,
                host.instance_id,
                host.cell,
                host.status,
                self.watched.recorded.get(host.instance_id),
                at(host.gone_at),
                host.busy,
                self.watched.reported.get(host.instance_id),
            )
            for host in self.watched.hosts.values()
        )
        day = BEGAN + timedelta(seconds=now - 86_400)
        repairs = tuple(repair for repair in self.watched.repairs if repair.began_at >= day)
        return ExpectedFleet(self.now(), at(self.watched.listed_at), instances, repairs)

    def now(self) -> datetime:
        return BEGAN + timedelta(seconds=self.watched.now() + self.watched.moved_s)

    def fleet_record_reported(self, reported: Mapping[InstanceId, GatewayHealth | None]) -> None:
        self.watched.reach("registry")
        self.watched.reported.update(reported)

    def fleet_record_heartbeats(self, beats: Mapping[InstanceId, datetime]) -> int:
        self.watched.reach("registry")
        self.watched.recorded.update(beats)
        return len(beats)

    def _reach(self) -> None:
        if self.is_away(asyncio.get_running_loop().time()):
            raise UnavailableError("the registry does not answer")


@dataclass
class WatchedFleet:
    """Everything outside the monitor.

    Attributes:
        asked: Whom the monitor asked, with the second.
        repaired: What it began, with the second.
        away: Sources that do not answer, by spans of seconds.
        gateway: What machines say of their gateways.
        asking_takes_s: Seconds until a machine that is asked answers.
        reading_takes_s: Seconds until heartbeats are read, as those of a large fleet.
        moved_s: Seconds that went by on the registry's clock while the monitor stood still.
    """

    hosts: dict[InstanceId, Host]
    policy: Policy
    clock: VirtualClock = field(default_factory=VirtualClock)
    registry: Rows = field(default_factory=Rows)
    repairs: list[Repair] = field(default_factory=list)
    asked: list[tuple[float, InstanceId]] = field(default_factory=list)
    repaired: list[tuple[float, Repairing]] = field(default_factory=list)
    recorded: dict[InstanceId, datetime] = field(default_factory=dict)
    reported: dict[InstanceId, GatewayHealth | None] = field(default_factory=dict)
    pushed: list[str] = field(default_factory=list)
    listed_at: float | None = None
    away: Mapping[str, Callable[[float], bool]] = field(default_factory=dict)
    gateway: GatewayHealth = GatewayHealth.OK
    asking_takes_s: float = 1.0
    reading_takes_s: float = 0.0
    moved_s: float = 0.0

    def __post_init__(self) -> None:
        self.registry.watched = self

    @classmethod
    def of(cls, count: int, *, per_cell: int = 40, policy: Policy | None = None) -> "WatchedFleet":
        hosts = [Host(InstanceId(f"i{number:04}"), CellName(f"cell{number // per_cell}")) for number in range(count)]
        return cls({host.instance_id: host for host in hosts}, policy or Policy(Actions.ALL))

    def watch(self, seconds: float, *monitors: Monitor) -> None:
        """Let monitors watch for so long."""

        async def all_of_them() -> None:
            async with asyncio.timeout(seconds + 3600):
                tasks = [asyncio.create_task(monitor.run()) for monitor in monitors]
                await self.clock.pause(seconds)
                for monitor in monitors:
                    monitor.stop()
                await asyncio.gather(*tasks)

        self.clock.run(all_of_them())

    def monitor(self) -> Monitor:
        return Monitor(Ports(self.registry, self.figures, Metrics(self), Machines(self), Repairs(self)), self.policy)

    def host(self, number: int) -> Host:
        return list(self.hosts.values())[number]

    def figures(self, fleet: ExpectedFleet) -> Figures:
        return Figures({instance.id: fleet.now - timedelta(hours=3) for instance in fleet.instances})

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def is_away(self, source: str) -> bool:
        return source in self.away and self.away[source](self.now())

    def reach(self, source: str) -> None:
        if self.is_away(source):
            raise UnavailableError(f"{source} is away")


class Metrics(PlatformMetrics):
    """Heartbeats of machines that are up."""

    def __init__(self, fleet: WatchedFleet) -> None:
        self.fleet = fleet

    async def query(self, promql: str) -> list[Any]:
        assert METRIC in promql
        self.fleet.reach("prometheus")
        await self.fleet.clock.pause(self.fleet.reading_takes_s)
        now, hosts = self.fleet.now(), []
        for host in self.fleet.hosts.values():
            sent = now - now % HEARTBEATS_EVERY_S
            if host.answers(sent) and not host.mute(sent):
                host.beat_at = sent
            if host.beat_at is not None and now - host.beat_at < 300:
                at = (BEGAN + timedelta(seconds=host.beat_at + self.fleet.moved_s)).timestamp()
                for what in ("written", "sampled"):
                    labels = {"instance_id": host.instance_id, "what": what}
                    hosts.append({"metric": labels, "value": [at, str(at)]})
                report = {"instance_id": host.instance_id, "what": "gateway", "status": self.fleet.gateway.value}
                hosts.append({"metric": report, "value": [at, "1"]})
        return hosts

    async def push(self, text: str) -> None:
        self.fleet.pushed.append(text)


class Machines(VendorMachines):
    """The vendor, and machines through it."""

    def __init__(self, fleet: WatchedFleet) -> None:
        self.fleet = fleet

    async def list(self) -> None:
        self.fleet.reach("justavps")
        self.fleet.listed_at = self.fleet.now()

    async def ask(self, instance_id: InstanceId) -> Answers:
        self.fleet.asked.append((self.fleet.now(), instance_id))
        if self.fleet.is_away("justavps"):
            return Answers("")
        await self.fleet.clock.pause(self.fleet.asking_takes_s)
        host = self.fleet.hosts[instance_id]

        def by(way: str) -> Answer:
            return Answer.YES if host.answers(self.fleet.now()) and not self.fleet.is_away(way) else Answer.SILENT

        return Answers(host.status, by("toolbox"), by("proxy"))

    async def cost(self) -> Mapping[str, float]:
        return {}


class Repairs(InstanceRepairs):
    """Reboots and replacements that take their time."""

    def __init__(self, fleet: WatchedFleet) -> None:
        self.fleet = fleet

    async def run(self, wanted: Repairing) -> str:
        began, host = self.fleet.now(), self.fleet.hosts[wanted.instance_id]
        self.fleet.repaired.append((began, wanted))
        kind = RepairKind.REPLACE if isinstance(wanted, Replace) else RepairKind.REBOOT
        row = Repair(host.instance_id, kind, BEGAN + timedelta(seconds=began))
        self.fleet.repairs.append(row)
        host.busy = "operation 1 (reboot) has not ended"
        try:
            await self.fleet.clock.pause(BOOT_S)
            if not host.is_broken or isinstance(wanted, Replace):
                host.status, host.dead_from, host.is_broken, host.gone_at = "ready", float("inf"), False, None
            while not host.answers(self.fleet.now()):
                if self.fleet.now() - began > LONGEST_S:
                    raise RefusedError("it does not answer")
                await self.fleet.clock.pause(5)
        finally:
            host.busy = ""
            has_failed = not host.answers(self.fleet.now())
            self.fleet.repairs.remove(row)
            ended = BEGAN + timedelta(seconds=self.fleet.now())
            self.fleet.repairs.append(Repair(host.instance_id, kind, row.began_at, ended, has_failed))
        return "it answers again"

    async def resume(self, operation_id: OperationId) -> str:
        raise AssertionError(operation_id)


def without_threads(patch: pytest.MonkeyPatch) -> None:
    """Let registry calls be made at once: a thread takes real time, and none passes here."""

    async def at_once(call: Callable[..., T], *args: Any, **options: Any) -> T:  # noqa: ANN401 - whatever it takes
        return call(*args, **options)

    for module in (runner, repairs, lease_module):
        patch.setattr(module, "in_db_thread", at_once)

    def monotonic() -> float:
        return asyncio.get_running_loop().time()

    patch.setattr("hermesops.store.operations.leases.keeper.time.monotonic", monotonic)


def flapping(
    seed: int, *, up_s: tuple[float, float], down_s: tuple[float, float], until_s: float
) -> Callable[[float], bool]:
    """Whether a network is down at a second, in turns of random length."""
    chance = random.Random(seed)  # noqa: S311 - repeatable on purpose
    edges, at = list[float](), chance.uniform(0, up_s[1])
    while at < until_s:
        edges.append(at)
        at += chance.uniform(*(down_s if len(edges) % 2 else up_s))
    edges.append(float("inf"))

    def is_down(second: float) -> bool:
        low, high = 0, len(edges)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if edges[middle] <= second else (low, middle)
        return low % 2 == 1

    return is_down
