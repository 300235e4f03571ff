"""Rolls one agent back, through the registry or with nothing but the vendor's key; previews what rollbacks lose."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial

from hermesops.agents.instances.releases.rollback import find_machine, preview_rollback, roll_back_release, unchanged
from hermesops.agents.instances.remote.releases import ReleaseClient
from hermesops.agents.rollout.machines.slots import machine_of
from hermesops.agents.rollout.plan.losses import ASK, AgentLosses, losses_of
from hermesops.base.fan_out import fan_out
from hermesops.errors import HermesError, Hint
from hermesops.machines.release import Releases
from hermesops.machines.release.releases import HandedOut
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.slot import RollbackResult
from hermesops.model.ids import MachineId, instance_subject
from hermesops.model.operation import Lease, LeaseHeldError
from hermesops.model.rollout.records import Rollout, Target
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import Action
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry import Registry
from hermesops.vendor.channel import ToolboxChannel
from hermesops.vendor.justavps import Client


@dataclass(frozen=True)
class Rollbacks:
    """Rolls back single agents, and previews rollbacks of one or of a rollout.

    Attributes:
        registry: Opens the registry, which a direct rollback does without.
        releases: The store, for a machine that lost the slot.
    """

    environment: str
    registry: Callable[[], Registry]
    vendor: Callable[[], AbstractAsyncContextManager[Client]]
    hold_lease: Callable[[str], LeaseKeeper]
    releases: Callable[[], Releases]

    async def roll_back(
        self, instance: Instance, *, to: str, loses: bool, even_revoked: bool, why: str
    ) -> RollbackResult:
        """Roll one agent back to its previous release, under its lease, and record it in the registry.

        Raises:
            UsageError: There is no such release on its machine.
            RefusedError: Another operation works on it, rows would be lost, or the release was revoked.
            UnavailableError: Its machine does not answer.
        """
        title, machine_id = instance.title, machine_of(instance)
        async with self.vendor() as client:
            try:
                async with self.hold_lease(instance_subject(instance.id)) as keeper:
                    slots = _releases(client, keeper.lease)
                    rolling_back = roll_back_release(
                        slots, machine_id, self._bundle_of, to=to, loses=loses, even_revoked=even_revoked, title=title
                    )
                    done = await keeper.guard(rolling_back)
            except LeaseHeldError as held:
                hint = Hint(("operation", "list"), ";", ("rollback", title, "--direct"), "ignores that operation")
                raise LeaseHeldError(held.message, hint=hint, holder=held.holder) from held
        targets = self.registry().rollout_targets
        targets.record_rolled_back(instance.id, done.release, before=done.before, why=why)
        return done

    async def roll_back_directly(
        self, text: str, *, to: str, loses: bool, even_revoked: bool
    ) -> tuple[str, RollbackResult]:
        """Roll one agent back without a registry: no lease, no record. Returns the machine's name and the result.

        Raises:
            UsageError: No machine matches, or several do, or it has no such release.
            RefusedError: Rows would be lost, or the release was revoked.
            UnavailableError: It does not answer.
        """
        async with self.vendor() as client:
            machine = await find_machine(client, partial(ToolboxChannel, client), text, environment=self.environment)
            done = await roll_back_release(
                _releases(client),
                MachineId(machine.id),
                self._bundle_of,
                to=to,
                loses=loses,
                even_revoked=even_revoked,
                title=machine.name,
            )
            return machine.name, done

    async def preview(self, instance: Instance, *, to: str) -> AgentLosses:
        """The losses of one agent by a rollback to its previous release, or to another one. Changes nothing.

        Raises:
            UsageError: There is no such release on its machine.
            UnavailableError: It does not answer.
        """
        async with self.vendor() as client:
            slots = _releases(client)
            result = await preview_rollback(slots, machine_of(instance), to=to, title=instance.title)
            return AgentLosses(instance.title, result.release, result)

    async def preview_rollout(self, rollout: Rollout) -> tuple[AgentLosses, ...]:
        """The losses of each agent that a rollback of a rollout would bring back, in their order. Changes nothing.

        One that cannot be asked has a problem in place of a result.
        """
        registry = self.registry()
        rows = await in_db_thread(registry.rollout_targets.list, rollout.id)
        targets = [row.facts for row in rows if row.progress.on_release]
        if rollout.action is not Action.SLOT:  # the state moves with the agent, and none of it is replaced
            return tuple(_losses_of(target, unchanged(ReleaseId(target.release_before))) for target in targets)
        async with self.vendor() as client:
            ask = partial(self._preview_target, registry, _releases(client))
            results = await fan_out(targets, ask, ASK)
        return tuple(map(_losses_of, targets, results))

    async def _preview_target(self, registry: Registry, slots: ReleaseClient, target: Target) -> RollbackResult:
        instance = await in_db_thread(registry.instances.get, target.instance_id)
        release = ReleaseId(target.release_before)
        return await slots.preview_rollback(machine_of(instance), to=release, timeout_s=ASK.within_s)

    def _bundle_of(self, release: ReleaseId) -> HandedOut:
        return HandedOut(release, self.releases())


def _losses_of(target: Target, answer: RollbackResult | HermesError) -> AgentLosses:
    return losses_of(target, target.release_before, answer)


def _releases(client: Client, lease: Lease | None = None) -> ReleaseClient:
    return ReleaseClient(partial(ToolboxChannel, client), lease)
