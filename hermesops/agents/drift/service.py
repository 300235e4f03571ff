"""Finds differences between registry, stacks, vendor and machines, and applies roles to repair machines."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hermesops.agents.cells.stack.stacks import CellStacks
from hermesops.agents.cells.stack.state import PROJECT, machines_in, stack_of
from hermesops.agents.drift.collect import Survey
from hermesops.agents.drift.compare import compare, machines_asked, narrowed
from hermesops.agents.drift.finding import Finding
from hermesops.agents.drift.history import changes
from hermesops.agents.drift.inspection import Asked, RolesReport, inspect
from hermesops.agents.instances import refusals
from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.rollout.records.store import refuse_unknown
from hermesops.base.extras import Extra, require
from hermesops.base.progress import DURATIONS, Durations, Progress
from hermesops.errors import HermesError, RefusedError, UnavailableError
from hermesops.infra.engine.interface import Engine
from hermesops.machines.converge import Converged, Converger, hosts_of
from hermesops.machines.image.machines import is_build_under_way
from hermesops.model.check import Check
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.selector import Selector
from hermesops.model.ids import InstanceId, instance_subject
from hermesops.settings.environment import Environment
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry import Registry
from hermesops.vendor.justavps import Client

if TYPE_CHECKING:  # for --deep alone; the container makes them
    from hermesops.machines.image.build import Recipe
    from hermesops.machines.verify.verification import Verification

_ENTRIES = 10_000


@dataclass(frozen=True)
class Drift:
    """Finds and repairs differences in one environment."""

    env: Environment
    registry: Registry
    client: Client
    cells: CellStacks
    instance_client: PowerControl
    converger: Converger
    recipe: Callable[[str], "Recipe"]
    verify: Callable[[Instance], Awaitable["Verification"]]
    hold_lease: Callable[[str], LeaseKeeper]
    report: Callable[[str], None]

    async def findings(self, selector: Selector, *, deep: bool) -> tuple[Finding, ...]:
        """All differences among the selected instances, the worst first; records the state of machines, if permitted.

        Args:
            selector: By ``plan``, ``cell``, ``status`` and ``user``.

        Raises:
            UsageError: It names a user or a cell that is not there, or ``deep`` lacks the extra that applies roles.
        """
        if deep:
            require(Extra.ROLES, "a deep comparison")
        refuse_unknown(self.registry, selector)
        survey = Survey(
            self.env.name,
            self.registry,
            self.client,
            self.cells.state,
            machines_in,
            lambda machine: is_build_under_way(machine, self.env.name, datetime.now(UTC)),
        )
        snapshot = await survey.observe()
        if deep:
            client = self.instance_client
            probes = Asked(client.channel, client.node, client.payload_digest, self._verified, self._roles)
            answers = await inspect(probes, machines_asked(snapshot, selector), report=self.report)
            snapshot = replace(snapshot, answers=answers)
        try:
            snapshot = survey.remember(snapshot)
        except RefusedError as refused:  # readers only, as the nightly pipeline
            self.report(f"observations were not recorded: {refused.message}")
        return narrowed(compare(snapshot), snapshot.rows, selector)

    async def converge(self, instances: Sequence[Instance], *, check: bool = False) -> Converged:
        """Run the Ansible roles on the machines of instances.

        Args:
            check: Report the changes without making them.

        Raises:
            UsageError: There is no instance, or no Ansible.
        """
        variables = dict(self.recipe(self.env.settings.image).variables)
        if self.env.settings.monitoring.profile == "auto":
            variables["hermes_monitoring_profile"] = "keep"  # as their image had it, whatever today's settings
        progress = Progress("roles of instances", "tasks", self.report, Durations(self.env.folder / DURATIONS))
        report = None if check else progress.step
        done = await self.converger.run(
            "instance", hosts_of(instances), variables=variables, check=check, report=report
        )
        if done.ok and not check:
            progress.end()
        return done

    async def accept_size(self, instance: Instance, *, reason: str) -> tuple[str, str]:
        """Accept the size that a machine was given at JustAVPS as the ordered one; the sizes before and now.

        Raises:
            RefusedError: Its machine is gone.
            UnavailableError: JustAVPS does not say how large it is.
        """
        async with self.hold_lease(instance_subject(instance.id)):
            size = await self.size_of(instance)
            before = self.registry.recovery.accept_server_type(instance.id, size, why=reason)
        return before, size

    async def size_of(self, instance: Instance) -> str:
        """The size of an instance's machine at JustAVPS; raises as ``accept_size``."""
        machine = await self.instance_client.machine(instance)
        if machine is None:
            is_backed_up = self.registry.backups.is_backed_up(instance.id)
            raise refusals.unreachable(Observation(instance, None, is_backed_up=is_backed_up))
        if not machine.server_type:
            raise UnavailableError(f"JustAVPS reports no size of {instance.machine_name}")
        return machine.server_type

    async def _verified(self, instance: Instance) -> Sequence[Check]:
        return (await self.verify(instance)).for_user(instance.title)

    async def _roles(self, instances: Sequence[Instance]) -> Mapping[InstanceId, RolesReport]:
        try:
            ran = await self.converge(instances, check=True)
        except HermesError as error:
            return {instance.id: RolesReport(unseen=error.message) for instance in instances}
        reports = {}
        for instance in instances:
            host = ran.hosts[instance.user_alias or instance.id]
            failure = f"{host.status} at {host.failure.task}" if host.failure else host.status
            reports[instance.id] = RolesReport(host.changed, "" if host.status == "done" else f"roles: {failure}")
        return reports


async def happenings(
    registry: Registry, engine: Engine, since: datetime, report: Callable[[str], None]
) -> tuple[changes.Happening, ...]:
    """Events of the fleet since a moment, oldest first; the vendor is not asked."""
    runs = {}
    there = set(await engine.stacks(PROJECT))
    for cell in registry.cells.list():
        if stack_of(cell.name) in there:
            try:
                runs[cell.name] = await engine.history(stack_of(cell.name))
            except HermesError as error:
                report(f"the history of {cell.name} cannot be read: {error.message}")
    entries = registry.audit.list(since=since, limit=_ENTRIES)
    if len(entries) == _ENTRIES:
        report(f"only the newest {_ENTRIES} entries of the audit are shown")
    return changes.happenings(entries, runs, since=since)
