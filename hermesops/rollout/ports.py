"""What a runner needs from others; they fail with the errors of ``hermesops.errors``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import inf
from typing import Protocol

from hermesops.model.freeze import Freeze
from hermesops.model.ids import InstanceId
from hermesops.model.release import ReleaseId
from hermesops.model.rollout import (
    GateResult,
    ReleaseStatus,
    Rollout,
    RolloutState,
    RolloutTarget,
    Target,
)
from hermesops.model.rollout_spec import HookGate, Spec
from hermesops.model.vitals import Liveness, Vital
from hermesops.rollout.events import E_co, Event, GateAnswered, Recorded, StateChanged


@dataclass(frozen=True)
class Records:
    """What is written of one rollout.

    Attributes:
        targets: By position.
        latest: The newest event of each stored name.
    """

    rollout: Rollout
    targets: tuple[RolloutTarget, ...]
    latest: tuple[Recorded[Event], ...] = ()

    def newest(self, kind: type[E_co]) -> Recorded[E_co] | None:
        """The newest event of a type."""
        found: list[Recorded[E_co]] = [
            Recorded(one.at, one.event, one.evidence, one.id) for one in self.latest if isinstance(one.event, kind)
        ]
        return max(found, key=lambda one: one.id, default=None)

    def gate_answer(self, gate: str) -> Recorded[GateAnswered] | None:
        """What a hook answered last."""
        of_gate = [one for one in self.latest if isinstance(one.event, GateAnswered) and one.event.gate == gate]
        return replace(self, latest=tuple(of_gate)).newest(GateAnswered)


@dataclass(frozen=True)
class ApprovalState:
    """What a second operator's signature on a rollout comes to when it is checked against the rows of now.

    Attributes:
        stages: So many stages it covers.
        limit: Blast radius above which a stage needs it here, whatever the rollout's own limit is.
        expired: Why it counts no more, where nothing is wrong with it; empty otherwise.
        objection: What is wrong with it; empty when nothing is, or nobody has signed.
    """

    stages: int = 0
    limit: float = inf
    expired: str = ""
    objection: str = ""


class ChecksApproval(Protocol):
    """Checks who approved a rollout."""

    async def check(self, records: Records) -> ApprovalState:
        """Check the signature that is kept with a rollout, and what was signed, against all that is written now."""


class Rows(Protocol):
    """The rows of one rollout. Writes of a runner whose lease is lost raise ``LeaseLostError``."""

    async def read(self) -> Records:
        """All of it."""

    async def state(self) -> RolloutState:
        """Only that, cheaply: it is asked every second."""

    async def put_targets(self, *targets: RolloutTarget) -> None:
        """Write place, state, detail, times and progress of targets, all or none."""

    async def change(self, was: Rollout, rollout: Rollout, event: Recorded[Event]) -> bool:
        """Write state, reason, who and wishes together with the event of it, in one transaction.

        Returns:
            Whether it was written; not where the row is no longer ``was``, as somebody said something meanwhile.
        """

    async def add_event(self, event: Recorded[Event]) -> None:
        """Append what was decided."""

    async def add_exposure(self, instance_id: InstanceId, release: ReleaseId) -> None:
        """Note that an instance was among the first to get a release; harmless when it stands there."""


class Machines(Protocol):
    """The machines of the targets; for action ``machine`` another implementation does the same with whole machines.

    Where somebody else works on one, that is an ``UnavailableError``: only the rows tell of the rollout's lease.
    """

    async def observe(self, instance_id: InstanceId) -> ReleaseStatus:
        """Ask the machine.

        Raises:
            LeaseHeldError: It gives no answer, as somebody else works on the instance.
            UnavailableError: It gives no answer.
        """

    async def observe_agent(self, target: Target) -> str:
        """What is wrong with the agent of somebody who was not touched; empty when it answers as it should.

        Raises:
            LeaseHeldError: It does not answer, as somebody else works on the instance.
            HermesError: Nobody could tell.
        """

    async def fetch(self, target: Target, release: ReleaseId) -> None:
        """Bring to the machine what it lacks of the release; touches nothing that runs. Safe to call twice.

        Raises:
            RefusedError: The machine does not take it.
        """

    async def activate(self, target: Target, release: ReleaseId, spec: Spec) -> None:
        """Have the machine try and then run the release, unconfirmed; it goes back by itself unless confirmed.

        Returns as soon as the machine has said how it ended; the caller looks anyway. Safe to call twice.

        Raises:
            RefusedError: Tried, and the machine is on its old release; or not begun, for a reason that stays.
            UnknownOutcomeError: The answer was lost.
        """

    async def cancel(self, target: Target) -> None:
        """Have an ``activate`` under way end sooner where nothing has been switched yet. Safe to call again and again.

        Raises:
            HermesError: It could not be told.
        """

    async def confirm(self, target: Target, release: ReleaseId) -> None:
        """See the gateway answer through the proxy, then tell the machine to keep the release. Safe to call twice.

        Raises:
            RefusedError: The machine went back meanwhile.
            UnavailableError: The gateway does not answer through the proxy.
        """

    async def back(self, target: Target, spec: Spec, *, lose: bool, even_revoked: bool = False) -> None:
        """Put the machine back on ``target.release_before``. Safe to call twice.

        Args:
            target: Whose.
            spec: Of the rollout.
            lose: Do it even where what was written since cannot be carried over.
            even_revoked: Do it even where that release must not run any more.

        Raises:
            RefusedError: That would lose what was written since, or the release was revoked, and nobody said that it
                may be so; nothing changed.
        """

    async def drill(self, release: ReleaseId, before: str) -> tuple[GateResult, str]:
        """Go to the release and back on a machine of the pool, with state made by the release ``before``.

        Returns:
            ``not_exercised`` where there is no machine to try it on; and a line of detail.
        """


@dataclass(frozen=True)
class Comparison:
    """One vital of many instances, before and after: a pair of figures each. Who has no data is absent.

    Attributes:
        canaries: Those that run the new release; the change parts before from after.
        controls: Those that do not; the same stretches of time.
    """

    vital: Vital
    canaries: Mapping[InstanceId, tuple[float, float]]
    controls: Mapping[InstanceId, tuple[float, float]]


@dataclass(frozen=True)
class Watched:
    """What was seen of health at one moment."""

    liveness_of: Mapping[InstanceId, Liveness] = field(default_factory=dict)
    comparisons: tuple[Comparison, ...] = ()


class Watches(Protocol):
    """Health of instances."""

    async def watch(
        self, changed: Mapping[InstanceId, datetime], untouched: Sequence[InstanceId], vitals: Sequence[str]
    ) -> Watched:
        """Look at those changed since a moment each, and at some not changed; whom nobody looked at is absent.

        Args:
            changed: When each was changed.
            untouched: Those next to be changed come first.
            vitals: Names of those that are compared.
        """

    async def stop(self) -> None:
        """Wait for no answer any more."""


class Asks(Protocol):
    """Gates that others keep."""

    async def ask(self, hook: HookGate, rollout: Rollout) -> tuple[GateResult, str]:
        """The answer and a line of detail; ``inconclusive`` when there was none in time."""


class Notifies(Protocol):
    """Whoever wants to know."""

    async def notify(self, rollout: Rollout, event: Recorded[StateChanged]) -> None:
        """Send one message about a change of state; ``event.id`` lets a receiver drop a repeated one."""


class Calendar(Protocol):
    """When nothing may be changed."""

    async def freezes(self) -> Sequence[Freeze]:
        """Those that are not lifted."""


class Clock(Protocol):
    """The time, and letting it pass."""

    def now(self) -> datetime:
        """The present moment, with a time zone."""

    async def pause(self, seconds: float) -> None:
        """Let time pass."""
