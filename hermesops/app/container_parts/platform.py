"""The parts of an environment's platform: its stack, and on the local world's machine its roles."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hermesops.base.extras import Extra, require
from hermesops.base.progress import DURATIONS, Durations
from hermesops.errors import Hint, UnavailableError
from hermesops.localcloud.drivers.interface import PlatformService
from hermesops.model.image import PLATFORM_IMAGE
from hermesops.model.plan import Plan

UP = Hint(("stack", "up", "platform"))

if TYPE_CHECKING:
    import ssl

    from hermesops.access.pki.authority import Authority
    from hermesops.agents.cells.changes.saved_previews import SavedPreviews
    from hermesops.app.container_parts.unconnected import Unconnected
    from hermesops.localcloud.world.files import WorldFiles
    from hermesops.machines.converge import Converger
    from hermesops.model.ids import MachineId
    from hermesops.platform.connect import FolderCopy, PlatformConnection
    from hermesops.platform.host import Part, PlatformHost
    from hermesops.platform.parts.control import ControlPart
    from hermesops.platform.parts.monitoring import LocalMonitoring, MonitoringPart
    from hermesops.platform.parts.router import RouterPart
    from hermesops.platform.restore import DatabaseRestore
    from hermesops.platform.roles import RolesRecord
    from hermesops.platform.services import PlatformServices
    from hermesops.platform.stack import LocalPlatforms, PlatformStack
    from hermesops.platform.state import HostState
    from hermesops.store.operations.lease import LeaseKeeper
    from hermesops.vendor.justavps import Client

T = TypeVar("T")

_CELLS_STATE = tuple(f".pulumi/{kind}/fleet" for kind in ("stacks", "history", "backups"))
_EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - of a machine that lets only the world's server in


@dataclass(frozen=True)
class PlatformParts:
    """Everything about the platform of a local world.

    Attributes:
        variables: What role ``hermes_base`` has to be told.
    """

    app: "Unconnected"
    client: "Client"
    converger: "Converger"
    variables: Mapping[str, object]

    @cached_property
    def host(self) -> "PlatformHost":
        """Applies the platform's roles to its host."""
        from hermesops.platform.host import PlatformHost
        from hermesops.vendor.channel import ToolboxChannel

        return PlatformHost(
            environment=self.app.env.name,
            channel_to=partial(ToolboxChannel, self.client),
            converger=self.converger,
            load_authority=partial(platform_authority, self.app),
            variables=self.variables,
            context=partial(platform_context, self.app),
            report=self.app.report,
            durations=Durations(self.app.env.folder / DURATIONS),
        )

    @cached_property
    def stack(self) -> "PlatformStack":
        """Its Pulumi stack."""
        from hermesops.platform.stack import PlatformStack

        app = self.app
        hold_lease = partial(_lease_or_none, app)
        previews = platform_previews(app)
        return PlatformStack(app.env.name, lambda: app.platform_engine, self._program, previews, hold_lease, app.report)

    @cached_property
    def ups(self) -> "LocalPlatforms":
        """Brings it up; raises as ``_services``.

        Raises:
            UsageError: The extra that its host is installed with is missing.
        """
        from hermesops.platform.stack import LocalPlatforms

        app, services = self.app, self._services[0]
        require(Extra.BUILD, "bringing the platform up")
        return LocalPlatforms(
            environment=app.env.name,
            stack=self.stack,
            world=self._world,
            services=services,
            client=self.client,
            host=self.host,
            parts=self._parts,
            roles=self.roles,
            report=app.report,
        )

    @property
    def roles(self) -> "RolesRecord":
        """How its roles were applied last."""
        from hermesops.platform.roles import RolesRecord

        return RolesRecord(self._world.folder / "platform-roles.json")

    @cached_property
    def monitoring(self) -> "LocalMonitoring":
        """Brings its monitoring alone up.

        Raises:
            RefusedError: The world's machines are simulated, or rented.
            UsageError: The extra that applies roles is missing.
        """
        from hermesops.app.container_parts.local_world import loki_of
        from hermesops.observability.telemetry.addresses import url_in_local_world
        from hermesops.platform.parts.monitoring import LocalMonitoring, refuse_simulated

        app, settings = self.app, self.app.env.settings
        refuse_simulated(is_simulated=app.adapters.is_simulated)
        require(Extra.ROLES, "bringing monitoring up")
        return LocalMonitoring(
            environment=app.env.name,
            world=self._world,
            find_url=partial(url_in_local_world, self._world),
            has_platform=self.stack.exists,
            client=self.client,
            host=self.host,
            authorities=partial(trusted_authorities, app),
            loki=partial(loki_of, app.env, app.report),
            part=self._monitoring_part,
            server_type=settings.server_types[Plan.LIGHT],
            region=settings.region,
            report=app.report,
        )

    async def connection(self) -> "PlatformConnection":
        """Points this environment at it.

        Raises:
            RefusedError: There is none.
        """
        from hermesops.platform.connect import PlatformConnection, settings_of

        app = self.app
        outputs = await self.stack.outputs()
        wanted = settings_of(
            app.env,
            outputs,
            iam_endpoint=f"https://{self._services[0][PlatformService.OBJECT_STORE_IAM]}",
            moves_backups=self._moves_backups,
        )
        return PlatformConnection(
            env=app.env,
            wanted=wanted,
            channel=self.host.channel_to(await self._machine()),
            load_authority=partial(platform_authority, app),
            authorities=partial(trusted_authorities, app),
            source_url=f"sqlite:///{app.env.folder / 'registry.db'}",
            open_target=app.registry_place.open_at,
            anchor_at=app.registry_place.anchor_at,
            copies=partial(_folder_copies, app, wanted),
            report=app.report,
        )

    async def database_restore(self, why: str) -> "DatabaseRestore":
        """Restores its database; ``why`` goes into the audit.

        Raises:
            RefusedError: There is none.
        """
        from hermesops.platform.connect import is_connected
        from hermesops.platform.restore import DatabaseRestore

        app, machine_id = self.app, await self._machine()

        async def apply(target: str) -> tuple[str, ...]:
            return await self.ups.apply(machine_id, [_restoring(part, target) for part in await self._parts()])

        return DatabaseRestore(
            channel=self.host.channel_to(machine_id),
            apply=apply,
            open_epoch=partial(app.registry_place.record_restored, why) if is_connected(app.env) else None,
            report=app.report,
        )

    async def observe(self) -> "HostState":
        """Its host, as it is now.

        Raises:
            RefusedError: There is no such machine.
            UnavailableError: It does not answer.
        """
        from hermesops.platform.state import observe_host

        return await observe_host(self.host.channel_to(await self._machine()))

    async def services(self) -> "PlatformServices":
        """The services of its host; raises as ``observe``."""
        from hermesops.platform.services import PlatformServices

        return PlatformServices(self.host.channel_to(await self._machine()), self._note_restart)

    def _note_restart(self, services: Sequence[str], why: str) -> None:
        """Note it in the audit; only say it where no registry answers, which may be why they are restarted."""
        try:
            for one in services:
                self.app.registry.audit.append("service_restarted", f"platform/{one}", why=why)
        except UnavailableError as error:
            self.app.report(f"without an entry in the audit: {error.message}")

    @cached_property
    def _world(self) -> "WorldFiles":
        from hermesops.localcloud.world.files import WorldFiles

        return WorldFiles(self.app.env.world)

    @cached_property
    def _services(self) -> "tuple[dict[PlatformService, str], str]":
        """Where its services are reached, and for it the vendor's API.

        Raises:
            RefusedError: The world's machines are simulated.
            UnavailableError: The world is down, or an older version of it runs.
        """
        from hermesops.app.container_parts.platform_bundles import ANEW
        from hermesops.localcloud.world.files import read_object
        from hermesops.platform.parts.monitoring import refuse_simulated
        from hermesops.platform.stack import local_services

        refuse_simulated(is_simulated=self.app.adapters.is_simulated, again=Hint(ANEW, ", then", UP))
        return local_services(read_object(self._world.world))

    @property
    def _moves_backups(self) -> bool:
        """Whether backups go to its store: not where there are some elsewhere, which machines go on with."""
        return bool(self.app.env.settings.backup.bucket) or not self.app.registry.backups.list()

    async def _machine(self) -> "MachineId":
        """The id of its machine.

        Raises:
            RefusedError: There is none.
        """
        from hermesops.errors import RefusedError
        from hermesops.model.ids import MachineId, platform_machine_name

        name = platform_machine_name(self.app.env.name)
        for one in await self.client.list_machines():
            if one.name == name:
                return MachineId(one.id)
        raise RefusedError(f"there is no machine {name}", hint=UP)

    async def _program(self, state: Mapping[str, Any]) -> Callable[[], Any]:
        from hermesops.platform.stack import LocalPrograms

        settings = self.app.env.settings
        programs = LocalPrograms(
            environment=self.app.env.name,
            services=self._services[0],
            client=self.client,
            region=settings.region,
            server_type=settings.server_types[Plan.HEAVY],
            newest_image=self._newest_image,
            report=self.app.report,
        )
        return await programs.make(state)

    async def _newest_image(self) -> str:
        """The image of the platform that was built last, if the vendor still has it; else empty."""
        from hermesops.machines.image.build import SavedImages

        app = self.app
        try:
            image = app.registry.images.latest(PLATFORM_IMAGE)
        except UnavailableError as error:  # it may be on the platform that is brought up
            app.report(f"the registry does not say whether there is an image {PLATFORM_IMAGE}: {error.message}")
            return ""
        return image.id if image and await SavedImages(self.client, app.report).is_bootable(image.id) else ""

    async def _parts(self) -> "Sequence[Part]":
        from hermesops.access.secrets.catalog import DATABASE_KEY
        from hermesops.app.container_parts.local_world import loki_of, versitygw_of
        from hermesops.platform.host import PlainPart, TlsPart
        from hermesops.platform.parts.control import DATABASE_CLIENTS
        from hermesops.platform.parts.database import DatabasePart
        from hermesops.platform.parts.monitoring import found_loki
        from hermesops.platform.stack import DATABASE_BUCKET

        app = self.app
        loki = await found_loki(partial(loki_of, app.env, app.report), app.report)
        program = await versitygw_of(app.env, app.report)
        url = f"https://{self._services[0][PlatformService.MONITORING]}"
        return [
            TlsPart(partial(trusted_authorities, app)),
            PlainPart("hermes_platform_object_store", {"program": program, "iam_address": _EVERY_ADDRESS}),
            DatabasePart(app.env.name, DATABASE_BUCKET, DATABASE_CLIENTS, partial(app.secrets.made, DATABASE_KEY)),
            PlainPart("hermes_platform_redis", {}),
            self._monitoring_part(url, loki),
            self._router_part,
            self._control_part,
        ]

    def _monitoring_part(self, url: str, loki: Path | None) -> "MonitoringPart":
        from hermesops.app.container_parts.platform_bundles import ingest_program
        from hermesops.platform.parts.monitoring import MonitoringPart

        app = self.app
        return MonitoringPart(
            environment=app.env.name,
            url=url,
            identity_url=app.endpoint.platform_url,
            loki=loki,
            program=ingest_program(app.env),
            time_scale=app.env.settings.monitoring.time_scale,
        )

    @property
    def _router_part(self) -> "RouterPart":
        from hermesops.app.container_parts.platform_bundles import router_program, router_wheels
        from hermesops.platform.parts.router import RouterPart

        app = self.app
        keys, urls = _provider_keys(app, self._world)
        return RouterPart(
            wheels=partial(router_wheels, app.env, app.report),
            program=router_program(app.env),
            token_keys=lambda: tuple(key.decode() for key in app.router_keys),
            provider_keys=keys,
            provider_urls=urls,
        )

    @property
    def _control_part(self) -> "ControlPart":
        from urllib.parse import urlsplit

        from hermesops.app.container_parts.platform_bundles import control_bundle_of
        from hermesops.platform.connect import is_connected
        from hermesops.platform.parts.control import ControlPart, host_proof, host_settings, url_on_host
        from hermesops.platform.stack import local_outputs

        app = self.app
        services, vendor_api = self._services
        port = urlsplit(app.endpoint.api_url).port or 0
        outputs = local_outputs(services)
        return ControlPart(
            environment=app.env.name,
            bundle=partial(control_bundle_of, app.env, app.report),
            registry_url=url_on_host(outputs.database_name),
            settings=host_settings(app.env, app.endpoint, outputs, api_url=f"http://127.0.0.1:{port}/api/v1"),
            keys=partial(_keys, app),
            proof=host_proof(app.env),
            vendor_api=vendor_api,
            vendor_api_port=port,
            is_connected=is_connected(app.env),
        )


