"""A rollout as work for the operations' loop: see it, decide, do, write down what was decided and from what."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from hermesops.errors import HermesError, RefusedError, UnavailableError, problem_of
from hermesops.fan_out import Limits, fan_out
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Done
from hermesops.model.rollout import GateResult, Progress, RolloutState, RolloutTarget, TargetState
from hermesops.rollout import decide as deciding
from hermesops.rollout.actions import (
    AskHook,
    Change,
    Decision,
    DeployTargets,
    Drill,
    Notify,
    RollBackTargets,
    UpdateTargets,
    Wait,
)
from hermesops.rollout.events import (
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
from hermesops.rollout.gates.judgement import judge
from hermesops.rollout.observation import RolloutObservation
from hermesops.rollout.ports import (
    Asks,
    Calendar,
    ChecksApproval,
    Clock,
    Machines,
    Notifies,
    Records,
    Rows,
    Watched,
    Watches,
)
from hermesops.rollout.reports.progress_lines import narrate
from hermesops.rollout.target.executor import POLL_S, BatchExecutor
from hermesops.rollout.target.observations import Observations, TargetAnswers

WHO = "hermesops"
"""Who decided, where no operator did."""

_LOOKED_AT = frozenset({RolloutState.RUNNING, RolloutState.PAUSED})
"""States in which health is looked at."""

_SLOW_S, _BACK_S = 30.0, 300.0
"""Seconds for which a machine that goes back holds up others, and that it has."""

_SAMPLE = 64
"""So many of those changed are compared with others; all that soak are looked at, each for itself."""


class Runner:
    """The work of one rollout.

    Args:
        rows: Its rows, under the operation's lease.
        machines: Those of its targets.
        watches: Their health.
        asks: Gates that others keep.
        notifies: Who wants to know.
        calendar: Freezes.
        clock: The time.
        approvals: Checks who approved it.
    """

    def __init__(
        self,
        rows: Rows,
        machines: Machines,
        *,
        watches: Watches,
        asks: Asks,
        notifies: Notifies,
        calendar: Calendar,
        clock: Clock,
        approvals: ChecksApproval,
    ) -> None:
        self._rows = rows
        self._machines = machines
        self._watches = watches
        self._asks = asks
        self._notifies = notifies
        self._calendar = calendar
        self._clock = clock
        self._approvals = approvals
        self._executor = BatchExecutor(rows, machines, clock)
        self._observations = Observations(machines, clock)
        self._seen = TargetAnswers()

    async def observe(self) -> RolloutObservation:
        """Read what is written, and look at those that were changed."""
        records = await self._rows.read()
        watched = await self._watch(records)
        seen = await self._ask_ahead(records)
        freezes = tuple(await self._calendar.freezes())
        approval = await self._approvals.check(records)
        return RolloutObservation(
            self._clock.now(), records, watched, freezes, approval, seen.unanswered, seen.answered, seen.unwell
        )

    def decide(self, seen: RolloutObservation) -> Decision | Done:
        """The next step for what was seen."""
        return deciding.decide(seen)

    def describe(self, step: Decision, seen: RolloutObservation) -> str:
        """How far the rollout is, and the decision."""
        return narrate(step, seen)

    async def do(self, step: Decision, seen: RolloutObservation) -> None:
        """Do one step; harmless when it was done before."""
        match step.step:
            case Wait(seconds=seconds):
                await self._wait(step, seen, seconds)
            case Change(state=state):
                await self._change(step, seen, state)
            case UpdateTargets(targets=targets):
                await self._record(TargetsUpdated(step.why, _ids(targets)), step.evidence)
                await self._rows.put_targets(*targets)
            case Notify(event=event):
                await self._notify(seen, event)
            case DeployTargets(targets=targets):
                await self._run_batch(step, seen, targets)
            case RollBackTargets(targets=targets, at_once=at_once):
                await self._record(RollbackBegun(step.why, _ids(targets)), step.evidence)
                await self._roll_back(seen, targets, at_once)
            case Drill(before=before):
                result, detail = await self._drill(seen, before)
                await self._record(DrillEnded(result, step.why, detail), step.evidence)
            case AskHook(hook=hook, stage=stage):
                result, detail = await self._asks.ask(hook, seen.rollout)
                await self._record(GateAnswered(hook.name, result, stage, step.why, detail), step.evidence)
            case _ as never:
                assert_never(never)

    async def _ask_ahead(self, records: Records) -> TargetAnswers:
        """See who answers of those whose turn comes next."""
        rollout = records.rollout
        if rollout.state is not RolloutState.RUNNING or rollout.spec.emergency:
            await self._observations.stop()
            return TargetAnswers()
        if self._executor.is_busy:  # a gate may have failed: nothing comes before what it says
            return self._seen
        waiting = [target for target in records.targets if target.state is TargetState.WAITING]
        self._seen = await self._observations.ask(rollout, waiting)
        return self._seen

    async def _watch(self, records: Records) -> Watched:
        """Those that soak, and the last that did; those untouched in the order in which their turn comes."""
        if records.rollout.state not in _LOOKED_AT:
            await self._watches.stop()
            return Watched()
        runs = [one for one in records.targets if one.progress.on_release and one.state.is_well]
        soaking = [one for one in runs if one.state is TargetState.SOAKING]
        through = [one for one in runs if one.state is not TargetState.SOAKING]
        spare = max(0, _SAMPLE - len(soaking))
        sample = [*(through[-spare:] if spare else ()), *soaking]
        changed = {one.id: one.progress.confirmed_at for one in sample if one.progress.confirmed_at}
        untouched = [target.id for target in records.targets if target.state is TargetState.WAITING]
        try:
            return await self._watches.watch(changed, untouched, records.rollout.spec.gates.health.vitals)
        except HermesError:  # no data is never a pass, and no reason to leave a rollout alone
            return Watched()

    async def _change(self, step: Decision, seen: RolloutObservation, state: RolloutState) -> None:
        was = seen.rollout
        changed = replace(was, state=state, reason=step.why, who=WHO)
        event = Recorded(self._clock.now(), StateChanged(was.state, state, step.why), step.evidence)
        await self._rows.change(was, changed, event)

    async def _wait(self, step: Decision, seen: RolloutObservation, seconds: float) -> None:
        """Let time pass, and end that as soon as somebody says something."""
        waited = seen.records.newest(WaitBegun)
        if waited is None or waited.event.why != step.why:
            await self._record(WaitBegun(step.why), step.evidence)
        ends = self._clock.now().timestamp() + seconds
        while self._clock.now().timestamp() < ends and await self._rows.state() is seen.rollout.state:
            await self._clock.pause(min(POLL_S, max(0.0, ends - self._clock.now().timestamp())))

    async def _notify(self, seen: RolloutObservation, event: Recorded[StateChanged]) -> None:
        # Whoever wants to know must not keep a rollout from halting.
        problem = await problem_of(self._notifies.notify(seen.rollout, event))
        await self._record(Notified(event.id, problem))

    async def _run_batch(self, step: Decision, seen: RolloutObservation, targets: tuple[RolloutTarget, ...]) -> None:
        await self._record(BatchBegun(step.why, _ids(targets)), step.evidence)

        def is_enough(ended: list[RolloutTarget]) -> bool:
            now = {target.id: target for target in ended}
            merged = tuple(now.get(target.id, target) for target in seen.targets)
            judgement = judge(seen.rollout, merged, Watched(), at_end=False)
            return judgement.failures.result is GateResult.FAIL

        ended = await self._executor.run(seen.rollout, targets, is_enough)
        outcomes = (
            TargetOutcome(one.id, one.stage, one.batch, one.state, one.detail)
            for one in sorted(ended, key=lambda each: each.position)
        )
        await self._record(BatchEnded(tuple(outcomes)))

    async def _roll_back(self, seen: RolloutObservation, targets: tuple[RolloutTarget, ...], at_once: int) -> None:
        async def one(target: RolloutTarget) -> None:
            await self._rows.put_targets(await self._returned(seen, target))

        for outcome in await fan_out(targets, one, Limits(at_once, slow_after_s=_SLOW_S, within_s=2 * _BACK_S)):
            if isinstance(outcome, HermesError):
                raise outcome

    async def _returned(self, seen: RolloutObservation, target: RolloutTarget) -> RolloutTarget:
        """Put one target's machine back, and say how it stands then."""
        well = target.state.is_well
        try:
            await self._roll_back_target(seen, target)
        except RefusedError as error:
            progress = replace(target.progress, stuck=error.message)
            return self._stands(target, TargetState.KEPT if well else target.state, error.message, progress)
        except HermesError as error:
            progress = replace(target.progress, stuck=error.message)
            return self._stands(target, target.state, f"not put back: {error.message}", progress)
        state = TargetState.ROLLED_BACK if well else target.state
        detail = target.detail if well or not target.detail else f"{target.detail}; put back"
        progress = replace(target.progress, on_release=False, confirmed_at=None, unwell_since=None)
        return self._stands(target, state, detail, progress)

    async def _roll_back_target(self, seen: RolloutObservation, target: RolloutTarget) -> None:
        try:
            async with asyncio.timeout(_BACK_S) as limit:
                said = seen.rollout.decisions
                await self._machines.back(target.facts, seen.spec, lose=said.may_lose, even_revoked=said.even_revoked)
        except TimeoutError:
            if not limit.expired():
                raise
            raise UnavailableError(f"its machine did not come to an end within {_BACK_S:g} s") from None

    def _stands(self, target: RolloutTarget, state: TargetState, detail: str, progress: Progress) -> RolloutTarget:
        """A target as it stands now; a state that it had already keeps its time."""
        at = target.updated_at if state is target.state else self._clock.now()
        return replace(target, state=state, detail=detail, progress=progress, updated_at=at)

    async def _drill(self, seen: RolloutObservation, before: str) -> tuple[GateResult, str]:
        try:
            return await self._machines.drill(seen.rollout.release, before)
        except HermesError as error:
            return GateResult.INCONCLUSIVE, error.message

    async def _record(self, event: Event, evidence: Mapping[str, object] | None = None) -> None:
        await self._rows.add_event(Recorded(self._clock.now(), event, evidence or {}))


def _ids(targets: tuple[RolloutTarget, ...]) -> tuple[InstanceId, ...]:
    return tuple(target.id for target in targets)
