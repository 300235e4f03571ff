"""A fleet in memory under a rollout: rows, machines that change by themselves, and a runner that dies when told to.

A machine goes on whether anybody looks or not: it takes its time, waits to be confirmed, goes back at its deadline.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from hermesops.agents.rollout.operators.commands import Transition
from hermesops.agents.rollout.plan.batches import batches_of
from hermesops.agents.rollout.ports import (
    AlertState,
    ApprovalState,
    Comparison,
    HealthObservation,
    MessageComparison,
    Records,
)
from hermesops.agents.rollout.records.events import Event, Recorded, StateChanged, TargetsUpdated, WaitBegun, kind_of
from hermesops.agents.rollout.records.store import RolloutRows
from hermesops.agents.rollout.steps.actions import Decision
from hermesops.agents.rollout.steps.runner import Runner
from hermesops.agents.rollout.watch.health import RolloutHealth
from hermesops.errors import PartlyDoneError, RefusedError, UnavailableError
from hermesops.model.fleet.vitals import ChangeSpan, Liveness, Vital
from hermesops.model.ids import CellName, InstanceId
from hermesops.model.operation import Done, LeaseHeldError
from hermesops.model.plan import Plan
from hermesops.model.rollout.records import (
    Freeze,
    GateResult,
    ReleaseStatus,
    Rollout,
    RolloutId,
    RolloutState,
    RolloutTarget,
    Target,
    TargetState,
)
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import Action, HookGate, Spec
from tests.support.crash.death import Death
from tests.support.fakes.virtual_time import BEGAN, VirtualClock

OLD, NEW = "0.18.2-old", ReleaseId("0.19.0-new")
TAKES_S = 8.0
"""Seconds from being told to change to waiting for a word."""

QUICK = Spec(soak_s=60, settle_s=5, gates=replace(Spec().gates, probe=replace(Spec().gates.probe, share=0.5)))


@dataclass
class Machine:
    """One machine.

    Attributes:
        breaks: The new release does not start on it; it rolls back by itself, and tells.
        mute: Gives no answer.
        mute_once_touched: Likewise from when it is told to change.
        unwell: What is wrong with its agent before anything is changed.
        worked_on_s: Seconds from the beginning for which an operation of somebody else's keeps it from answering.
        confirm_error: Its gateway does not answer through the proxy on the new release.
        loses: Answers to ``activate`` that get lost.
        misses: Calls of ``activate`` that do not arrive.
        hangs: What it never comes to an end with: ``observe``, ``agent``, ``fetch``, ``activate``, ``confirm``,
            ``roll_back``, ``cancel``.
        provokes: What our own code raises when it is asked, as a bug in it does.
        begun: How often it began to change.
        halfway: Each change of it stops with a part done, as where the vendor reports an error of a new machine.
        stalls: Stops on its way to the release, and does not go back by itself.
        settings_lost: The user's settings that are not in force once it went back.
    """

    current: str = OLD
    breaks: bool = False
    mute: bool = False
    mute_once_touched: bool = False
    unwell: str = ""
    worked_on_s: float = 0.0
    loses: int = 0
    misses: int = 0
    busy: str = ""
    absent: str = ""
    keeps: bool = False
    begun: int = 0
    backs: int = 0
    to: str = ""
    began_at: datetime | None = None
    confirm_s: float = 0.0
    history: list[str] = field(default_factory=list)
    last_failed: bool = False
    confirm_timed_out: bool = False
    last_to: str = ""
    confirm_error: bool = False
    cancelled: int = 0
    hangs: frozenset[str] = frozenset()
    provokes: Exception | None = None
    halfway: bool = False
    stalls: bool = False
    settings_lost: tuple[str, ...] = ()

    def advance(self, now: datetime) -> None:
        if self.began_at is None or self.stalls:
            return
        passed = (now - self.began_at).total_seconds()
        if passed < TAKES_S:
            return
        if self.breaks:
            self._end("failed", ok=False)
        elif passed >= TAKES_S + self.confirm_s:
            self._end("not confirmed", ok=False)
        else:
            self.current = self.to

    def _end(self, word: str, *, ok: bool) -> None:
        self.current = self.to if ok else OLD
        self.history.append(f"{len(self.history)} {self.to} {word}")
        self.last_to, self.last_failed, self.confirm_timed_out = self.to, not ok, word == "not confirmed"
        self.began_at, self.to = None, ""

    def confirm(self) -> None:
        self._end("confirmed", ok=True)

    def roll_back(self) -> None:
        if self.began_at is not None:
            self._end("told to go back", ok=False)
        elif self.current != OLD:
            self.current = OLD
            self.history.append(f"{len(self.history)} {OLD} confirmed")
            self.last_to, self.last_failed = OLD, False
        self.backs += 1

    @property
    def phase(self) -> str:
        return "" if self.began_at is None else "unconfirmed" if self.current == self.to else "switching"


class World(RolloutRows, RolloutHealth):
    """Everything outside the runner."""

    def __init__(self, targets: Sequence[Target], spec: Spec = QUICK, *, release: ReleaseId = NEW) -> None:
        self.clock = VirtualClock()
        self.death = Death()
        self.machines = {target.instance_id: Machine() for target in targets}
        self.placed = {target.id: target for target in batches_of(release, targets, spec)}
        self.rollout = Rollout(
            RolloutId("r1"), release, Action.SLOT, spec, RolloutState.PENDING, "because", "ada", BEGAN, BEGAN
        )
        self.events: list[Recorded[Event]] = []
        self.exposed: list[InstanceId] = []
        self.told: list[str] = []
        self.frozen = list[Freeze]()
        self.liveness_of: dict[InstanceId, Liveness] = {}
        self.comparisons: tuple[Comparison, ...] | None = None
        self.messages: MessageComparison | None = None
        self.worse: dict[Vital, float] = {}  # by which factor the new release changes a figure
        self.drilled = GateResult.PASS
        self.hooked = GateResult.PASS
        self.approval: ApprovalState | None = None  # what its check says; all that was approved, unless set
        self.alerts = AlertState()
        self.most_changing = 0
        self.going_back = 0
        self.most_going_back = 0
        self.looks = 0

    # Rows

    async def read(self) -> Records:
        latest = {kind_of(event.event): event for event in self.events}
        placed = tuple(sorted(self.placed.values(), key=lambda target: target.position))
        return Records(self.rollout, placed, tuple(latest.values()), tuple(self.frozen))

    async def state(self) -> RolloutState:
        return self.rollout.state

    async def put_targets(self, *targets: RolloutTarget) -> None:
        self.death.point()
        self.placed.update({target.id: target for target in targets})
        self.death.point()

    async def change(self, was: Rollout, rollout: Rollout, event: Recorded[Event]) -> bool:
        self.death.point()
        if was != self.rollout:
            return False
        self.rollout = rollout
        self._append(event)
        self.death.point()
        return True

    async def add_event(self, event: Recorded[Event]) -> None:
        self.death.point()
        self._append(event)
        self.death.point()

    async def add_exposure(self, instance_id: InstanceId, release: ReleaseId) -> None:
        assert release == self.rollout.release
        self.death.point()
        if instance_id not in self.exposed:
            self.exposed.append(instance_id)
        self.death.point()

    def _append(self, event: Recorded[Event]) -> None:
        self.events.append(replace(event, id=len(self.events) + 1))

    # Machines

    async def observe(self, instance_id: InstanceId) -> ReleaseStatus:
        await self._stall(instance_id, "look")
        machine = self._left_alone(instance_id)
        self._count()
        return ReleaseStatus(
            machine.current,
            activation=machine.to,
            phase=machine.phase,
            last=machine.history[-1] if machine.history else "",
            last_to=machine.last_to,
            last_failed=machine.last_failed,
            confirm_timed_out=machine.confirm_timed_out,
            why=machine.history[-1].partition(f"{machine.last_to} ")[2] if machine.last_failed else "",
            reverts=not machine.stalls,
            busy=machine.busy,
            absent=machine.absent,
        )

    async def observe_agent(self, target: Target) -> str:
        await self._stall(target.instance_id, "agent")
        return self._left_alone(target.instance_id).unwell

    async def fetch(self, target: Target, release: ReleaseId) -> None:
        await self._stall(target.instance_id, "fetch")
        assert release == self.rollout.release
        self._reach(target.instance_id)
        self.death.point()
        await self.clock.pause(1)

    async def activate(self, target: Target, release: ReleaseId, spec: Spec) -> None:
        machine = self._reach(target.instance_id)
        if machine.misses:
            machine.misses -= 1
            raise UnavailableError("the call did not arrive")
        self.death.point()
        if machine.current != release and machine.began_at is None:
            machine.begun += 1
            machine.to, machine.began_at, machine.confirm_s = release, self.clock.now(), spec.confirm_s
            machine.mute = machine.mute_once_touched
        self.death.point()
        self._count()
        await self._stall(target.instance_id, "activate")
        if machine.halfway:
            raise PartlyDoneError("machine m-2 has status error and did not recover")
        if machine.loses:
            machine.loses -= 1
            raise UnavailableError("the answer was lost")
        await self.clock.pause(TAKES_S)
        machine = self._reach(target.instance_id)
        if machine.breaks:
            raise RefusedError("the gateway does not start")

    async def cancel(self, target: Target) -> None:
        await self._stall(target.instance_id, "cancel")
        self._reach(target.instance_id).cancelled += 1

    async def confirm(self, target: Target, release: ReleaseId) -> None:
        await self._stall(target.instance_id, "confirm")
        machine = self._reach(target.instance_id)
        self.death.point()
        if machine.confirm_error:
            raise UnavailableError("its gateway gives no answer through the proxy")
        if machine.phase == "unconfirmed":
            machine.confirm()
        elif machine.current != release:
            raise RefusedError("it went back")
        self.death.point()

    async def roll_back(self, target: Target, *, lose: bool, even_revoked: bool = False) -> tuple[str, ...]:
        del even_revoked
        await self._stall(target.instance_id, "roll_back")
        machine = self._reach(target.instance_id)
        self.death.point()
        if machine.keeps and not lose:
            raise RefusedError("it would lose 3 rows written since")
        self.going_back += 1
        self.most_going_back = max(self.most_going_back, self.going_back)
        await self.clock.pause(3)
        self.going_back -= 1
        machine.roll_back()
        self.death.point()
        return machine.settings_lost

    async def drill(self, release: ReleaseId, before: str) -> tuple[GateResult, str]:
        assert (release, before) == (self.rollout.release, OLD)
        self.death.point()
        return self.drilled, "on a machine of the pool"

    async def _stall(self, instance_id: InstanceId, verb: str) -> None:
        machine = self.machines[instance_id]
        if machine.provokes is not None:
            raise machine.provokes
        if verb in machine.hangs:
            await asyncio.Event().wait()

    def _left_alone(self, instance_id: InstanceId) -> Machine:
        if self.clock.now() < BEGAN + timedelta(seconds=self.machines[instance_id].worked_on_s):
            raise LeaseHeldError("it is being worked on")
        return self._reach(instance_id)

    def _reach(self, instance_id: InstanceId) -> Machine:
        machine = self.machines[instance_id]
        machine.advance(self.clock.now())
        if machine.mute:
            raise UnavailableError("no answer")
        return machine

    def _count(self) -> None:
        changing = sum(machine.began_at is not None for machine in self.machines.values())
        self.most_changing = max(self.most_changing, changing)

    # Health, gates of others, people, freezes

    async def watch(
        self, changed: Mapping[InstanceId, ChangeSpan], untouched: Sequence[InstanceId], vitals: Sequence[str]
    ) -> HealthObservation:
        self.looks += 1
        well = {each: Liveness(answers=True, exercised=True) for each in changed}
        if self.comparisons is not None:
            return HealthObservation(well | self.liveness_of, self.comparisons)
        return HealthObservation(
            well | {each: liveness for each, liveness in self.liveness_of.items() if each in changed},
            tuple(
                Comparison(
                    Vital(vital),
                    dict.fromkeys(changed, (1.0, self.worse.get(Vital(vital), 1.0))),
                    dict.fromkeys(untouched[:64], (1.0, 1.0)),
                    dict.fromkeys(changed, self.worse.get(Vital(vital), 1.0)),
                )
                for vital in vitals
            ),
            self._messages_of(changed, untouched),
        )

    def _messages_of(
        self, changed: Mapping[InstanceId, ChangeSpan], untouched: Sequence[InstanceId]
    ) -> MessageComparison | None:
        """The messages of this world, of those that are looked at."""
        if self.messages is None:
            return None
        canaries = {each: exchange for each, exchange in self.messages.canaries.items() if each in changed}
        controls = {each: exchange for each, exchange in self.messages.controls.items() if each in set(untouched)}
        return MessageComparison(canaries, controls)

    async def stop(self) -> None:
        """There is nobody to wait for."""

    async def ask(self, hook: HookGate, rollout: Rollout) -> tuple[GateResult, str]:
        assert rollout.id == self.rollout.id
        return self.hooked, hook.name

    async def check(self, records: Records) -> ApprovalState:
        return self.approval or ApprovalState(records.rollout.decisions.approved)

    async def check_alerts(self) -> AlertState:
        return self.alerts

    async def notify(self, rollout: Rollout, event: Recorded[StateChanged]) -> None:
        assert rollout.id == self.rollout.id
        self.death.point()
        self.told.append(event.event.after.value)
        self.death.point()

    # Running it

    def runner(self) -> Runner:
        return Runner(
            *(self, self),
            health=self,
            now=self.clock.now,
            ask_hook=self.ask,
            notify=self.notify,
            check_approval=self.check,
            check_alerts=self.check_alerts,
        )

    async def drive(self) -> str:
        """Bring it to its end, as the operations' loop does."""
        runner = self.runner()
        while True:
            observation = await runner.observe()
            step = runner.decide(observation)
            if isinstance(step, Done):
                return step.outcome
            assert isinstance(step, Decision)
            await runner.do(step, observation)

    def run(self, *, for_s: float | None = None, word: Callable[[], bool] | None = None) -> str:
        """Drive it in virtual time.

        Args:
            for_s: Leave it after so many seconds, whatever it is doing.
            word: Called every second until it says that it has said something.
        """

        async def driven() -> str:
            speaking = asyncio.ensure_future(self._speak(word)) if word else None
            try:
                async with asyncio.timeout(for_s):
                    return await self.drive()
            except TimeoutError:
                return ""
            finally:
                if speaking:
                    speaking.cancel()

        return self.clock.run(driven())

    async def _speak(self, word: Callable[[], bool]) -> None:
        while not word():
            await self.clock.pause(1)

    def say(self, steered: Transition) -> None:
        """What an operator's command writes."""
        for target in steered.targets:
            self.placed[target.id] = target
        self.rollout = steered.rollout
        self._append(steered.event)

    @property
    def now(self) -> datetime:
        return BEGAN + timedelta(seconds=self.clock.seconds)

    # Questions of tests

    def count(self, *states: TargetState) -> int:
        return sum(target.state in states for target in self.placed.values())

    def on(self, release: str) -> int:
        return sum(machine.current == release for machine in self.machines.values())

    def begun(self) -> int:
        """How many machines were ever told to change."""
        return sum(machine.begun > 0 for machine in self.machines.values())

    def nth(self, position: int) -> RolloutTarget:
        """The target at a place of the course."""
        return list(self.placed.values())[position]

    def machine_of(self, position: int) -> Machine:
        return self.machines[self.nth(position).id]

    def reasons(self, kind: type[TargetsUpdated | WaitBegun]) -> list[str]:
        return [event.event.why for event in self.events if isinstance(event.event, kind)]


def fleet(size: int) -> list[Target]:
    """Instances of two plans in cells of 40."""
    return [
        Target(
            InstanceId(str(UUID(int=number << 80))),
            f"user{number}",
            Plan.HEAVY if number % 4 == 0 else Plan.LIGHT,
            CellName(f"cell{number // 40 + 1}"),
            "hel1",
            OLD,
            OLD.partition("-")[0],
        )
        for number in range(size)
    ]
