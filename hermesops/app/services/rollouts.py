"""Composes rollouts: who is brought what from the registry, runners of machines, health, hooks and the clock."""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from hermesops import waiting
from hermesops.app.adapters.rollout_health import Watching
from hermesops.app.adapters.rollout_store import RolloutRows
from hermesops.app.adapters.rollout_targets import look_at_unknown
from hermesops.app.container_parts.narration import warn
from hermesops.app.services.rollout_requests import (
    RolloutRequest,
    ahead,
    check_wanted,
    meant,
    refuse_damaged,
    unfinished,
)
from hermesops.model.operation import Lease, Operation, OperationKind
from hermesops.model.release import ReleaseId
from hermesops.model.rollout import Rollout, RolloutEvent, RolloutId, RolloutState, Target
from hermesops.model.rollout_spec import Action, DrillPolicy, Spec
from hermesops.operations.db_thread import in_db_thread
from hermesops.operations.kinds import RolloutIntent
from hermesops.rollout.plan.admission import refuse_raised, refuse_spec

if TYPE_CHECKING:
    from hermesops.app.container_parts.connected import Connected
    from hermesops.model.freeze import Freeze
    from hermesops.registry import Registry
    from hermesops.rollout.gates.hooks import AllowedHooks
    from hermesops.rollout.ports import Machines
    from hermesops.rollout.runner import Runner
    from hermesops.settings import Environment

_ID_BYTES = 3
"""Of a rollout's id, which people type: sixteen million, and one that is taken already is refused by the database."""

_LEFT_S = 20.0
"""Seconds in which the lease of a dead one runs out."""

_QUEUE_S = 7 * 86_400.0


class Rollouts:
    """Rollouts of one session's environment.

    Args:
        session: What they are made of.
    """

    def __init__(self, session: "Connected") -> None:
        self._session = session
        self._app = session.app
        self._registry = session.app.registry

    def work_of(self, operation: Operation, lease: Lease) -> "Runner":
        """What brings a rollout forward, from its operation's row."""
        from hermesops.app.services.rollout_approvals import RolloutApprovals
        from hermesops.rollout.gates.hooks import Hooks
        from hermesops.rollout.runner import Runner
        from hermesops.rollout.webhooks import WebHook

        env, rollout_id = self._app.env, RolloutIntent.of(operation).rollout
        url = env.settings.rollout_webhook.get_secret_value() if env.settings.rollout_webhook else ""
        clock, allowed = RegistryClock(self._registry), allowed_hooks(env)
        return Runner(
            RolloutRows(self._registry, rollout_id, lease),
            self._machines(rollout_id),
            watches=Watching(self._session, clock.now),
            asks=Hooks(environment=env.name, allowed=allowed, search=env.for_child().get("PATH", "")),
            notifies=WebHook(url, environment=env.name, warn=warn, refuses=allowed.cleartext_problem),
            calendar=Calendar(self._registry),
            clock=clock,
            approvals=RolloutApprovals(env),
        )

    def _machines(self, rollout_id: RolloutId) -> "Machines":
        from hermesops.app.adapters.rollout_in_place import SlotMachines
        from hermesops.app.adapters.rollout_reprovision import MachineMoves

        make = SlotMachines if self._registry.rollouts.get(rollout_id).action is Action.SLOT else MachineMoves
        return make(self._session, f"rollout {rollout_id}")

    async def start(self, request: RolloutRequest) -> Rollout:
        """Freeze the targets and write everything down; or find the same that was begun and has not ended.

        Raises:
            UsageError: Nobody is meant, or everybody without a word that says so.
            RefusedError: The release is unknown, revoked, bad or not whole, a gate has no figures to stand on, or
                another rollout has some of the instances, or a gate is none that this computer may ask.
        """
        refuse_spec(request.spec)
        refuse_raised(request.spec, self._app.env.settings.highest_two_person)
        allowed_hooks(self._app.env).refuse_others(request.spec.gates.hooks)
        release = await in_db_thread(check_wanted, self._app, request)
        await self._end_left()
        if found := await in_db_thread(unfinished, self._registry, release, request):
            return found
        if request.action is Action.SLOT:
            await in_db_thread(refuse_damaged, self._app, release)
        await Watching(self._session, self._registry.now).require(request.spec.gates.health.vitals)
        targets = await in_db_thread(meant, self._registry, request)
        if request.action is Action.SLOT:
            await look_at_unknown(self._session, targets)
        return await in_db_thread(self._write, release, request)

    def leave(self, rollout: Rollout) -> None:
        """Leave a rollout to the workers; one that has ended or halted is left as it is."""
        if rollout.state.has_runner:
            self._session.operations.leave(self._registry.rollouts.reopen_operation(rollout))

    async def _end_left(self) -> None:
        """End the rows of operations whose rollout is over: who brought it to its end died before saying so."""
        rows = await in_db_thread(lambda: self._registry.operations.list(kind=OperationKind.ROLLOUT, unfinished=True))
        for row in rows:
            rollout = await in_db_thread(self._registry.rollouts.get, RolloutIntent.of(row).rollout)
            if not rollout.state.has_runner:
                await self._session.operations.resume(row, wait_s=_LEFT_S)

    async def await_others(self, request: RolloutRequest) -> None:
        """Return once no other rollout that has not ended has any of the instances that are meant.

        Raises:
            UsageError: Nobody is meant, or it cannot be carried out.
        """
        refuse_spec(request.spec)
        release = await in_db_thread(check_wanted, self._app, request)
        if await in_db_thread(unfinished, self._registry, release, request):
            return

        async def look() -> bool | waiting.Pending[bool]:
            other = await in_db_thread(ahead, self._registry, await in_db_thread(meant, self._registry, request))
            return waiting.Pending(f"rollout {other.id} is {other.state.value}: {other.reason}") if other else True

        what = "the end of the rollout ahead"
        await waiting.until(look, what=what, timeout_s=_QUEUE_S, every_s=2.0, tell=self._app.tell)

    def _write(self, release: ReleaseId, request: RolloutRequest) -> Rollout:
        from hermesops.rollout.plan.batches import batches_of

        targets, now = meant(self._registry, request), self._registry.now()
        rollout = Rollout(
            id=RolloutId(secrets.token_hex(_ID_BYTES)),
            release=release,
            action=request.action,
            spec=self._spec(request),
            state=RolloutState.PENDING,
            reason=request.reason or "asked for",
            who=self._registry.actor,
            created_at=now,
            updated_at=now,
        )
        placed = batches_of(release, targets, request.spec)
        event = RolloutEvent(now, "start", _told(rollout, request), _evidence(targets))
        self._registry.rollouts.add(rollout, placed, event)
        return rollout

    def _spec(self, request: RolloutRequest) -> Spec:
        """Where there is a pool, the way back has to be tried on it first; where there is none, nothing can be.

        A pool has machines of the image that is wanted for new ones, so of an image it can be tried only then.
        """
        has_pool = any(self._app.env.settings.pool_size.values()) and request.action is Action.SLOT
        if request.spec.drill is not DrillPolicy.REQUIRED or has_pool:
            return request.spec
        return replace(request.spec, drill=DrillPolicy.IF_POSSIBLE)


