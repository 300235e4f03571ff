"""The work of a rollout's operation: observe, decide, do one step, and record it with the figures behind it."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import assert_never

from hermesops.agents.rollout import ports
from hermesops.agents.rollout.gates.judgement import judge
from hermesops.agents.rollout.ports import AlertState, HealthObservation, Records
from hermesops.agents.rollout.records.events import (
    BatchBegun,
    BatchEnded,
    DrillEnded,
    Event,
    GateAnswered,
    Notified,
    Recorded,
    RollbackBegun,
    StateChanged,
    TargetOutcome,
    TargetsUpdated,
    WaitBegun,
)
from hermesops.agents.rollout.records.store import RolloutRows
from hermesops.agents.rollout.reports.progress import narrate
from hermesops.agents.rollout.steps import actions
from hermesops.agents.rollout.steps.actions import Decision
from hermesops.agents.rollout.steps.decide import decide
from hermesops.agents.rollout.steps.observation import PreflightAnswers, RolloutObservation
from hermesops.agents.rollout.target.deployment import POLL_S
from hermesops.agents.rollout.target.executor import BatchExecutor
from hermesops.agents.rollout.target.preflight import Preflight
from hermesops.agents.rollout.watch.health import RolloutHealth
from hermesops.base.fan_out import Limits, fan_out
from hermesops.base.waiting import pause
from hermesops.errors import HermesError, RefusedError, problem_of
from hermesops.model.fleet.vitals import ChangeSpan
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Done
from hermesops.model.rollout.records import GateResult, Progress, Rollout, RolloutState, RolloutTarget, TargetState
from hermesops.model.rollout.spec import Action

WHO = "hermesops"
"""The author of decisions without an operator."""

_SLOW_S, _ROLLBACK_S = 30.0, 300.0
"""Seconds after which a machine that rolls back no longer holds up others, and after which it has failed to."""

_LEFT = "; hermesops operation list shows the relocation that is left"
"""The next command where an agent could not be brought back to a machine of its image."""

_SAMPLE = 64
"""How many changed targets are compared with others; all that soak are observed, each by itself."""


@dataclass
class Runner:
    """Runs one rollout: observes its targets, decides the next step, and executes it."""

    rows: RolloutRows
    machines: ports.Machines
    health: RolloutHealth
    now: Callable[[], datetime]
    ask_hook: ports.AskHook
    notify: ports.Notify
    check_approval: ports.CheckApproval
    check_alerts: ports.CheckAlerts
    _answers: PreflightAnswers = field(default_factory=PreflightAnswers, init=False)

    def __post_init__(self) -> None:
        self._executor = BatchExecutor(self.rows, self.machines, self.now)
        self._preflight = Preflight(self.machines, self.now)

    async def observe(self) -> RolloutObservation:
        """Read the rows, observe changed targets and ask those that are next."""
        records = await self.rows.read()
        health = await self._watch(records)
        answers = await self._ask_ahead(records)
        approval = await self.check_approval(records)
        # Alerts hold only what would go on.
        is_running = records.rollout.state is RolloutState.RUNNING
        alerts = await self.check_alerts() if is_running else AlertState()
        return RolloutObservation(self.now(), records, health, approval, answers, alerts)

    def decide(self, observation: RolloutObservation) -> Decision | Done:
        """The next step, or how the rollout ended."""
        return decide(observation)

    def describe(self, decision: Decision, observation: RolloutObservation) -> str:
        """The progress and the decision, in one line."""
        return narrate(decision, observation)

    async def do(self, decision: Decision, observation: RolloutObservation) -> None:
        """Do one step. Safe to repeat."""
        why, evidence = decision.why, decision.evidence
        match decision.step:
            case actions.Wait(seconds, is_held):
                await self._wait(decision, observation, seconds, is_held=is_held)
            case actions.Change(state):
                was = observation.rollout
                event = Recorded(self.now(), StateChanged(was.state, state, why), evidence)
                await self.rows.change(was, replace(was, state=state, reason=why, who=WHO), event)
            case actions.UpdateTargets(targets):
                await self._record(TargetsUpdated(why, _ids(targets)), evidence)
                await self.rows.put_targets(*targets)
            case actions.Notify(event=changed):
                # A webhook that is down must not keep a rollout from halting.
                problem = await problem_of(self.notify(observation.rollout, changed))
                await self._record(Notified(changed.id, problem))
            case actions.DeployTargets(targets):
                await self._record(BatchBegun(why, _ids(targets)), evidence)
                await self._run_batch(observation, targets)
            case actions.RollBackTargets(targets, at_once):
                await self._record(RollbackBegun(why, _ids(targets)), evidence)
                await self._roll_back(observation, targets, at_once)
            case actions.Drill(before):
                result, detail = await self._drill(observation, before)
                await self._record(DrillEnded(result, why, detail), evidence)
            case actions.AskHook(hook, stage):
                result, detail = await self.ask_hook(hook, observation.rollout)
                await self._record(GateAnswered(hook.name, result, stage, why, detail), evidence)
            case _ as never:
                assert_never(never)

    async def _ask_ahead(self, records: Records) -> PreflightAnswers:
        rollout = records.rollout
        if rollout.state is not RolloutState.RUNNING or rollout.spec.emergency:
            await self._preflight.stop()
            return PreflightAnswers()
        # A gate may have failed while targets changed: judge it first.
        if not self._executor.is_busy:
            waiting = [target for target in records.targets if target.state is TargetState.WAITING]
            self._answers = await self._preflight.ask(rollout, waiting)
        return self._answers

    async def _watch(self, records: Records) -> HealthObservation:
        """Observe all targets that soak, the last ones that have soaked, and the next ones that are untouched."""
        if records.rollout.state not in {RolloutState.RUNNING, RolloutState.PAUSED}:
            await self.health.stop()
            return HealthObservation()
        on_release = [target for target in records.targets if target.progress.on_release and target.state.is_well]
        soaking = [target for target in on_release if target.state is TargetState.SOAKING]
        soaked = [target for target in on_release if target.state is not TargetState.SOAKING]
        room = max(0, _SAMPLE - len(soaking))
        sample = [*(soaked[-room:] if room else ()), *soaking]
        changed = {
            target.id: ChangeSpan(target.touched_at or target.progress.confirmed_at, target.progress.confirmed_at)
            for target in sample
            if target.progress.confirmed_at
        }
        untouched = [target.id for target in records.targets if target.state is TargetState.WAITING]
        try:
            return await self.health.watch(changed, untouched, records.rollout.spec.gates.health.vitals)
        except HermesError:  # no data is never a pass, and no reason to stop the rollout's other work
            return HealthObservation()

    async def _wait(
        self, decision: Decision, observation: RolloutObservation, seconds: float, *, is_held: bool
    ) -> None:
        """Wait, at most until an operator gives a command."""
        waited = observation.records.newest(WaitBegun)
        newest = max((event.id for event in observation.records.latest), default=0)
        is_another = waited is None or waited.event.why != decision.why
        # Who looks at its progress has to read that something holds it again, after whatever happened since.
        if is_another or (is_held and waited is not None and waited.id != newest):
            await self._record(WaitBegun(decision.why), decision.evidence)
        ends = self.now().timestamp() + seconds
        while self.now().timestamp() < ends and await self.rows.state() is observation.rollout.state:
            await pause(min(POLL_S, max(0.0, ends - self.now().timestamp())))

    async def _run_batch(self, observation: RolloutObservation, targets: tuple[RolloutTarget, ...]) -> None:
        def has_failed(ended: list[RolloutTarget]) -> bool:
            now = {target.id: target for target in ended}
            merged = tuple(now.get(target.id, target) for target in observation.targets)
            judgement = judge(observation.rollout, merged, HealthObservation(), at_end=False)
            return judgement.failures.result is GateResult.FAIL

        ended = await self._executor.run(observation.rollout, targets, has_failed)
        outcomes = (
            TargetOutcome(target.id, target.stage, target.batch, target.state, target.detail)
            for target in sorted(ended, key=lambda each: each.position)
        )
        await self._record(BatchEnded(tuple(outcomes)))

    async def _roll_back(
        self, observation: RolloutObservation, targets: tuple[RolloutTarget, ...], at_once: int
    ) -> None:
        async def one(target: RolloutTarget) -> None:
            await self.rows.put_targets(await self._rolled_back(observation, target))

        limits = Limits(at_once, slow_after_s=_SLOW_S, within_s=2 * _rollback_s(observation.rollout))
        for outcome in await fan_out(targets, one, limits):
            if isinstance(outcome, HermesError):
                raise outcome

    async def _rolled_back(self, observation: RolloutObservation, target: RolloutTarget) -> RolloutTarget:
        """Roll one target's machine back; returns the target after it."""
        well, decisions = target.state.is_well, observation.rollout.decisions
        within_s = _rollback_s(observation.rollout)
        try:
            async with asyncio.timeout(within_s) as limit:
                lost = await self.machines.roll_back(
                    target.facts, lose=decisions.may_lose, even_revoked=decisions.even_revoked
                )
        except RefusedError as error:
            state = TargetState.KEPT if well else target.state
            return self._updated(target, state, error.message, replace(target.progress, stuck=error.message))
        except (HermesError, TimeoutError) as error:
            if isinstance(error, TimeoutError) and not limit.expired():
                raise
            too_slow = f"its machine did not roll back within {within_s:g} s"
            problem = error.message if isinstance(error, HermesError) else too_slow
            problem += _LEFT if observation.rollout.action is Action.MACHINE else ""
            progress = replace(target.progress, stuck=problem)
            return self._updated(target, target.state, f"not rolled back: {problem}", progress)
        state = TargetState.ROLLED_BACK if well else target.state
        words = [target.detail, "" if well or not target.detail else "rolled back", _words_of(lost)]
        detail = "; ".join(filter(None, words))
        progress = replace(target.progress, on_release=False, confirmed_at=None, unwell_since=None, settings_lost=lost)
        return self._updated(target, state, detail, progress)

    def _updated(self, target: RolloutTarget, state: TargetState, detail: str, progress: Progress) -> RolloutTarget:
        """The target with its time moved to now only where its state changes."""
        at = target.updated_at if state is target.state else self.now()
        return replace(target, state=state, detail=detail, progress=progress, updated_at=at)

    async def _drill(self, observation: RolloutObservation, before: str) -> tuple[GateResult, str]:
        try:
            return await self.machines.drill(observation.rollout.release, before)
        except HermesError as error:
            return GateResult.INCONCLUSIVE, error.message

    async def _record(self, event: Event, evidence: Mapping[str, object] | None = None) -> None:
        await self.rows.add_event(Recorded(self.now(), event, evidence or {}))


def _rollback_s(rollout: Rollout) -> float:
    """Seconds in which one target has to be back: a relocation takes as long back as it does forth."""
    return max(_ROLLBACK_S, rollout.spec.attempt_s) if rollout.action is Action.MACHINE else _ROLLBACK_S


def _words_of(settings_lost: tuple[str, ...]) -> str:
    return f"settings not in force any more: {', '.join(settings_lost)}" if settings_lost else ""


def _ids(targets: tuple[RolloutTarget, ...]) -> tuple[InstanceId, ...]:
    return tuple(target.id for target in targets)
