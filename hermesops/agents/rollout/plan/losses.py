"""Losses of each agent by a change of its release, read from its machine before anything changes.

A rollback goes to a slot. A rollout to an older release takes the user's configuration back as well, as its agent
writes an older schema; the machine need not have that release for the question.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from functools import partial

from hermesops.agents.instances.remote.releases import ReleaseClient
from hermesops.agents.rollout.machines.slots import machine_of
from hermesops.agents.rollout.plan.checks import RolloutRequests
from hermesops.agents.rollout.plan.requests import RolloutRequest
from hermesops.base.fan_out import Limits, fan_out
from hermesops.errors import HermesError, RefusedError
from hermesops.model.fleet.slot import RollbackResult
from hermesops.model.rollout.records import Target
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import Action
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.registry import Registry
from hermesops.vendor.channel import ToolboxChannel
from hermesops.vendor.justavps import Client

ASK = Limits(at_once=32, slow_after_s=5.0, within_s=15.0, begun_within_s=45.0)
"""An agent that cannot be asked within 15 s has a problem in place of a result, and delays no other.

A rollback of a fleet that is silent as a whole waits a minute at most: what it would lose is unknown then anyway.
"""


@dataclass(frozen=True)
class AgentLosses:
    """The losses of one agent by a change of its release.

    Attributes:
        user: The user's name, as in the rollout.
        release: The one that it would run; empty where that is unknown.
        result: Rows and settings that would be migrated and lost; ``None`` where they are unknown.
        problem: Why the result is unknown; empty where it is known.
    """

    user: str
    release: str
    result: RollbackResult | None = None
    problem: str = ""

    @property
    def settings_lost(self) -> tuple[str, ...]:
        """Names of the user's settings that would not be in force any more."""
        return self.result.settings_lost if self.result else ()


def losses_of(target: Target, release: str, answer: RollbackResult | HermesError) -> AgentLosses:
    """The losses of a target by a change to a release, from its machine's answer. Pure."""
    if isinstance(answer, HermesError):
        return AgentLosses(target.user, release, problem=answer.message)
    return AgentLosses(target.user, release, answer)


def older_for(targets: Sequence[Target], schemas: Mapping[str, int], schema: int) -> tuple[Target, ...]:
    """The targets for which a release is older: its agent writes an older schema of the configuration. Pure.

    Args:
        schemas: The schema of each release that a target runs; one that is missing, or 0, is unknown and may be newer.
        schema: The schema of the release; 0 for unknown, and then no configuration is taken back.
    """
    if not schema:
        return ()
    return tuple(target for target in targets if (schemas.get(target.release_before) or schema + 1) > schema)


@dataclass(frozen=True)
class RolloutLosses:
    """Asks the machines of a request that would deploy an older release; no other request asks any."""

    registry: Registry
    requests: RolloutRequests
    vendor: Callable[[], AbstractAsyncContextManager[Client]]

    async def preview(self, request: RolloutRequest) -> tuple[AgentLosses, ...]:
        """The losses of each agent for which the release of a request is older, in their order. Changes nothing.

        Raises:
            UsageError: There is no such release, no instance is meant, or the request cannot be carried out.
            RefusedError: The release must not be rolled out.
        """
        if request.action is not Action.SLOT:  # the state moves with the agent, and none of it is replaced
            return ()
        release, schema, targets = await in_db_thread(self._older, request)
        if not targets:
            return ()
        async with self.vendor() as client:
            slots = ReleaseClient(partial(ToolboxChannel, client))
            answers = await fan_out(targets, partial(self._ask, slots, schema), ASK)
        return tuple(losses_of(target, release, answer) for target, answer in zip(targets, answers, strict=True))

    def _older(self, request: RolloutRequest) -> tuple[ReleaseId, int, tuple[Target, ...]]:
        self.requests.refuse_unsound(request)
        releases, release = self.requests.releases, self.requests.find_release(request)
        targets = self.requests.targets(request)
        schemas = dict[str, int]()
        for before in {target.release_before for target in targets} - {""}:
            with suppress(RefusedError):  # the store lost it: its schema is unknown
                schemas[before] = releases.read(before).config_schema
        schema = releases.read(release).config_schema
        return release, schema, older_for(targets, schemas, schema)

    async def _ask(self, slots: ReleaseClient, schema: int, target: Target) -> RollbackResult:
        instance = await in_db_thread(self.registry.instances.get, target.instance_id)
        return await slots.preview_activation(machine_of(instance), schema, timeout_s=ASK.within_s)