def allowed_hooks(env: "Environment") -> "AllowedHooks":
    """What this computer's settings say about gates that others keep."""
    from hermesops.rollout.gates.hooks import AllowedHooks

    hosts = (host.strip().lower() for host in env.settings.rollout_hook_hosts.split(","))
    return AllowedHooks(env.settings.rollout_hooks, frozenset(filter(None, hosts)), is_local=env.is_local)


class Calendar:
    """When nothing may be changed.

    Args:
        registry: Where freezes are written.
    """

    def __init__(self, registry: "Registry") -> None:
        self._registry = registry

    async def freezes(self) -> "Sequence[Freeze]":
        """Those that are not lifted."""
        return await in_db_thread(self._registry.freezes.list)


class RegistryClock:
    """The registry's clock, asked once: computers need not agree with it, only run as fast.

    Args:
        registry: Whose.
    """

    def __init__(self, registry: "Registry") -> None:
        self._ahead: timedelta = registry.now() - datetime.now(UTC)

    def now(self) -> datetime:
        """The present moment."""
        return datetime.now(UTC) + self._ahead

    async def pause(self, seconds: float) -> None:
        """Let time pass."""
        await waiting.pause(seconds)


def _told(rollout: Rollout, request: RolloutRequest) -> dict[str, object]:
    return {
        "why": rollout.reason,
        "who": rollout.who,
        "release": rollout.release,
        "where": request.where,
        "action": rollout.action.value,
    }


def _evidence(targets: Sequence[Target]) -> dict[str, object]:
    befores = [target.release_before or "unknown" for target in targets]
    return {"targets": len(targets), "release_before": {one: befores.count(one) for one in sorted(set(befores))}}
