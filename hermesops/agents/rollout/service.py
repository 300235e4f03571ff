"""Starts rollouts, and builds their runners from machines, health, hooks and the clock."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from hermesops.agents.health.prometheus import PlatformPrometheus, Prometheus
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.remote.releases import ReleaseClient
from hermesops.agents.rollout.gates.hooks import AllowedHooks, ask_hook
from hermesops.agents.rollout.operators.service import check_approval
from hermesops.agents.rollout.plan.batches import batches_of
from hermesops.agents.rollout.plan.checks import RolloutRequests
from hermesops.agents.rollout.plan.requests import RolloutRequest, continued
from hermesops.agents.rollout.plan.specs import refuse_spec
from hermesops.agents.rollout.ports import Machines
from hermesops.agents.rollout.records.events import Recorded, RolloutStarted, to_row
from hermesops.agents.rollout.records.store import RolloutRows, start_of
from hermesops.agents.rollout.steps.runner import Runner
from hermesops.agents.rollout.watch.alerts import RolloutAlerts
from hermesops.agents.rollout.watch.health import RolloutHealth
from hermesops.agents.rollout.watch.webhooks import WebHook
from hermesops.base import waiting
from hermesops.base.fan_out import Limits, fan_out
from hermesops.base.narration import warn
from hermesops.errors import HermesError
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Lease, Operation, OperationKind
from hermesops.model.rollout.records import Rollout, RolloutId, RolloutState, Target
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import Action
from hermesops.observability.telemetry.client import MonitoringClient
from hermesops.settings.environment import Environment
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.operations.kinds.fleet import RolloutIntent
from hermesops.store.operations.runner import Operations
from hermesops.store.registry import Registry

_ID_BYTES = 3
"""Of a rollout's id, which people type: one of sixteen million, and the database refuses one that is taken."""

_ASK_RELEASE = Limits(at_once=32, slow_after_s=20.0, within_s=40.0)

_STALE_LEASE_S = 20.0
"""Seconds in which the lease of a dead process runs out."""

_QUEUE_S = 7 * 86_400.0


