"""A fleet in memory under a monitor, in virtual time: machines go dead, networks flap, sources go away."""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from hermesops.automation.monitor import runner
from hermesops.automation.monitor.decide import Actions, Policy, Repairing, Replace
from hermesops.automation.monitor.heartbeats import METRIC
from hermesops.automation.monitor.ports import Figures, Ports
from hermesops.automation.monitor.runner import Monitor
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.fleet import ExpectedFleet, ExpectedInstance, Repair, RepairKind
from hermesops.model.health import Answer, Answers, GatewayHealth
from hermesops.model.ids import CellName, InstanceId, OperationId
from hermesops.model.operation import LEASE_S, Lease, LeaseHeldError
from hermesops.store.operations import lease as lease_module
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


class Leases(FakeRegistry):
    """One lease, by the loop's clock; not reached at seconds that ``is_away`` names."""

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
        lost = frozenset(one.subject for one in held if one.holder != self.holder)
        if not lost:
            self.until = asyncio.get_running_loop().time() + LEASE_S
        return lost

    def leases_release(self, lease: Lease) -> None:
        self._reach()
        if lease.holder == self.holder:
            self.holder = ""

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
    """

    hosts: dict[InstanceId, Host]
    policy: Policy
    clock: VirtualClock = field(default_factory=VirtualClock)
    registry: Leases = field(default_factory=Leases)
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

    @classmethod
    def of(cls, count: int, *, per_cell: int = 40, policy: Policy | None = None) -> "WatchedFleet":
        hosts = [Host(InstanceId(f"i{number:04}"), CellName(f"cell{number // per_cell}")) for number in range(count)]
        return cls({host.instance_id: host for host in hosts}, policy or Policy(Actions.ALL))

    def watch(self, seconds: float, *monitors: Monitor) -> None:
        """Let monitors watch for so long."""

        async def all_of_them() -> None:
            async with asyncio.timeout(seconds + 3600):
                tasks = [asyncio.create_task(one.run()) for one in monitors]
                await self.clock.pause(seconds)
                for one in monitors:
                    one.stop()
                await asyncio.gather(*tasks)

        self.clock.run(all_of_them())

    def monitor(self) -> Monitor:
        return Monitor(Ports(self.registry, self, self, self, self), self.policy)

    def host(self, number: int) -> Host:
        return list(self.hosts.values())[number]

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _is_away(self, source: str) -> bool:
        return source in self.away and self.away[source](self._now())

    def _reach(self, source: str) -> None:
        if self._is_away(source):
            raise UnavailableError(f"{source} is away")

    # Registry

    def expected(self) -> ExpectedFleet:
        self._reach("registry")
        now = self._now()

        def at(seconds: float | None) -> datetime | None:
            return None if seconds is None else BEGAN + timedelta(seconds=seconds)

        instances = tuple(
            ExpectedInstance(
                one.instance_id,
                one.instance_id,
                one.cell,
                one.status,
                self.recorded.get(one.instance_id),
                at(one.gone_at),
                one.busy,
                self.reported.get(one.instance_id),
            )
            for one in self.hosts.values()
        )
        day = BEGAN + timedelta(seconds=now - 86_400)
        repairs = tuple(one for one in self.repairs if one.began_at >= day)
        return ExpectedFleet(BEGAN + timedelta(seconds=now), at(self.listed_at), instances, repairs)

    def record_reported(self, reported: Mapping[InstanceId, GatewayHealth | None]) -> None:
        self._reach("registry")
        self.reported.update(reported)

    def record_heartbeats(self, beats: Mapping[InstanceId, datetime]) -> int:
        self._reach("registry")
        self.recorded.update(beats)
        return len(beats)

    def figures(self, fleet: ExpectedFleet) -> Figures:
        return Figures({one.id: fleet.now - timedelta(hours=3) for one in fleet.instances})

    # Prometheus

    async def query(self, promql: str) -> list[Any]:
        assert METRIC in promql
        self._reach("prometheus")
        now, found = self._now(), []
        for host in self.hosts.values():
            sent = now - now % HEARTBEATS_EVERY_S
            if host.answers(sent) and not host.mute(sent):
                host.beat_at = sent
            if host.beat_at is not None and now - host.beat_at < 300:
                at = (BEGAN + timedelta(seconds=host.beat_at)).timestamp()
                for what in ("written", "sampled"):
                    labels = {"instance_id": host.instance_id, "what": what}
                    found.append({"metric": labels, "value": [at, str(at)]})
                said = {"instance_id": host.instance_id, "what": "gateway", "status": self.gateway.value}
                found.append({"metric": said, "value": [at, "1"]})
        return found

    async def push(self, text: str) -> None:
        self.pushed.append(text)

    # Vendor and machines

    async def list(self) -> None:
        self._reach("justavps")
        self.listed_at = self._now()

    async def ask(self, instance_id: InstanceId) -> Answers:
        self.asked.append((self._now(), instance_id))
        if self._is_away("justavps"):
            return Answers("")
        await self.clock.pause(self.asking_takes_s)
        host = self.hosts[instance_id]

        def by(way: str) -> Answer:
            return Answer.YES if host.answers(self._now()) and not self._is_away(way) else Answer.SILENT

        return Answers(host.status, by("toolbox"), by("proxy"))

    async def cost(self) -> Mapping[str, float]:
        return {}

    # Operations

    async def run(self, wanted: Repairing) -> str:
        began, host = self._now(), self.hosts[wanted.instance_id]
        self.repaired.append((began, wanted))
        kind = RepairKind.REPLACE if isinstance(wanted, Replace) else RepairKind.REBOOT
        row = Repair(host.instance_id, kind, BEGAN + timedelta(seconds=began))
        self.repairs.append(row)
        host.busy = "operation 1 (reboot) has not ended"
        try:
            await self.clock.pause(BOOT_S)
            if not host.is_broken or isinstance(wanted, Replace):
                host.status, host.dead_from, host.is_broken, host.gone_at = "ready", float("inf"), False, None
            while not host.answers(self._now()):
                if self._now() - began > LONGEST_S:
                    raise RefusedError("it does not answer")
                await self.clock.pause(5)
        finally:
            host.busy = ""
            has_failed = not host.answers(self._now())
            self.repairs.remove(row)
            ended = BEGAN + timedelta(seconds=self._now())
            self.repairs.append(Repair(host.instance_id, kind, row.began_at, ended, has_failed))
        return "it answers again"

    async def resume(self, operation_id: OperationId) -> str:
        raise AssertionError(operation_id)


def without_threads(patch: pytest.MonkeyPatch) -> None:
    """Let registry calls be made at once: a thread takes real time, and none passes here."""

    async def at_once(call: Callable[..., T], *args: Any, **options: Any) -> T:  # noqa: ANN401 - whatever it takes
        return call(*args, **options)

    for module in (runner, lease_module):
        patch.setattr(module, "in_db_thread", at_once)

    def monotonic() -> float:
        return asyncio.get_running_loop().time()

    patch.setattr("hermesops.store.operations.lease.time.monotonic", monotonic)


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