def _restoring(part: "Part", target: str) -> "Part":
    """A part as it is applied meanwhile: nothing works with a registry whose new epoch has not begun."""
    from hermesops.platform.parts.control import ControlPart
    from hermesops.platform.parts.database import DatabasePart

    if isinstance(part, DatabasePart):
        return replace(part, restore_to=target)
    return replace(part, is_connected=False) if isinstance(part, ControlPart) else part


def _folder_copies(app: "Unconnected", wanted: Mapping[str, str]) -> "list[FolderCopy]":
    from hermesops.infra.engine.embedded.state.bucket import BucketAccess
    from hermesops.infra.engine.embedded.state.storage import open_storage
    from hermesops.platform.connect import FolderCopy, PlatformFiles

    env = app.env
    files = PlatformFiles(env)
    access = BucketAccess(files.store_keys, files.authorities)
    releases = open_storage(wanted["releases"], setting="releases", access=access)
    state = open_storage(wanted["pulumi.backend"], access=access)
    return [
        FolderCopy("releases", env.folder / "releases", releases),
        *(FolderCopy("Pulumi's state", env.folder / "pulumi", state, below) for below in _CELLS_STATE),
    ]


def _provider_keys(app: "Unconnected", world: "WorldFiles") -> tuple[dict[str, str], dict[str, str]]:
    """Keys of model providers, and URLs in the place of their own; without any, the world's model is one."""
    from hermesops.access.secrets.catalog import PROVIDERS_KEY
    from hermesops.localcloud.world.files import PROVIDER_KEY, key_of, read_object
    from hermesops.platform.parts.router import parse_provider_keys

    model = app.env.settings.model
    text = app.secrets.find(PROVIDERS_KEY)
    if text:
        return parse_provider_keys(text, app.secrets.where(PROVIDERS_KEY)), {}
    if model.base_url and model.api_key:
        return {"openai": model.api_key.get_secret_value()}, {"openai": model.base_url}
    url = (read_object(world.world) or {})["model_base_url"]
    return {"openai": key_of(world.provider_key, PROVIDER_KEY)}, {"openai": url}