@dataclass(frozen=True)
class Rollouts:
    """Rollouts of one environment.

    Attributes:
        machines: Makes the ``Machines`` of a rollout by its action and the reason of its changes.
        monitoring: ``None`` where the environment has none.
    """

    env: Environment
    registry: Registry
    requests: RolloutRequests
    instance_client: PowerControl
    machines: Callable[[Rollout], Machines]
    operations: Callable[[], Operations]
    report: Callable[[str], None]
    monitoring: MonitoringClient | None = None

    def work_of(self, operation: Operation, lease: Lease) -> Runner:
        """The runner of a rollout, from its operation's row."""
        env, rollout_id = self.env, RolloutIntent.of(operation).rollout
        url = env.settings.rollout.webhook.get_secret_value() if env.settings.rollout.webhook else ""
        now, allowed = clock_of(self.registry), allowed_hooks(env)
        return Runner(
            RolloutRows(self.registry, rollout_id, lease),
            self.machines(self.registry.rollouts.get(rollout_id)),
            health=self._health(now),
            now=now,
            ask_hook=partial(ask_hook, environment=env.name, allowed=allowed, search=env.for_child().get("PATH", "")),
            notify=WebHook(url, environment=env.name, warn=warn, refuses=allowed.cleartext_problem).notify,
            check_approval=partial(check_approval, env),
            check_alerts=RolloutAlerts(self.monitoring, now).check,
        )

    def _health(self, now: Callable[[], datetime]) -> RolloutHealth:
        return RolloutHealth(self.registry, self.instance_client, self._prometheus(), now)

    def _prometheus(self) -> Prometheus | None:
        """The one that an operator chose for gates, else the platform's own."""
        url = self.env.settings.prometheus_url
        if url:
            return Prometheus(url)
        return PlatformPrometheus(self.monitoring) if self.monitoring else None

    async def start(self, request: RolloutRequest) -> Rollout:
        """Freeze the targets and write the rollout; or find the same that was begun and has not ended.

        Raises:
            UsageError: No instance is meant, or all of them without ``all_running``.
            RefusedError: The release is unknown, revoked, bad or damaged, a gate's metric or hook is not available
                here, or another rollout has some of the instances.
        """
        requests = self.requests
        requests.refuse_unsound(request)
        if request.spec.gates.hooks:
            allowed_hooks(self.env).refuse_others(request.spec.gates.hooks)
        release = await in_db_thread(requests.find_release, request)
        await self._end_stale_operations()
        if unfinished := await in_db_thread(requests.find_unfinished, release, request):
            began = await in_db_thread(start_of, self.registry, unfinished.id)
            self.report(continued(unfinished, began.who or unfinished.who, request))
            return unfinished
        if request.action is Action.SLOT:
            await in_db_thread(requests.refuse_damaged, release)
        await self._health(self.registry.now).require(request.spec.gates.health.vitals)
        targets = await in_db_thread(requests.targets, request)
        if request.action is Action.SLOT:
            await self._learn_releases(targets)
        return await in_db_thread(self._write, release, request)

    def leave(self, rollout: Rollout) -> None:
        """Leave a rollout to the workers; does nothing if it has ended or halted."""
        if rollout.state.has_runner:
            self.operations().leave(self.registry.rollouts.reopen_operation(rollout))

    def leave_unless_held(self, rollout: Rollout) -> str:
        """Leave a rollout to the workers where no process runs it; returns the process that does, or empty."""
        if not rollout.state.has_runner:
            return ""
        return self.operations().leave_unless_held(self.registry.rollouts.reopen_operation(rollout))

    async def _learn_releases(self, targets: Sequence[Target]) -> None:
        """Ask machines of targets with an unknown release, and record it; no answer is no error."""
        releases = ReleaseClient(self.instance_client.channel)

        async def ask(instance_id: InstanceId) -> ReleaseId | None:
            instance = await in_db_thread(self.registry.instances.get, instance_id)
            slots = await releases.observe(instance.machine_id) if instance.machine_id else None
            return slots.current if slots else None

        unknown = [target.instance_id for target in targets if not target.release_before]
        answers = await fan_out(unknown, ask, _ASK_RELEASE)
        answered = {
            instance_id: release
            for instance_id, release in zip(unknown, answers, strict=True)
            if release and not isinstance(release, HermesError)
        }
        await in_db_thread(self.registry.rollout_targets.record_releases, answered)

    async def _end_stale_operations(self) -> None:
        """End the operations of rollouts that have ended: their runner died before it could."""
        rows = await in_db_thread(lambda: self.registry.operations.list(kind=OperationKind.ROLLOUT, unfinished=True))
        for row in rows:
            rollout = await in_db_thread(self.registry.rollouts.get, RolloutIntent.of(row).rollout)
            if not rollout.state.has_runner:
                await self.operations().resume(row, wait_s=_STALE_LEASE_S)

    async def await_others(self, request: RolloutRequest) -> None:
        """Return once no other unfinished rollout has any of the instances that are meant.

        Raises:
            UsageError: No instance is meant, or the spec cannot be carried out.
        """
        refuse_spec(request.spec)
        release = await in_db_thread(self.requests.find_release, request)
        if await in_db_thread(self.requests.find_unfinished, release, request):
            return

        async def observe() -> bool | waiting.Pending[bool]:
            other = await in_db_thread(self.requests.find_ahead, request)
            return waiting.Pending(f"rollout {other.id} is {other.state.value}: {other.reason}") if other else True

        what = "the end of the rollout ahead"
        await waiting.until(observe, what=what, timeout_s=_QUEUE_S, every_s=2.0, report=self.report)

    def _write(self, release: ReleaseId, request: RolloutRequest) -> Rollout:
        targets, now = self.requests.targets(request), self.registry.now()
        rollout = Rollout(
            id=RolloutId(secrets.token_hex(_ID_BYTES)),
            release=release,
            action=request.action,
            spec=request.spec_with(pool=any(self.env.settings.pool_size.values())),
            state=RolloutState.PENDING,
            reason=request.reason or "asked for",
            who=self.registry.actor,
            created_at=now,
            updated_at=now,
        )
        placed = batches_of(release, targets, request.spec)
        event = RolloutStarted(rollout.reason, rollout.who, release, request.where, rollout.action.value)
        self.registry.rollouts.add(rollout, placed, to_row(Recorded(now, event, _evidence(targets))))
        return rollout


def allowed_hooks(env: Environment) -> AllowedHooks:
    """The hooks that the settings of this computer allow."""
    hosts = (host.strip().lower() for host in env.settings.rollout.hook_hosts.split(","))
    return AllowedHooks(env.settings.rollout.hooks, frozenset(filter(None, hosts)), is_local=env.is_local)


def clock_of(registry: Registry) -> Callable[[], datetime]:
    """The registry's clock, read once: this computer's clock may differ from it, but runs as fast."""
    ahead = registry.now() - datetime.now(UTC)
    return lambda: datetime.now(UTC) + ahead


def _evidence(targets: Sequence[Target]) -> dict[str, object]:
    befores = [target.release_before or "unknown" for target in targets]
    return {
        "targets": len(targets),
        "release_before": {release: befores.count(release) for release in sorted(set(befores))},
    }
