"""The machines of a rollout that deploys a release into their slots, each under its instance's own lease."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field

from hermesops.agents.backup.service import Backups
from hermesops.agents.instances.releases.rehearsal import NoRollbackError, walk
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.remote.releases import ReleaseClient
from hermesops.agents.pool.service import Pools
from hermesops.base.waiting import WaitExpiredError
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.machines.release import Releases
from hermesops.machines.release.releases import HandedOut
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.slot import SlotsState
from hermesops.model.fleet.unassigned_machine import UnassignedMachine, machine_subject
from hermesops.model.ids import InstanceId, MachineId, instance_subject
from hermesops.model.operation import Lease, LeaseHeldError, LeaseLostError, Operation
from hermesops.model.plan import Plan
from hermesops.model.rollout.records import GateResult, ReleaseStatus, Target
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import Spec
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry import Registry

_AGENT_S = 8.0
"""Seconds in which an agent has to answer before anything is changed."""

_PROXY_S = 20.0
"""Seconds in which the gateway has to answer through the proxy before the release is confirmed."""


@dataclass(frozen=True)
class SlotMachines:
    """``hermesops.agents.rollout.ports.Machines`` for releases in slots.

    Attributes:
        purpose: The reason of the backups before a change, as ``rollout ID``; a backup is made once for it.
    """

    registry: Registry
    instance_client: PowerControl
    backups: Backups
    pools: Pools
    releases: Releases
    hold_lease: Callable[[str], LeaseKeeper]
    leave: Callable[[Operation], None]
    purpose: str
    _cancelled: set[InstanceId] = field(default_factory=set, init=False)

    async def observe(self, instance_id: InstanceId) -> ReleaseStatus:
        """Read the releases on an instance's machine from hermes-node; a stopped instance is reported as absent.

        Raises:
            LeaseHeldError: Another process works on the instance.
            UnavailableError: hermes-node does not answer.
        """
        instance = await in_db_thread(self.registry.instances.get, instance_id)
        if instance.status is not InstanceStatus.RUNNING:
            return ReleaseStatus("", absent=instance.status.value)
        slots = await self._client().observe(machine_of(instance))
        if slots is None:
            await refuse_if_worked_on(self.registry, instance)
            raise UnavailableError(f"hermes-node on {instance.machine_name} gives no answer")
        return status_of(slots)

    async def observe_agent(self, target: Target) -> str:
        """Ask the gateway through the proxy, and hermes-node."""
        return await unwell(self.registry, self.instance_client, target)

    async def fetch(self, target: Target, release: ReleaseId) -> None:
        """Copy the missing parts of the release to the machine."""
        async with self._releases(target) as (releases, machine_id):
            slots = await releases.observe(machine_id)
            python = slots.python if slots else ""
            await releases.fetch(machine_id, HandedOut(release, self.releases), python=python)

    async def activate(self, target: Target, release: ReleaseId, spec: Spec) -> None:
        """Back the state up, and have the machine try and then run the release, unconfirmed."""
        self._cancelled.discard(target.instance_id)
        await self._back_up(target)
        if target.instance_id in self._cancelled:
            raise UnavailableError(f"{target.user} is unchanged: its change was cancelled")
        async with self._releases(target) as (releases, machine_id):
            done = await releases.activate(machine_id, release, confirm_s=spec.confirm_s, drain_s=spec.drain_s)
        if done.problem:
            bad = [f"{check.name}: {check.detail}" for check in done.checks if not check.ok]
            words = "; ".join(bad) or done.problem
            raise RefusedError(f"{done.stage or 'activate'}: {words}")

    async def cancel(self, target: Target) -> None:
        """End the drain, so that the agent takes turns again; a machine that is already switching is not touched."""
        self._cancelled.add(target.instance_id)
        instance = await in_db_thread(self.registry.instances.get, target.instance_id)
        await self._client().cancel(machine_of(instance))

    async def confirm(self, target: Target, release: ReleaseId) -> None:
        """See the gateway answer through the proxy, then have the machine keep the release."""
        instance = await in_db_thread(self.registry.instances.get, target.instance_id)
        what = f"the gateway of {instance.title} through the proxy"
        await self.instance_client.await_health(instance, what=what, timeout_s=_PROXY_S, every_s=0.5)
        async with self._releases(target) as (releases, machine_id):
            await releases.confirm(machine_id, release)
            with suppress(UnavailableError, RefusedError):  # the next change tidies what this one leaves
                await releases.tidy(machine_id)

    async def roll_back(self, target: Target, *, lose: bool, even_revoked: bool = False) -> tuple[str, ...]:
        """Roll the machine back to the release that it had; a slot that it lost is installed anew."""
        async with self._releases(target) as (releases, machine_id):
            before = ReleaseId(target.release_before)
            slots = await releases.observe(machine_id)
            if slots and before not in slots.slots:
                await releases.install(machine_id, HandedOut(before, self.releases), python=slots.python)
            result = await releases.roll_back(machine_id, to=before, loses=lose, even_revoked=even_revoked)
            return result.settings_lost

    async def drill(self, release: ReleaseId, before: str) -> tuple[GateResult, str]:
        """Rehearse upgrade and rollback on the first warm-pool machine that is free, and mark it for deletion.

        Killed halfway, it leaves a machine that is in no pool any more; the job ``lifecycle`` deletes it.

        Raises:
            HermesError: The machine could not be asked, so nothing is known.
        """
        for row in (machine for plan in Plan for machine in self.pools.ready(plan)):
            try:
                async with self.hold_lease(machine_subject(row.name)) as keeper:
                    if await self.pools.is_up(row) and await in_db_thread(
                        self.registry.assignments.lend, row.name, None, lease=keeper.lease, why=self.purpose
                    ):
                        return await self._rehearse(row, keeper, release, ReleaseId(before))
            except LeaseHeldError:
                continue
        return GateResult.NOT_EXERCISED, f"no machine of a pool was free to go from {before} to {release} and back"

    async def _rehearse(
        self, row: UnassignedMachine, keeper: LeaseKeeper, release: ReleaseId, before: ReleaseId
    ) -> tuple[GateResult, str]:
        client = self.instance_client
        slots, new, old = (
            self._client(keeper.lease),
            HandedOut(release, self.releases),
            HandedOut(before, self.releases),
        )
        try:
            rehearsal = await keeper.guard(walk(slots, client, MachineId(row.machine_id or ""), new, before=old))
        except LeaseLostError:
            raise
        except NoRollbackError as failed:
            return GateResult.FAIL, failed.message
        except RefusedError as refused:  # as where the store lost the release before
            return GateResult.NOT_EXERCISED, refused.message
        finally:
            await in_db_thread(self.registry.unassigned.retire, row.name, why=self.purpose)
            self.leave(self.pools.open(row.cell))
        return GateResult.PASS, rehearsal

    def _client(self, lease: Lease | None = None) -> ReleaseClient:
        return ReleaseClient(self.instance_client.channel, lease)

    async def _back_up(self, target: Target) -> None:
        if not self.backups.are_kept:
            return
        async with self._leased(target) as (instance, lease):
            copies = self.backups.copies(self.instance_client.with_lease(lease))
            await copies.make(instance, machine_of(instance), why=f"before {self.purpose}")

    @asynccontextmanager
    async def _releases(self, target: Target) -> AsyncIterator[tuple[ReleaseClient, MachineId]]:
        """The releases of the target's machine, under the instance's lease."""
        async with self._leased(target) as (instance, lease):
            yield self._client(lease), machine_of(instance)

    @asynccontextmanager
    async def _leased(self, target: Target) -> AsyncIterator[tuple[Instance, Lease]]:
        instance = await in_db_thread(self.registry.instances.get, target.instance_id)
        with held_is_unavailable():
            async with self.hold_lease(instance_subject(instance.id)) as keeper:
                yield instance, keeper.lease


@contextmanager
def held_is_unavailable() -> Iterator[None]:
    """Turn an instance's lease that is held or lost into an error after which the same call may be repeated.

    Raises:
        UnavailableError: In their place.
    """
    try:
        yield
    except (LeaseHeldError, LeaseLostError) as taken:
        raise UnavailableError(taken.message, hint=taken.hint) from taken


async def unwell(registry: Registry, client: PowerControl, target: Target) -> str:
    """The problem of the agent of an untouched target; empty for none.

    Raises:
        LeaseHeldError: It does not answer, and another operation works on the instance: that says nothing of it.
        HermesError: It could not be asked.
    """
    instance = await in_db_thread(registry.instances.get, target.instance_id)
    what = f"the gateway of {instance.title} through the proxy"
    try:
        await client.await_health(instance, what=what, timeout_s=_AGENT_S, every_s=0.5)
    except WaitExpiredError as expired:
        await refuse_if_worked_on(registry, instance)
        return f"its gateway did not answer correctly within {_AGENT_S:g} s: {expired.observed}"
    releases = ReleaseClient(client.channel)
    slots = await releases.observe(machine_of(instance))
    if slots and slots.is_activity_unknown:
        return "its agent did not report to hermes-node whether it is busy"
    problem = await releases.problem_of_agent(machine_of(instance))
    return f"its agent fails a check of hermes-node: {problem}" if problem else ""


async def refuse_if_worked_on(registry: Registry, instance: Instance) -> None:
    """Refuse to judge an instance while an operation works on it.

    Raises:
        LeaseHeldError: An operation works on it, or did so meanwhile; observe it again.
    """
    subject = instance_subject(instance.id)
    holders = [lease.holder for lease in await in_db_thread(registry.leases.list) if lease.subject == subject]
    if holders or await in_db_thread(registry.instances.get, instance.id) != instance:
        raise LeaseHeldError(f"{instance.title} is being worked on", holder="".join(holders))


def status_of(slots: SlotsState) -> ReleaseStatus:
    """The report of a machine on its releases, as rollouts read it. Pure."""
    switch, last = slots.switch, slots.last
    return ReleaseStatus(
        current=slots.current,
        activation=switch.release if switch else "",
        phase=switch.phase if switch else "",
        last=f"{last.at} {last.before} {last.release} {last.outcome}" if last else "",
        last_to=last.release if last else "",
        last_failed=last is not None and last.outcome != "confirmed",
        confirm_timed_out=last is not None and last.outcome == "confirm_timed_out",
        why=last.why if last else "",
        busy=slots.busy,
    )


def machine_of(instance: Instance) -> MachineId:
    """The machine of an instance.

    Raises:
        UnavailableError: It has none.
    """
    if instance.machine_id is None:
        raise UnavailableError(f"{instance.title} has no machine", hint=Hint(("instance", "show", instance.title)))
    return instance.machine_id