def _keys(app: "Unconnected") -> dict[str, str]:
    """What the platform's processes open with; those that are not there are left out."""
    from hermesops.access.secrets.catalog import API_KEY, PULUMI_PASSPHRASE, ROUTER_KEY
    from hermesops.platform.parts.control import HANDED_OVER

    given = {
        API_KEY.name: app.endpoint.api_key,
        ROUTER_KEY.name: "\n".join(key.decode() for key in app.router_keys),
        PULUMI_PASSPHRASE.name: app.pulumi_passphrase(),
    }
    return {one.name: text for one in HANDED_OVER if (text := given.get(one.name) or app.secrets.find(one))}


def aws_platform_stack(app: "Unconnected") -> "PlatformStack":
    """The stack of a platform on AWS; it needs no vendor."""
    from hermesops.app.container_parts.aws_platform import require_pulumi
    from hermesops.app.container_parts.aws_program import aws_program
    from hermesops.platform.stack import PlatformStack

    async def make(state: Mapping[str, Any]) -> Callable[[], Any]:
        del state
        return aws_program(app.env, app.pulumi_backend)

    hold_lease, check = partial(_lease_or_none, app), partial(require_pulumi, app.env)
    previews = platform_previews(app)
    return PlatformStack(app.env.name, lambda: app.platform_engine, make, previews, hold_lease, app.report, check)


