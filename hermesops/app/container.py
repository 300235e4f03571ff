"""The container of one environment: settings in, objects out. Only the command line imports it.

Each part is made when it is first asked for, and imports only what it needs.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING

from hermesops.app.container_parts.registry_services import RegistryServices
from hermesops.settings.environment import Environment

if TYPE_CHECKING:
    from hermesops.access.identity.break_glass import BreakGlassOrders
    from hermesops.access.identity.signatures import Signers
    from hermesops.access.secrets.service import SecretChanges
    from hermesops.agents.backup.registry_copies import RegistryCopies
    from hermesops.agents.cells.service import ChosenCells
    from hermesops.agents.drift.lost_registry.recovery import OrphanRepairs, Orphans, RegistryRebuild
    from hermesops.agents.drill.service import RunbookDrills
    from hermesops.agents.instances.credentials.tokens import ModelTokenRevocation
    from hermesops.agents.relay.serve import RelayService
    from hermesops.agents.rollout.operators.rollbacks import Rollbacks
    from hermesops.app.connected import Connected
    from hermesops.app.container_parts.platform import PlatformParts
    from hermesops.automation.doctor.environment_checks import EnvironmentChecks
    from hermesops.model.ids import InstanceId
    from hermesops.model.instance import Instance
    from hermesops.observability.runbook.command import Ended
    from hermesops.observability.runbook.faults import AtVendor, Fault
    from hermesops.platform.stack import PlatformStack
    from hermesops.platform.world_purge import WorldPurge


class Container(RegistryServices):
    """Everything of one environment."""

    @asynccontextmanager
    async def connect(self) -> AsyncIterator["Connected"]:
        """Everything that needs connections, closed at the end."""
        from hermesops.access.proxy_tokens.issue import ProxyTokens
        from hermesops.app.connected import Connected
        from hermesops.vendor.channel.agent import AgentApi
        from hermesops.vendor.justavps.proxy import ProxyClient

        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(self.vendor())
            connections = ProxyClient(self.endpoint.api_url, domain=self.env.settings.proxy_domain)
            proxy = await stack.enter_async_context(connections)
            yield Connected(self, client, AgentApi(proxy, ProxyTokens(client, self.registry)))

    @asynccontextmanager
    async def platform(self) -> AsyncIterator["PlatformParts"]:
        """The platform of a local world; no registry is needed, which may be on a platform that is down."""
        from hermesops.app.container_parts.platform import PlatformParts

        async with self.vendor() as client:
            yield PlatformParts(self, client, self.converger, self.base_variables)

    def choose_cells(self, *, names: Sequence[str] = (), where: str = "", everything: bool = False) -> "ChosenCells":
        """The cells that an operator means, with what previews and runs their stacks.

        Raises:
            UsageError: None is meant, or one that is not there.
        """
        from hermesops.agents.cells.selection import select_cells
        from hermesops.agents.cells.service import ChosenCells

        chosen = select_cells(self.registry.cells.list(), names=names, where=where, everything=everything)
        return ChosenCells(
            self.cell_stacks,
            self.guards,
            self.saved_previews,
            self.stack_ups,
            self.env.settings.parallel_cells,
            tuple(chosen),
        )

    @cached_property
    def checks(self) -> "EnvironmentChecks":
        """Whether the environment can be worked with."""
        from hermesops.automation.doctor.environment_checks import EnvironmentChecks
        from hermesops.platform.bootstrap.service import account_checks

        async def bucket() -> str:
            async with self.connect() as connected:
                return (await connected.backups.keys.reach()).name

        async def machines() -> str:
            from hermesops.automation.monitor.fleet_observation import reach_machines

            async with self.connect() as connected:
                return await reach_machines(self.registry, connected.instance_client)

        async def room() -> str:
            from hermesops.automation.doctor.computer import free_room
            from hermesops.localcloud.drivers.nspawn.computer import resources

            world = self.env.world
            existing = next(place for place in (world, *world.parents) if place.exists())
            free = resources.free_resources(existing, [])
            return free_room(free.machines, free)

        return EnvironmentChecks(
            env=self.env,
            runs_machines=self.env.is_local and not self.adapters.is_simulated,
            place=lambda: self.registry_place,
            registry=lambda: self.registry,
            secrets=lambda: self.secrets,
            endpoint=lambda: self.endpoint,
            vendor=self.vendor,
            machines=machines,
            router_key=lambda: self.router_key,
            authority=lambda: self.authority,
            release_key=lambda: self.release_key,
            room=room,
            bucket=bucket,
            account=account_checks(self.env),
            state_opens=self.state_opens,
        )

    @property
    def rollbacks(self) -> "Rollbacks":
        """Rolls back single agents."""
        from hermesops.agents.rollout.operators.rollbacks import Rollbacks

        return Rollbacks(self.env.name, lambda: self.registry, self.vendor, self.hold_lease, lambda: self.releases)

    @property
    def runbook_drills(self) -> "RunbookDrills":
        """Drills of runbooks, each with connections of its own: it breaks what they lead to."""
        from hermesops.agents.drill.service import RunbookDrills
        from hermesops.base import assets
        from hermesops.observability.runbook.command import run_command
        from hermesops.observability.runbook.service import variables_of

        async def provision(fault: "Fault") -> "Instance":
            async with self.connect() as connected:
                return await connected.drill_machines.provision(fault)

        async def at_vendor(instance: "Instance", action: "AtVendor") -> None:
            async with self.connect() as connected:
                await connected.drill_machines.at_vendor(instance, action)

        async def command(words: tuple[str, ...], show: "Callable[[str], None]") -> "Ended":
            return await run_command(words, environment=self.env.name, variables=variables_of(self.env), show=show)

        folder = assets.folder("runbooks")
        return RunbookDrills(self.registry, self.env.is_local, folder, provision, at_vendor, command)

    @property
    def model_token_revocation(self) -> "ModelTokenRevocation":
        """Revokes agents' tokens for the model router; connects only to hand an agent another."""
        from hermesops.agents.instances.credentials.tokens import ModelTokenRevocation

        async def hand(instance: "Instance") -> None:
            async with self.connect() as connected:
                await connected.model_tokens.hand(instance)

        return ModelTokenRevocation(self.registry, hand)

    @cached_property
    def secret_changes(self) -> "SecretChanges":
        """Changes secrets."""
        from hermesops.access.secrets.service import SecretChanges

        return SecretChanges(
            self.secrets, lambda: self.registry, lambda: self.registry_place, self.hold_lease, self.report
        )

    @property
    def orphan_repairs(self) -> "OrphanRepairs":
        """Adopts or destroys machines of ours that no instance is on."""
        from hermesops.agents.drift.lost_registry.recovery import OrphanRepairs

        return OrphanRepairs(self._orphans)

    @asynccontextmanager
    async def _orphans(self) -> "AsyncIterator[Orphans]":
        from hermesops.agents.drift.lost_registry.recovery import Orphans, read_identities

        async def take_back(instance_id: "InstanceId") -> None:
            if self.backup_store.holds_anything:
                await self.recovery_records.take_back(instance_id)

        async with self.vendor() as client:
            read = partial(read_identities, client, lambda: self.router_keys)
            yield Orphans(self.env.name, self.registry, client, read, self.hold_lease, take_back)

    @cached_property
    def registry_rebuild(self) -> "RegistryRebuild":
        """Rebuilds a lost registry from the vendor's list and the machines."""
        from hermesops.agents.drift.lost_registry.recovery import RegistryRebuild

        return RegistryRebuild(
            environment=self.env.name,
            place=self.registry_place,
            vendor=self.vendor,
            engine=lambda: self.engine,
            router_keys=lambda: self.router_keys,
            records=lambda: self.stored_records if self.backup_store.holds_anything else None,
            report=self.report,
        )

    @property
    def registry_copies(self) -> "RegistryCopies":
        """The copies of an SQLite registry."""
        from hermesops.agents.backup.registry_copies import RegistryCopies

        return RegistryCopies(self.env.name, self.registry_place, self.vendor)

    @cached_property
    def break_glass(self) -> "BreakGlassOrders":
        """Opens machines' sshd in emergencies."""
        from hermesops.access.identity.break_glass import BreakGlassOrders

        return BreakGlassOrders(self.env, self.registry, self._world_key)

    def _world_key(self) -> "Signers | None":
        """The local world's key, by a file that stays when hermesops has ended, if there is one."""
        from hermesops.access.identity.signatures import Signers
        from hermesops.access.secrets.catalog import RELEASE_KEY

        file = self.secrets.home.path(RELEASE_KEY.name)
        return Signers(file) if file is not None and file.exists() else self.release_key.find()

    @cached_property
    def relay(self) -> "RelayService":
        """Carries requests of the platform's services to agents."""
        from hermesops.access.secrets.environment import api_url_of
        from hermesops.agents.relay.serve import RelayService

        domain = self.env.settings.proxy_domain
        return RelayService(self.registry, self.authority, self.callers, api_url_of(self.env), domain)

    @cached_property
    def aws_platform_stack(self) -> "PlatformStack":
        """The stack of the environment's platform on AWS."""
        from hermesops.app.container_parts.platform import aws_platform_stack

        return aws_platform_stack(self)

    @cached_property
    def world_purge(self) -> "WorldPurge":
        """Removes the local world, with what the registry and stacks know of it.

        Raises:
            RefusedError: The environment's machines are rented.
        """
        from hermesops.app.container_parts.local_world import world_of
        from hermesops.platform.world_purge import WorldPurge

        def reopened() -> WorldPurge:
            env = Environment.load(self.env.name, self.env.variables)
            return Container(env, self.report, self._warn).world_purge

        return WorldPurge(self.env, world_of(self.env), self.registry_place, self.report, reopened)
