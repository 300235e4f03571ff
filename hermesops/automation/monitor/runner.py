"""The monitor: reads heartbeats, asks machines that are silent, has dead ones repaired, and tells of itself.

Of several monitors on one registry the one that holds the lease acts; another follows when it dies. What was done to an
instance is read from the registry each time, so that a monitor that is killed or replaced forgets nothing.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import structlog

from hermesops.automation.monitor.controls import Ways, ask_all, controls
from hermesops.automation.monitor.decide import About, Ask, Policy, Verdict, decide
from hermesops.automation.monitor.facts import FleetFacts, InstanceFacts, PastRepair, answered
from hermesops.automation.monitor.metrics.exposition import Series, series
from hermesops.automation.monitor.metrics.figures import Figures
from hermesops.automation.monitor.metrics.heartbeats import QUERY, Heartbeat, changed, latest, newer, parse, possible
from hermesops.automation.monitor.metrics.monitor_metrics import MonitorMetrics, Tally, of_instances
from hermesops.automation.monitor.ports import Ports
from hermesops.automation.monitor.repairs import Conditions, RepairsUnderWay
from hermesops.automation.monitor.service import REASON
from hermesops.automation.monitor.sources import Source, Sources
from hermesops.base.fan_out import Limits
from hermesops.errors import HermesError
from hermesops.model.fleet.health import SILENT_S, Answers
from hermesops.model.fleet.overview import ExpectedFleet, ExpectedInstance
from hermesops.model.ids import InstanceId
from hermesops.model.operation import MONITOR_SUBJECT, Lease, LeaseHeldError
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.operations.leases.keeper import LeaseKeeper

PASS_S = 15.0
"""Seconds from the begin of one pass to the next."""

_LISTING_S = 300.0
"""Seconds from one listing of all machines to the next: it is tens of megabytes for a large fleet."""

_LISTING_ALONE_S = 60.0
"""The same while heartbeats are not known."""

_STALE_LISTING_S = 600.0
"""Age of a listing from which on it counts for nothing."""

_FIGURES_S = 60.0
_COST_S = 600.0
_ASK_AGAIN_S = 20.0
_ASK_ALIVE_AGAIN_S = 300.0
"""Seconds after which a machine is asked again that answered, though it sends no heartbeats."""

_WAYS_S = 60.0
"""Seconds from one trial of the ways to machines to the next."""

_WAYS_AGAIN_S = 15.0
"""The same after one in which a way failed."""

_ASKING = Limits(at_once=24, slow_after_s=15.0, within_s=30.0)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Pass:
    """The result of the last pass; for people, and for tests.

    Attributes:
        knows_heartbeats: Whether heartbeats could be read.
    """

    expected: int
    knows_heartbeats: bool
    verdict: Verdict
    sources: Mapping[Source, bool]


class Monitor:
    """Watches until a stop is requested.

    Args:
        every_s: Seconds from the begin of one pass to the next.
        grace_s: Seconds for repairs under way to end after a stop was requested; others continue them.
    """

    def __init__(
        self,
        ports: Ports,
        policy: Policy,
        *,
        every_s: float = PASS_S,
        grace_s: float = 60.0,
    ) -> None:
        self.tally = tally = Tally()
        self.last: Pass | None = None
        self._registry = ports.registry
        self._read_figures = ports.figures
        self._metrics = ports.metrics
        self._machines = ports.machines
        self._notify = ports.notify
        self._policy = policy
        self._every_s = every_s
        self._grace_s = grace_s
        self._stopping = asyncio.Event()
        self._sources = Sources()
        self._ways = Ways(ports.machines.ask, self._sources)
        self._own_metrics = MonitorMetrics(ports.metrics, self._sources, tally)
        self._repairs = RepairsUnderWay(ports.registry, ports.repairs, tally)
        self._asked: dict[InstanceId, tuple[float, bool]] = {}
        self._told: dict[InstanceId, str] = {}
        self._stops: frozenset[str] = frozenset()
        self._due: dict[str, float] = {}
        self._figures = Figures()
        self._cost: Mapping[str, float] = {}
        self._passed_at: datetime | None = None
        self._took_s = 0.0

    def stop(self) -> None:
        """Begin no other pass, and return from ``run`` when repairs under way have ended or their time is up."""
        self._stopping.set()

    async def run(self, *, once: bool = False) -> Tally:
        """Watch until a stop is requested.

        Args:
            once: Make one pass, unless another monitor leads, and wait for the repairs that it began.

        Raises:
            HermesError: The one pass could not be made, as the registry does not answer or takes no write.
        """
        self._notify("READY=1")
        try:
            while not self._stopping.is_set():
                await self._try_to_lead(once=once)
                if once:
                    break
                await self._rest(self._every_s)
            await self._repairs.finish(float("inf") if once else self._grace_s)
        finally:
            self._notify("STOPPING=1")
        return self.tally

    async def _try_to_lead(self, *, once: bool) -> None:
        self._notify("WATCHDOG=1")
        try:
            async with LeaseKeeper(self._registry, MONITOR_SUBJECT) as keeper:
                _log.info("monitor_leads")
                self.tally.follows = ""
                self.tally.was_leader = True
                await keeper.guard(self._lead(keeper.lease, once=once))
        except LeaseHeldError as held:
            if self.tally.follows != held.holder:
                self.tally.follows = held.holder
                _log.info("monitor_stands_by", leader=held.holder)
        except HermesError as error:
            self._sources.down(Source.REGISTRY, error.message)
            await self._own_metrics.push_cut_off(0.0, self._stops)
            if once:
                raise

    async def _lead(self, lease: Lease, *, once: bool) -> None:
        try:
            await self._watch(lease, once=once)
        finally:
            await self._ways.stop()

    async def _watch(self, lease: Lease, *, once: bool) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            began = loop.time()
            try:
                await self._pass(lease, once=once)
            except HermesError as error:
                self._sources.down(Source.REGISTRY, error.message)
                await self._own_metrics.push_cut_off(loop.time() - began, self._stops)
                if once:
                    raise
            except Exception:
                if once:
                    raise
                # A bug that one of many instances provokes must not end the watch over the others.
                _log.exception("pass_broke")
            self._notify("WATCHDOG=1")
            if once:
                return
            await self._rest(began + self._every_s - loop.time())

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), max(seconds, 0.01))

    # One pass

    async def _pass(self, lease: Lease, *, once: bool) -> None:
        began = asyncio.get_running_loop().time()
        await self._list_machines()
        fleet = await in_db_thread(self._registry.fleet.expected, reason=REASON)
        self._sources.up(Source.REGISTRY)
        self._forget_before_pause(fleet.now)
        if self._is_due("figures", _FIGURES_S):
            self._figures = await in_db_thread(self._read_figures, fleet)
        beats = await self._heartbeats(fleet)
        is_settled = once or self._sources.answers_for_s(Source.PROMETHEUS) >= SILENT_S
        facts = self._facts(fleet, beats or {}, knows_heartbeats=beats is not None and is_settled)
        if not once and self._is_due("ways", _WAYS_AGAIN_S if self._ways.are_doubtful else _WAYS_S):
            self._ways.begin(controls(facts, beats or {}))
        verdict, observed_at = decide(facts, self._policy), fleet.now
        if verdict.asks:
            observed_at = await in_db_thread(self._registry.now)
            answers = await self._ask([ask.instance_id for ask in verdict.asks])
            self._note_listing(facts, answers)
            is_any_silent = any(answer.is_silent for answer in answers.values())
            works = await self._ways.work(controls(facts, beats or {})) if is_any_silent else None
            verdict = decide(answered(facts, answers, asking_works=works), self._policy)
        self._log_changes(verdict)
        self._repairs.begin(verdict, Conditions(lease, observed_at))
        self.tally.passes += 1
        self.last = Pass(len(fleet.instances), facts.knows_heartbeats, verdict, self._sources.all())
        took_s = asyncio.get_running_loop().time() - began
        of_fleet = {**of_instances(fleet, self._figures), **self._figures.series, **await self._costs()}
        await self._own_metrics.push_pass(took_s, self._stops, of_fleet)
        self._took_s = asyncio.get_running_loop().time() - began

    def _forget_before_pause(self, now: datetime) -> None:
        """Forget observations of before a pause: another monitor led, or this process or its computer stood still.

        Heartbeats of that time may not have arrived, and a machine that answered before may be dead now. The registry's
        clock tells: the event loop's stands still while a computer sleeps. A pass over a large fleet may take minutes:
        that is no pause.
        """
        planned_s = max(self._every_s, self._took_s)
        if self._passed_at is not None and (now - self._passed_at).total_seconds() > planned_s + SILENT_S:
            self._sources.forget(Source.PROMETHEUS)
            self._asked.clear()
        self._passed_at = now

    async def _list_machines(self) -> None:
        """Have all machines listed, where that is due."""
        knows = self._sources.all().get(Source.PROMETHEUS, False)
        if not self._is_due("listing", _LISTING_S if knows else _LISTING_ALONE_S):
            return
        try:
            await self._machines.list()
        except HermesError as error:
            self._sources.down(Source.JUSTAVPS, error.message)
            self._due.pop("listing", None)
        else:
            self._sources.up(Source.JUSTAVPS)

    async def _heartbeats(self, fleet: ExpectedFleet) -> dict[InstanceId, Heartbeat] | None:
        """Read and record heartbeats; ``None`` where they are not known."""
        if self._metrics is None:
            return None
        try:
            beats = parse(await self._metrics.query(QUERY), now_s=fleet.now.timestamp())
        except HermesError as error:
            self._sources.down(Source.PROMETHEUS, error.message)
            return None
        self._sources.up(Source.PROMETHEUS)
        await in_db_thread(self._registry.fleet.record_reported, changed(fleet.instances, beats))
        heartbeats = newer(fleet.instances, beats)
        self.tally.heartbeats += await in_db_thread(self._registry.fleet.record_heartbeats, heartbeats)
        return beats

    def _facts(
        self, fleet: ExpectedFleet, beats: Mapping[InstanceId, Heartbeat], *, knows_heartbeats: bool
    ) -> FleetFacts:
        now_s, clock = fleet.now.timestamp(), asyncio.get_running_loop().time()
        listed_s = None if fleet.listed_at is None else now_s - fleet.listed_at.timestamp()
        is_listed = listed_s is not None and listed_s <= _STALE_LISTING_S
        backed_up = self._figures.backed_up_at

        def of(instance: ExpectedInstance) -> InstanceFacts:
            beat = beats.get(instance.id) or Heartbeat()
            recorded = possible(instance.last_heartbeat, now_s)
            written, last = latest(beat.written, recorded), latest(beat.last, recorded)
            backup_at = backed_up.get(instance.id)
            return InstanceFacts(
                instance.id,
                instance.user,
                instance.cell,
                instance.machine_status if is_listed else "",
                None if written is None else now_s - written,
                None if last is None else now_s - last,
                None if instance.gone_at is None else now_s - instance.gone_at.timestamp(),
                instance.busy,
                None if backup_at is None else now_s - backup_at.timestamp(),
                self._asked_s(instance.id, clock),
                self._asked.get(instance.id, (0.0, False))[1],
            )

        repairs = tuple(PastRepair.of(repair, now_s) for repair in fleet.repairs)
        return FleetFacts(tuple(map(of, fleet.instances)), repairs, fleet.left, knows_heartbeats=knows_heartbeats)

    def _asked_s(self, instance_id: InstanceId, clock: float) -> float | None:
        asked_at, was_alive = self._asked.get(instance_id, (0.0, False))
        if instance_id not in self._asked or clock - asked_at >= (_ASK_ALIVE_AGAIN_S if was_alive else _ASK_AGAIN_S):
            return None
        return clock - asked_at

    async def _ask(self, whom: list[InstanceId]) -> dict[InstanceId, Answers]:
        replies = await ask_all(self._machines.ask, whom, _ASKING)
        clock = asyncio.get_running_loop().time()
        self._asked = {
            instance_id: at for instance_id, at in self._asked.items() if clock - at[0] < 2 * _ASK_ALIVE_AGAIN_S
        }
        answers = dict(zip(whom, replies, strict=True))
        for instance_id, answer in answers.items():
            self._asked[instance_id] = clock, answer.is_alive
        if any(answer.machine for answer in answers.values()):
            self._sources.up(Source.JUSTAVPS)
        elif answers:
            self._sources.down(Source.JUSTAVPS, "it did not tell of any machine that was asked about")
        return answers

    def _note_listing(self, facts: FleetFacts, answers: Mapping[InstanceId, Answers]) -> None:
        """Have machines listed in the next pass if one differs from the last listing."""
        listed = {instance.id: instance.machine for instance in facts.instances if instance.id in answers}
        if any(answer.machine not in {"", listed[instance_id]} for instance_id, answer in answers.items()):
            self._due.pop("listing", None)

    # What follows

    def _log_changes(self, verdict: Verdict) -> None:
        """Log changed decisions about instances, changed reasons to stop, and the end of either."""
        now = {decision.instance_id: decision for decision in verdict.decisions if isinstance(decision, About)}
        for instance_id, decision in now.items():
            sort = type(decision).__name__
            if self._told.get(instance_id) != sort and not isinstance(decision, Ask):
                _log.warning("instance_seems_dead", user=decision.user, decision=sort, why=decision.why)
        for instance_id in self._told.keys() - now.keys():
            _log.info("instance_seems_dead_no_more", instance=instance_id)
        self._told = {instance_id: type(decision).__name__ for instance_id, decision in now.items()}
        stops = frozenset(reason.value for reason in verdict.stopped)
        for reason, why in verdict.stopped.items():
            if reason.value not in self._stops:
                _log.error("monitor_stopped_acting", reason=reason.value, why=why)
        for ended in self._stops - stops:
            _log.info("monitor_acts_again", reason=ended)
        self._stops = stops

    async def _costs(self) -> dict[Series, float]:
        if self._metrics is not None and self._is_due("cost", _COST_S):
            with contextlib.suppress(HermesError):  # that the vendor is away is told by its source
                self._cost = await self._machines.cost()
        return {
            series("hermesops_fleet_cost_usd_per_month", cell=cell): dollars for cell, dollars in self._cost.items()
        }

    def _is_due(self, what: str, every_s: float) -> bool:
        """Whether something has to be done again; it counts as done from then on."""
        clock = asyncio.get_running_loop().time()
        if what in self._due and clock - self._due[what] < every_s:
            return False
        self._due[what] = clock
        return True