def platform_previews(app: "Unconnected") -> "SavedPreviews":
    """Previews of the platform's stack that operators save and sign."""
    from hermesops.agents.cells.changes.saved_previews import SavedPreviews

    return SavedPreviews(app.env, lambda: app.platform_engine.name)


class _NoLease:
    """Stands for a lease where the registry, which is on the platform, does not answer."""

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work``."""
        return await work


@asynccontextmanager
async def _lease_or_none(app: "Unconnected", subject: str) -> "AsyncIterator[LeaseKeeper | _NoLease]":
    """The lease of a subject; without one where the registry does not answer: the platform itself may be down.

    Raises:
        LeaseHeldError: Another process holds it.
    """
    async with AsyncExitStack() as stack:
        held: LeaseKeeper | _NoLease = _NoLease()
        try:
            held = await stack.enter_async_context(app.hold_lease(subject))
        except UnavailableError as error:
            app.report(f"without a lease, under Pulumi's own lock alone: {error.message}")
        yield held


def trusted_authorities(app: "Unconnected") -> str:
    """Authorities that certificates may be signed by, PEM of each; as they were last known where no registry answers.

    Raises:
        UnavailableError: The registry does not answer, and they were never known here.
    """
    from hermesops.platform.connect import PlatformFiles

    try:
        return "".join(app.registry.certificates.list_authorities())
    except UnavailableError:
        known = PlatformFiles(app.env).authorities
        if not known.exists():
            raise
        return known.read_text()


def platform_authority(app: "Unconnected") -> "Authority":
    """The environment's authority, also where its registry does not answer; raises as ``trusted_authorities``."""
    from hermesops.access.pki.authority import Authority
    from hermesops.access.secrets.catalog import AUTHORITY_KEY

    try:
        return app.authority.load()
    except UnavailableError:
        source = app.secrets.where(AUTHORITY_KEY)
        return Authority.of_trusted(app.secrets.read(AUTHORITY_KEY), trusted_authorities(app), source=source)


def platform_context(app: "Unconnected") -> "ssl.SSLContext":
    """TLS of this process with the platform's monitoring; raises as ``trusted_authorities``."""
    from hermesops.access.pki.client import client_context
    from hermesops.model.certificate import OURS, CallerName
    from hermesops.observability.telemetry.endpoint import CERTIFICATE_S

    authority, life = platform_authority(app), timedelta(seconds=CERTIFICATE_S)
    return client_context(authority, CallerName(app.env.name, OURS), roots=trusted_authorities(app), life=life)
