"""Checks requests for rollouts against registry and store of releases, and reads which instances are outdated."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hermesops.agents.rollout.plan import backlog
from hermesops.agents.rollout.plan.backlog import OutdatedInstance
from hermesops.agents.rollout.plan.preview import RolloutPreview, preview
from hermesops.agents.rollout.plan.requests import RolloutRequest, find_overlapping, find_same, running_targets
from hermesops.agents.rollout.plan.specs import refuse_raised, refuse_spec
from hermesops.agents.rollout.plan.windows import closed_at
from hermesops.agents.rollout.records.store import fleet_of, refuse_unknown, start_of
from hermesops.agents.rollout.watch.alerts import held_now
from hermesops.errors import HermesError, Hint, RefusedError, UsageError
from hermesops.machines.release import Releases
from hermesops.model.image import PLATFORM_IMAGE
from hermesops.model.rollout.records import Rollout, Target
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import Action, DrillPolicy, HealthGate, Spec
from hermesops.model.unknown_name import unknown_name
from hermesops.observability.telemetry.client import MonitoringClient
from hermesops.settings.fields import Settings
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.operations.outcomes import Outcome, failed, failure_of
from hermesops.store.registry import Registry
from hermesops.wire import protocol

_ROTATION = re.compile(r"tokens-[0-9]{8}T[0-9]{6}")

_SHOWN = 3
"""Damaged files that are named."""


@dataclass(frozen=True)
class RequestPreview:
    """The effects of a request for a rollout, if it started now.

    Attributes:
        closed: The window or freeze that forbids it now; empty for none.
        held: The open alerts that would hold it, or why they are not known; empty for none.
    """

    ahead: RolloutPreview
    closed: str
    held: str


@dataclass(frozen=True)
class RolloutRequests:
    """Checks requests for rollouts.

    Attributes:
        monitoring: The client of the platform's monitoring; ``None`` where the environment has none.
    """

    registry: Registry
    releases: Releases
    settings: Settings
    monitoring: Callable[[], MonitoringClient | None]

    def refuse_unsound(self, request: RolloutRequest) -> None:
        """Refuse a spec that is impossible, or that has fewer approvals than this environment demands."""
        refuse_spec(request.spec)
        refuse_raised(request.spec, self.settings.highest_two_person)

    def find_release(self, request: RolloutRequest) -> ReleaseId:
        """The release or image of a request, if it may be rolled out.

        Raises:
            UsageError: There is no such release or image.
            RefusedError: As ``check_release``.
        """
        if request.action is Action.SLOT:
            return self.check_release(request.release)
        if request.action is Action.TOKENS:
            return self._find_rotation(request)
        images = [image for image in self.registry.images.list() if image.name != PLATFORM_IMAGE]
        text = request.release
        latest = self.registry.images.latest(text) if text != PLATFORM_IMAGE else None
        meant = latest or next((image for image in images if image.id == text), None)
        if meant is None:
            raise unknown_name("image", text, dict.fromkeys(image.name for image in images))
        return ReleaseId(meant.id)

    def _find_rotation(self, request: RolloutRequest) -> ReleaseId:
        """The name of a rotation of tokens: the same as of an equal request that has not ended."""
        if request.release:
            if not _ROTATION.fullmatch(request.release):
                raise UsageError(
                    f"{request.release[:40]!r} is no rotation of tokens", hint=Hint(("token", "rotate", "--all"))
                )
            return ReleaseId(request.release)
        for row in self.registry.rollouts.list(unfinished=True):
            if row.action is Action.TOKENS and start_of(self.registry, row.id).where == request.where:
                return row.release
        return ReleaseId(f"tokens-{self.registry.now():%Y%m%dT%H%M%S}")

    def check_release(self, text: str) -> ReleaseId:
        """The release of an id, the beginning of one or an agent's version, if it may be rolled out.

        Raises:
            UsageError: There is none.
            RefusedError: It is revoked, below the floor or needs a newer hermes-node, or its signature is bad.
        """
        lock = self.releases.find(text)
        self.releases.refuse_revoked(lock)
        if lock.node.protocol > protocol.VERSION:
            raise RefusedError(
                f"release {lock.id} needs a hermes-node of protocol {lock.node.protocol}; this hermesops speaks "
                f"{protocol.VERSION}",
                hint="install the hermesops that the release was built with",
            )
        return ReleaseId(lock.id)

    def everybody_at_once(self, release: str, *, reason: str) -> RolloutRequest:
        """A request to deploy a release to every running agent without stages, as to return all to one that is good.

        Raises:
            UsageError: As ``check_release``.
            RefusedError: As ``check_release``.
        """
        usual = usual_spec(self.settings)
        gates = replace(usual.gates, health=HealthGate(vitals=()))
        spec = replace(usual, stages=(1.0,), soak_s=0.0, settle_s=0.0, gates=gates, drill=DrillPolicy.NO)
        refuse_spec(spec)
        checked = self.check_release(release)
        return RolloutRequest(checked, "", all_running=True, spec=spec, action=Action.SLOT, reason=reason)

    def refuse_damaged(self, release: ReleaseId) -> None:
        """Refuse a release unless all its files in the store match its lock; reads them all.

        Raises:
            RefusedError: Some files do not match.
        """
        if damage := self.releases.verify(release):
            files = ", ".join(f"{file.name} {file.what}" for file in damage[:_SHOWN])
            files += f" and {len(damage) - _SHOWN} more" if len(damage) > _SHOWN else ""
            hint = Hint(("release", "verify", release), "; then build it again")
            raise RefusedError(f"release {release} is damaged: {files}", hint=hint)

    def targets(self, request: RolloutRequest) -> tuple[Target, ...]:
        """The running instances that a request means.

        Raises:
            UsageError: None, one that does not exist, or all of them without ``all_running``.
        """
        refuse_unknown(self.registry, request.selector)
        return request.select(running_targets(fleet_of(self.registry), request.action))

    async def preview(self, request: RolloutRequest) -> RequestPreview:
        """Preview a request by registry and open alerts; changes nothing.

        Raises:
            UsageError: As ``targets``; or it cannot be carried out.
            RefusedError: As ``check_release``.
        """
        ahead, closed = await in_db_thread(self._preview, request)
        return RequestPreview(
            ahead, closed, await held_now(self.monitoring, ahead.targets, request.spec, self.registry.now)
        )

    def _preview(self, request: RolloutRequest) -> tuple[RolloutPreview, str]:
        self.refuse_unsound(request)
        release, targets, spec = self.find_release(request), self.targets(request), request.spec
        closed = closed_at(self.registry.now(), spec.windows, self.registry.freezes.list())
        return preview(release, targets, spec), closed.why if closed and not spec.emergency else ""

    def find_unfinished(self, release: ReleaseId, request: RolloutRequest) -> Rollout | None:
        """Find an unfinished rollout of the same release, action and selector."""
        rows = self.registry.rollouts.list(unfinished=True)
        return find_same(((row, start_of(self.registry, row.id).where) for row in rows), release, request)

    def find_ahead(self, request: RolloutRequest) -> Rollout | None:
        """A rollout that has not ended and has one of the instances that a request means."""
        rows = self.registry.rollouts.list(unfinished=True)
        targets_of = ((row, [target.id for target in self.registry.rollout_targets.list(row.id)]) for row in rows)
        return find_overlapping(targets_of, self.targets(request))


def outdated(registry: Registry) -> tuple[OutdatedInstance, ...]:
    """All outdated instances, first those that a rollout did not reach."""
    rows = registry.rollout_targets.outdated()
    actions = {rollout: registry.rollouts.get(rollout).action for rollout in {row[0] for row in rows}}
    missed = backlog.missed_instances(rows, actions)
    last = backlog.last_done(registry.rollouts.list())
    if last is None:
        return missed
    late = backlog.late_instances(last, start_of(registry, last.id).where, fleet_of(registry))
    known = {target.instance_id for target in missed}
    return (*missed, *(instance for instance in late if instance.instance_id not in known))


def updatable(registry: Registry) -> tuple[OutdatedInstance, ...]:
    """The outdated instances that a rollout can be started for now."""
    return backlog.updatable(outdated(registry), fleet_of(registry))


def usual_spec(settings: Settings) -> Spec:
    """The default spec of a rollout."""
    return Spec(two_person_above=settings.two_person_above)


@dataclass(frozen=True)
class Outdated:
    """The instances that no rollout has brought to the release that they should have."""

    registry: Registry
    settings: Settings

    def list(self) -> tuple[OutdatedInstance, ...]:
        """All of them, first those that a rollout did not reach."""
        return outdated(self.registry)

    def deploy(
        self, instances: Sequence[OutdatedInstance], start: Callable[[RolloutRequest], int], *, reason: str = ""
    ) -> int:
        """Bring instances up to date, with one rollout of the default spec per release, one after the other.

        Args:
            start: Starts a rollout and follows it; returns its exit code.

        Returns:
            The highest exit code.

        Raises:
            HermesError: The only rollout could not be started.
            PartlyDoneError: Some of several could not be started; the others were.
        """
        codes, outcomes = [0], list[Outcome]()
        for request in backlog.requests_for(instances, reason or "outdated", usual_spec(self.settings)):
            subject = f"{request.release} to {request.where}"
            try:
                codes.append(start(request))
            except HermesError as error:
                outcomes.append(failed(subject, error))
            else:
                outcomes.append(Outcome(subject, done="started"))
        if failure := failure_of(outcomes, "rollouts to outdated instances"):
            raise failure
        return max(codes)
