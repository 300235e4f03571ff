"""Interfaces of the runner to the outside world, and their data; failures are ``HermesError``."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from hermesops.agents.rollout.records.events import E_co, Event, GateAnswered, Recorded, StateChanged
from hermesops.model.fleet.alert import Alert
from hermesops.model.fleet.vitals import Liveness, Vital
from hermesops.model.ids import InstanceId
from hermesops.model.messaging.exchange import Exchange
from hermesops.model.rollout.records import Freeze, GateResult, ReleaseStatus, Rollout, RolloutTarget, Target
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import HookGate, Spec


@dataclass(frozen=True)
class Records:
    """The rows of one rollout in the registry.

    Attributes:
        targets: By position.
        latest: The newest event of each stored name.
    """

    rollout: Rollout
    targets: tuple[RolloutTarget, ...]
    latest: tuple[Recorded[Event], ...] = ()
    freezes: tuple[Freeze, ...] = ()

    def newest(self, kind: type[E_co]) -> Recorded[E_co] | None:
        """The newest event of a type."""
        events: list[Recorded[E_co]] = [
            Recorded(event.at, event.event, event.evidence, event.id)
            for event in self.latest
            if isinstance(event.event, kind)
        ]
        return max(events, key=lambda event: event.id, default=None)

    def gate_answer(self, gate: str) -> Recorded[GateAnswered] | None:
        """The newest answer of a hook."""
        for event in self.latest:
            if isinstance(event.event, GateAnswered) and event.event.gate == gate:
                return Recorded(event.at, event.event, event.evidence, event.id)
        return None


@dataclass(frozen=True)
class ApprovalState:
    """The validity of the second operator's signature, checked against the present rows.

    Attributes:
        limit: Blast radius above which a stage needs it here, whatever the rollout's own limit is.
        expired: Why it no longer counts although nothing is wrong with it; empty otherwise.
        objection: What is wrong with it; empty when nothing is, or no operator has signed.
    """

    stages: int = 0
    limit: float = inf
    expired: str = ""
    objection: str = ""


@dataclass(frozen=True)
class AlertState:
    """Open alerts that hold rollouts, as the platform's monitoring last answered.

    Attributes:
        open: All of them, whatever they are about.
        unknown: Why they are not known; empty when they are, and where there is no monitoring.
    """

    open: tuple[Alert, ...] = ()
    unknown: str = ""


@dataclass(frozen=True)
class Comparison:
    """One vital of many instances, before and after; instances without data are absent.

    Attributes:
        canaries: Those that run the new release: the figure before the change and the one after it.
        controls: Those that do not: figures of the same two stretches of time.
        lasting: The figure of canaries after the change without the sample in which it was worst; absent for those
            with a single one, of which nothing is concluded for one canary alone.
    """

    vital: Vital
    canaries: Mapping[InstanceId, tuple[float, float]]
    controls: Mapping[InstanceId, tuple[float, float]]
    lasting: Mapping[InstanceId, float] = field(default_factory=dict)


@dataclass(frozen=True)
class MessageComparison:
    """What became of users' messages, by agent, since the first agent was changed.

    Attributes:
        canaries: Of changed agents, each since its own change.
        controls: Of untouched ones.
    """

    canaries: Mapping[InstanceId, Exchange]
    controls: Mapping[InstanceId, Exchange]


@dataclass(frozen=True)
class HealthObservation:
    """The health of instances at one moment.

    Attributes:
        messages: ``None`` where nobody was changed yet.
    """

    liveness_of: Mapping[InstanceId, Liveness] = field(default_factory=dict)
    comparisons: tuple[Comparison, ...] = ()
    messages: MessageComparison | None = None


CheckApproval = Callable[[Records], Awaitable[ApprovalState]]
"""Checks the signature that is kept with a rollout."""

CheckAlerts = Callable[[], Awaitable[AlertState]]
"""Asks which alerts are open; without an answer, that is its answer."""

AskHook = Callable[[HookGate, Rollout], Awaitable[tuple[GateResult, str]]]
"""Asks a hook: its result, ``inconclusive`` without an answer in time, and a line of detail."""

Notify = Callable[[Rollout, Recorded[StateChanged]], Awaitable[None]]
"""Sends one message about a change of state; the event's ``id`` lets a receiver drop a repeated one."""


class Machines(Protocol):
    """The machines of the targets: one implementation changes the release in a slot, another the whole machine.

    Where another operation holds the instance's lease, methods raise ``UnavailableError``: ``LeaseLostError`` would
    mean the rollout's own lease.
    """

    async def observe(self, instance_id: InstanceId) -> ReleaseStatus:
        """Ask the machine for its release and the last change.

        Raises:
            LeaseHeldError: It does not answer, and another operation works on the instance.
            UnavailableError: It does not answer.
        """

    async def observe_agent(self, target: Target) -> str:
        """The problem of the agent of an untouched target; empty when it answers correctly.

        Raises:
            LeaseHeldError: It does not answer, and another operation works on the instance.
            HermesError: It could not be asked.
        """

    async def fetch(self, target: Target, release: ReleaseId) -> None:
        """Copy the missing parts of the release to the machine; changes nothing that runs. Safe to call twice.

        Raises:
            RefusedError: The machine does not take it.
        """

    async def activate(self, target: Target, release: ReleaseId, spec: Spec) -> None:
        """Have the machine try and then run the release, unconfirmed: without ``confirm`` it rolls back by itself.

        Returns once the machine has said how that ended; the caller observes it anyway. Safe to call twice.

        Raises:
            RefusedError: Tried, and the machine is on its old release; or not begun, for a reason that stays.
            UnknownOutcomeError: The answer was lost.
            PartlyDoneError: A part of it is done, and the same call continues.
        """

    async def cancel(self, target: Target) -> None:
        """End a running ``activate`` early if nothing was switched yet. Safe to repeat.

        Raises:
            HermesError: The machine did not take the command.
        """

    async def confirm(self, target: Target, release: ReleaseId) -> None:
        """See the gateway answer through the proxy, then have the machine keep the release. Safe to call twice.

        Raises:
            RefusedError: The machine has rolled back.
            UnavailableError: The gateway does not answer through the proxy.
        """

    async def roll_back(self, target: Target, *, lose: bool, even_revoked: bool = False) -> tuple[str, ...]:
        """Roll the machine back to ``target.release_before``. Safe to call twice.

        Args:
            lose: Also where rows written since the change do not fit the old release.
            even_revoked: Also to a release that was revoked.

        Returns:
            Names of settings that the user changed since and that are not in force any more.

        Raises:
            RefusedError: It would lose rows, or the release was revoked, and neither is allowed; nothing changed.
        """

    async def drill(self, release: ReleaseId, before: str) -> tuple[GateResult, str]:
        """Rehearse upgrade and rollback on a warm-pool machine, with state made by the release ``before``.

        Returns:
            ``not_exercised`` where there is no machine for it; and a line of detail.
        """
