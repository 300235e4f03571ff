"""The parts of an environment's platform: its stack, and on the local world's machine its roles."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermesops.app import parts
from hermesops.localcloud.drivers.interface import PlatformService
from hermesops.model.plan import Plan

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.infra.stacks.platform.outputs import PlatformOutputs
    from hermesops.localcloud.world.files import WorldFiles
    from hermesops.model.ids import MachineId
    from hermesops.platform.connection.connect import PlatformConnection
    from hermesops.platform.host import Part, PlatformHost
    from hermesops.platform.local.roles import RolesRecord
    from hermesops.platform.parts.control import ControlPart
    from hermesops.platform.parts.monitoring import LocalMonitoring, MonitoringPart
    from hermesops.platform.parts.router import RouterPart
    from hermesops.platform.parts.users import UsersHalf
    from hermesops.platform.restore import DatabaseRestore
    from hermesops.platform.services import PlatformServices
    from hermesops.platform.stack import LocalPlatforms, PlatformStack
    from hermesops.platform.state import HostState
    from hermesops.platform.without_registry import PlatformTrust
    from hermesops.vendor.justavps import Client

_EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - of a machine that lets only the world's server in


@dataclass(frozen=True)
class PlatformParts:
    """Everything about the platform of a local world, with a connection to the vendor."""

    container: "Container"
    client: "Client"

    @cached_property
    def host(self) -> "PlatformHost":
        """Applies the platform's roles to its host."""
        from hermesops.base.progress import DURATIONS, Durations
        from hermesops.platform.host import PlatformHost
        from hermesops.vendor.channel import ToolboxChannel

        return PlatformHost(
            environment=self.container.env.name,
            channel_to=partial(ToolboxChannel, self.client),
            converger=self.container.converger,
            load_authority=self._trust.authority,
            variables=self.container.base_variables,
            context=self._trust.context,
            report=self.container.report,
            durations=Durations(self.container.env.folder / DURATIONS),
        )

    async def overview(self) -> "tuple[PlatformOutputs[str] | None, Mapping[str, str], HostState | None]":
        """Outputs, users' links and the host's state; without a stack the state alone."""
        if not await self.stack.exists():
            return None, {}, await self.observe()
        return await self.stack.outputs(), self.links, await self.observe()

    @cached_property
    def stack(self) -> "PlatformStack":
        """Previews and applies the Pulumi stack of this environment's platform."""
        from hermesops.platform.stack import PlatformStack

        container = self.container
        return PlatformStack(
            container.env.name,
            lambda: container.platform_engine,
            self._program,
            container.platform_previews,
            container.platform_lease,
            container.report,
        )

    @cached_property
    def ups(self) -> "LocalPlatforms":
        """Brings the platform up: its stack, then the roles of its host. Raises as ``_services``."""
        from hermesops.platform.stack import LocalPlatforms

        container, services = self.container, self._services[0]
        return LocalPlatforms(
            environment=container.env.name,
            stack=self.stack,
            world=self._world,
            services=services,
            client=self.client,
            host=self.host,
            extend_base=self._extend_base,
            parts=self._parts,
            links=lambda: self.links,
            opens_door=lambda door, api: self._users.open_door(self._world.users_door, door, api),
            roles=self.roles,
            report=container.report,
        )

    @property
    def roles(self) -> "RolesRecord":
        """Reads the record of the last application of the platform's roles."""
        from hermesops.platform.local.roles import RolesRecord

        return RolesRecord(self._world.folder / "platform-roles.json")

    @cached_property
    def monitoring(self) -> "LocalMonitoring":
        """Brings up monitoring alone, without the rest of the platform.

        Raises:
            RefusedError: The world's machines are simulated.
        """
        from hermesops.observability.telemetry.addresses import url_in_local_world
        from hermesops.platform.local.world import loki_of
        from hermesops.platform.parts.monitoring import LocalMonitoring, refuse_simulated

        container, settings = self.container, self.container.env.settings
        refuse_simulated(is_simulated=container.adapters.is_simulated)
        return LocalMonitoring(
            environment=container.env.name,
            world=self._world,
            find_url=partial(url_in_local_world, self._world),
            has_platform=self.stack.exists,
            client=self.client,
            host=self.host,
            authorities=self._trust.authorities,
            extend_base=self._extend_base,
            loki=partial(loki_of, container.env, container.report),
            part=self._monitoring_part,
            server_type=settings.server_types[Plan.LIGHT],
            region=settings.region,
            report=container.report,
        )

    async def connection(self) -> "PlatformConnection":
        """Points this environment at its platform: settings, keys and registry.

        Raises:
            RefusedError: There is none.
        """
        from hermesops.platform.connection.connect import PlatformConnection, folder_copies
        from hermesops.platform.connection.registry_move import RegistryMove
        from hermesops.platform.connection.settings import moves_backups, settings_of

        container = self.container
        outputs = await self.stack.outputs()
        settings = settings_of(
            container.env,
            outputs,
            iam_endpoint=f"https://{self._services[0][PlatformService.OBJECT_STORE_IAM]}",
            moves_backups=moves_backups(container.env, container.registry),
        )
        return PlatformConnection(
            env=container.env,
            wanted=settings,
            channel=self.host.channel_to(await self._machine()),
            load_authority=self._trust.authority,
            authorities=self._trust.authorities,
            registry=RegistryMove(
                source_url=f"sqlite:///{container.env.folder / 'registry.db'}",
                target_url=settings["registry.url"],
                open_target=container.registry_place.open_at,
                anchor_at=container.registry_place.anchor_at,
                report=container.report,
            ),
            copies=partial(folder_copies, container.env, settings),
            door=self._world.users_door,
            report=container.report,
        )

    async def database_restore(self, why: str) -> "DatabaseRestore":
        """Restores the platform's database; ``why`` goes into the audit.

        Raises:
            RefusedError: There is none.
        """
        from hermesops.platform.connection.settings import is_connected
        from hermesops.platform.parts.users import ROLES as USER_ROLES
        from hermesops.platform.restore import DatabaseRestore, restoring

        container, machine_id = self.container, await self._machine()

        async def apply(target: str) -> tuple[str, ...]:
            parts = [restoring(part, target) for part in await self._parts() if part.role not in USER_ROLES]
            return await self.ups.apply(machine_id, parts)

        return DatabaseRestore(
            channel=self.host.channel_to(machine_id),
            apply=apply,
            open_epoch=partial(container.registry_place.record_restored, why) if is_connected(container.env) else None,
            report=container.report,
        )

    async def observe(self) -> "HostState":
        """Observe the platform's host: services, versions, backup and certificate.

        Raises:
            RefusedError: There is no such machine.
            UnavailableError: It does not answer.
        """
        from hermesops.platform.state import observe_host

        return await observe_host(self.host.channel_to(await self._machine()))

    @property
    def links(self) -> "Mapping[str, str]":
        """Addresses of the users' half, by what is there; raises as ``_services``."""
        return self._users.links

    async def services(self) -> "PlatformServices":
        """Lists, restarts and reads logs of the host's services; raises as ``observe``."""
        from hermesops.platform.services import PlatformServices
        from hermesops.platform.without_registry import record_restart

        record = partial(record_restart, lambda: self.container.registry, self.container.report)
        return PlatformServices(self.host.channel_to(await self._machine()), record)

    @cached_property
    def _trust(self) -> "PlatformTrust":
        from hermesops.platform.without_registry import PlatformTrust

        container = self.container
        return PlatformTrust(
            container.env,
            lambda: container.registry,
            container.secrets,
            partial(parts.access.load_authority, container),
        )

    @cached_property
    def _world(self) -> "WorldFiles":
        from hermesops.localcloud.world.files import WorldFiles

        return WorldFiles(self.container.env.world)

    @cached_property
    def _services(self) -> "tuple[dict[PlatformService, str], str]":
        """Read the addresses of the platform's services, and of the vendor's API as its host reaches it.

        Raises:
            RefusedError: The world's machines are simulated.
            UnavailableError: The world is down, or an older version of it runs.
        """
        from hermesops.localcloud.world.files import read_object
        from hermesops.platform.image.bundles import ANEW_WITH_PLATFORM
        from hermesops.platform.parts.monitoring import refuse_simulated
        from hermesops.platform.stack import local_services

        refuse_simulated(is_simulated=self.container.adapters.is_simulated, again=ANEW_WITH_PLATFORM)
        return local_services(read_object(self._world.world))

    async def _extend_base(self) -> None:
        from hermesops.platform.local.world import world_of

        await world_of(self.container.env).extend_base(self.container.report)

    async def _machine(self) -> "MachineId":
        from hermesops.platform.host import find_machine

        return await find_machine(self.client, self.container.env.name)

    async def _program(self, state: Mapping[str, Any]) -> Callable[[], Any]:
        from hermesops.platform.stack import LocalPrograms
        from hermesops.platform.without_registry import newest_image

        registry, report = lambda: self.container.registry, self.container.report
        settings = self.container.env.settings
        programs = LocalPrograms(
            environment=self.container.env.name,
            services=self._services[0],
            client=self.client,
            region=settings.region,
            server_type=settings.server_types[Plan.HEAVY],
            newest_image=partial(newest_image, registry, self.client, report),
            report=report,
        )
        return await programs.make(state)

    async def _parts(self) -> "Sequence[Part]":
        from hermesops.access.secrets.catalog import DATABASE_KEY
        from hermesops.platform.host import PlainPart, TlsPart
        from hermesops.platform.local.world import loki_of, versitygw_of
        from hermesops.platform.parts.control import DATABASE_CLIENTS
        from hermesops.platform.parts.database import DatabasePart
        from hermesops.platform.parts.monitoring import found_loki
        from hermesops.platform.stack import DATABASE_BUCKET

        container = self.container
        loki = await found_loki(partial(loki_of, container.env, container.report), container.report)
        program = await versitygw_of(container.env, container.report)
        url = f"https://{self._services[0][PlatformService.MONITORING]}"
        return [
            TlsPart(self._trust.authorities),
            PlainPart("hermes_platform_object_store", {"program": program, "iam_address": _EVERY_ADDRESS}),
            DatabasePart(
                container.env.name, DATABASE_BUCKET, DATABASE_CLIENTS, partial(container.secrets.made, DATABASE_KEY)
            ),
            PlainPart("hermes_platform_redis", {}),
            self._monitoring_part(url, loki),
            self._router_part,
            self._control_part,
            *self._users.parts,
        ]

    def _monitoring_part(self, url: str, loki: Path | None) -> "MonitoringPart":
        from hermesops.platform.image.bundles import ingest_program
        from hermesops.platform.parts.monitoring import MonitoringPart

        container = self.container
        return MonitoringPart(
            environment=container.env.name,
            url=url,
            identity_url=container.endpoint.platform_url,
            loki=loki,
            program=ingest_program(container.env),
            time_scale=container.env.settings.monitoring.time_scale,
        )

    @property
    def _router_part(self) -> "RouterPart":
        from hermesops.platform.image.bundles import router_program, router_wheels
        from hermesops.platform.parts.router import RouterPart, provider_keys_of

        container = self.container
        keys, urls = provider_keys_of(container.env.settings.model, container.secrets, self._world)
        return RouterPart(
            wheels=partial(router_wheels, container.env, container.report),
            program=router_program(container.env),
            token_keys=lambda: tuple(key.decode() for key in container.router_keys),
            provider_keys=keys,
            provider_urls=urls,
        )

    @cached_property
    def _users(self) -> "UsersHalf":
        """The users' half of the platform; nothing of it while the registry is elsewhere."""
        from urllib.parse import urlsplit

        from hermesops.access.secrets.catalog import (
            BILLING_SECRET,
            MESSAGES_KEY,
            SLACK_SECRET,
            TELEGRAM_SECRET,
            WHATSAPP_SECRET,
        )
        from hermesops.platform.connection.settings import is_connected
        from hermesops.platform.parts.connector_keys import connector_keys, numbers_key
        from hermesops.platform.parts.control import project_key
        from hermesops.platform.parts.users import UsersHalf

        container = self.container
        secrets, endpoint = container.secrets, container.endpoint

        def keys() -> dict[str, str]:
            return {
                "messages_key": secrets.read(MESSAGES_KEY),
                "billing_secret": secrets.find(BILLING_SECRET) or "",
                "telegram_secret": secrets.find(TELEGRAM_SECRET) or "",
                "slack_secret": secrets.find(SLACK_SECRET) or "",
                "whatsapp_secret": secrets.find(WHATSAPP_SECRET) or "",
                "whatsapp_key": numbers_key(container.messenger_settings, secrets),
            }

        return UsersHalf(
            env=container.env,
            endpoint=endpoint,
            edge=self._services[0][PlatformService.USERS],
            project_key=project_key(endpoint, secrets),
            keys=keys,
            callers=lambda: container.callers,
            authorities=self._trust.authorities,
            report=container.report,
            world_port=urlsplit(endpoint.api_url).port or 0,
            is_served=is_connected(container.env),
            connector_keys=partial(connector_keys, container.messenger_settings, secrets),
            messengers=container.messenger_settings,
        )

    @property
    def _control_part(self) -> "ControlPart":
        from urllib.parse import urlsplit

        from hermesops.platform.connection.settings import is_connected
        from hermesops.platform.image.bundles import control_bundle_of
        from hermesops.platform.parts.control import ControlPart, host_proof, host_settings, keys_of, url_on_host
        from hermesops.platform.stack import local_outputs

        container = self.container
        services, vendor_api = self._services
        port = urlsplit(container.endpoint.api_url).port or 0
        outputs = local_outputs(services)
        return ControlPart(
            environment=container.env.name,
            bundle=partial(control_bundle_of, container.env, container.report),
            registry_url=url_on_host(outputs.database_name),
            settings=host_settings(
                container.env,
                container.endpoint,
                outputs,
                api_url=f"http://127.0.0.1:{port}/api/v1",
                users=self._users.settings,
            ),
            keys=lambda: keys_of(
                container.endpoint,
                container.router_keys,
                container.pulumi_passphrase(),
                container.secrets,
                has_connector=self._users.has_connector,
            ),
            proof=host_proof(container.env),
            vendor_api=vendor_api,
            vendor_api_port=port,
            is_connected=is_connected(container.env),
        )
