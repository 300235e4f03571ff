"""The parts of an environment's platform: its stack, and on the local world's machine its roles."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hermesops.errors import Hint, UnavailableError
from hermesops.localcloud.drivers.interface import PlatformService
from hermesops.model.plan import Plan

UP = Hint(("stack", "up", "platform"))

if TYPE_CHECKING:
    import ssl

    from hermesops.app.container_parts.runtime import Runtime
    from hermesops.app.container_parts.unconnected import Unconnected
    from hermesops.app.services.local_monitoring import MonitoringPart
    from hermesops.app.services.platform import LocalPlatforms, PlatformStack
    from hermesops.app.services.platform_connect import FolderCopy, PlatformConnection
    from hermesops.app.services.platform_control import ControlPart
    from hermesops.app.services.platform_host import Part
    from hermesops.image.control_bundle import ControlBundle
    from hermesops.model.ids import MachineId
    from hermesops.operations.lease import LeaseKeeper
    from hermesops.pki.authority import Authority

T = TypeVar("T")

HAS_ROUTER = False
"""Whether a local platform has a model router."""

_CELLS_STATE = tuple(f".pulumi/{kind}/fleet" for kind in ("stacks", "history", "backups"))
_EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - of a machine that lets only the world's server in


def platform_stack(runtime: "Runtime") -> "PlatformStack":
    """The stack of the platform."""
    from hermesops.app.services.platform import PlatformStack

    app = runtime.app

    async def make(state: Mapping[str, Any]) -> Callable[[], Any]:
        return await _local_program(runtime, state)

    return PlatformStack(app.env.name, lambda: app.platform_engine, make, partial(_lease_or_none, app), app.report)


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
    from hermesops.app.services.platform_connect import PlatformFiles

    try:
        return "".join(app.registry.certificates.list_authorities())
    except UnavailableError:
        known = PlatformFiles(app.env).authorities
        if not known.exists():
            raise
        return known.read_text()


def platform_authority(app: "Unconnected") -> "Authority":
    """The environment's authority, also where its registry does not answer; raises as ``trusted_authorities``."""
    from hermesops.pki.authority import Authority
    from hermesops.secrets.catalog import AUTHORITY_KEY

    try:
        return app.authority.load()
    except UnavailableError:
        source = app.secrets.where(AUTHORITY_KEY)
        return Authority.of_trusted(app.secrets.read(AUTHORITY_KEY), trusted_authorities(app), source=source)


def platform_context(app: "Unconnected") -> "ssl.SSLContext":
    """TLS of this process with the platform's monitoring; raises as ``trusted_authorities``."""
    from hermesops.model.certificate import OURS, CallerName
    from hermesops.monitoring.endpoint import CERTIFICATE_S
    from hermesops.pki.client import client_context

    authority, life = platform_authority(app), timedelta(seconds=CERTIFICATE_S)
    return client_context(authority, CallerName(app.env.name, OURS), roots=trusted_authorities(app), life=life)


def local_platforms(runtime: "Runtime") -> "LocalPlatforms":
    """Brings the platform of the local world up; raises as ``Runtime.local_platforms``."""
    from hermesops.app.services.local_monitoring import refuse_simulated
    from hermesops.app.services.platform import LocalPlatforms
    from hermesops.errors import Hint
    from hermesops.localcloud.world.files import WorldFiles

    app = runtime.app
    again = Hint(
        ("local", "down", "--purge"),
        ", then",
        ("local", "up", "--driver", "nspawn"),
        ", then",
        ("stack", "up", "platform"),
    )
    refuse_simulated(is_simulated=app.adapters.is_simulated, again=again)
    return LocalPlatforms(
        environment=app.env.name,
        stack=runtime.platform_stack,
        world=WorldFiles(app.env.world),
        services=_services(runtime)[0],
        client=runtime.client,
        host=runtime.platform_host,
        parts=partial(_parts, runtime),
        report=app.report,
    )


async def _local_program(runtime: "Runtime", state: Mapping[str, Any]) -> Callable[[], Any]:
    from hermesops.app.services.platform import LocalPrograms

    settings = runtime.app.env.settings
    programs = LocalPrograms(
        environment=runtime.app.env.name,
        services=_services(runtime)[0],
        client=runtime.client,
        region=settings.region,
        server_type=settings.server_types[Plan.HEAVY],
        newest_image=str,
    )
    return await programs.make(state)


def _services(runtime: "Runtime") -> "tuple[dict[PlatformService, str], str]":
    from hermesops.app.services.platform import local_services
    from hermesops.localcloud.world.files import WorldFiles, read_object

    return local_services(read_object(WorldFiles(runtime.app.env.world).world))


async def _parts(runtime: "Runtime") -> "Sequence[Part]":
    from hermesops.app.container_parts.local_world import loki_of, versitygw_of
    from hermesops.app.services.local_monitoring import found_loki
    from hermesops.app.services.platform import DATABASE_BUCKET
    from hermesops.app.services.platform_control import DATABASE_CLIENTS
    from hermesops.app.services.platform_host import PlainPart, TlsPart

    app = runtime.app
    loki = await found_loki(partial(loki_of, app.env, app.report), app.report)
    program = await versitygw_of(app.env, app.report)
    services, _ = _services(runtime)
    url = f"https://{services[PlatformService.MONITORING]}"
    return [
        TlsPart(partial(trusted_authorities, app)),
        PlainPart("hermes_platform_object_store", {"program": program, "iam_address": _EVERY_ADDRESS}),
        PlainPart(
            "hermes_platform_postgresql",
            {"environment": app.env.name, "bucket": DATABASE_BUCKET, "clients": DATABASE_CLIENTS},
        ),
        PlainPart("hermes_platform_redis", {}),
        monitoring_part(runtime, url, loki),
        _control_part(runtime),
    ]


def _control_part(runtime: "Runtime") -> "ControlPart":
    """Role ``hermes_platform_control``."""
    from urllib.parse import urlsplit

    from hermesops.app.services.platform import local_outputs
    from hermesops.app.services.platform_connect import is_connected
    from hermesops.app.services.platform_control import ControlPart, host_settings, url_on_host

    app = runtime.app
    services, vendor_api = _services(runtime)
    port = urlsplit(app.endpoint.api_url).port or 0
    outputs = local_outputs(services)
    return ControlPart(
        environment=app.env.name,
        bundle=partial(_bundle, runtime),
        registry_url=url_on_host(outputs.database_name),
        settings=host_settings(app.env, app.endpoint, outputs, api_url=f"http://127.0.0.1:{port}/api/v1"),
        keys=partial(_keys, runtime),
        vendor_api=vendor_api,
        vendor_api_port=port,
        is_connected=is_connected(app.env),
    )


def _bundle(runtime: "Runtime") -> "ControlBundle":
    from typing import get_args

    import hermesops
    from hermesops import assets, child_environment
    from hermesops.image import control_bundle
    from hermesops.image.download import Pip

    env = runtime.app.env
    return control_bundle.make(
        assets.folder("images") / "hermes-platform" / "locks" / "hermesops.txt",
        Path(hermesops.__file__).parent,
        {name: assets.folder(name) for name in get_args(assets.Folder)},
        Pip(env.for_child(child_environment.PACKAGES), env.cache / "packages"),
        env.cache / "platform",
        runtime.app.report,
    )


def _keys(runtime: "Runtime") -> dict[str, str]:
    """What the platform's processes open with; those that are not there are left out."""
    from hermesops.app.services.platform_control import HANDED_OVER
    from hermesops.secrets.catalog import API_KEY, PULUMI_PASSPHRASE, ROUTER_KEY

    app = runtime.app
    given = {
        API_KEY.name: app.endpoint.api_key,
        ROUTER_KEY.name: app.router_key.decode(),
        PULUMI_PASSPHRASE.name: app.pulumi_passphrase(),
    }
    return {one.name: text for one in HANDED_OVER if (text := given.get(one.name) or app.secrets.find(one))}


def monitoring_part(runtime: "Runtime", url: str, loki: Path | None) -> "MonitoringPart":
    """Role ``hermes_platform_monitoring``."""
    from hermesops.app.services.local_monitoring import MonitoringPart

    app = runtime.app
    return MonitoringPart(
        environment=app.env.name,
        url=url,
        identity_url=app.endpoint.platform_url,
        loki=loki,
        program=app.env.cache / "ingest" / "hermes-ingest",
        time_scale=app.env.settings.monitoring.time_scale,
    )


async def platform_connection(runtime: "Runtime") -> "PlatformConnection":
    """Points this environment at its platform.

    Raises:
        RefusedError: It has none.
    """
    from hermesops.app.services.platform_connect import PlatformConnection, settings_of

    app = runtime.app
    outputs = await runtime.platform_stack.outputs()
    services, _ = _services(runtime)
    source_url = f"sqlite:///{app.env.folder / 'registry.db'}"
    wanted = settings_of(
        app.env,
        outputs,
        iam_endpoint=f"https://{services[PlatformService.OBJECT_STORE_IAM]}",
        has_router=HAS_ROUTER,
        moves_backups=_moves_backups(runtime),
    )
    return PlatformConnection(
        env=app.env,
        wanted=wanted,
        channel=runtime.platform_host.channel_to(await platform_machine(runtime)),
        load_authority=partial(platform_authority, app),
        authorities=partial(trusted_authorities, app),
        source_url=source_url,
        open_target=app.registry_place.open_at,
        copies=partial(_folder_copies, runtime, wanted),
        report=app.report,
    )


def _moves_backups(runtime: "Runtime") -> bool:
    """Whether backups go to the platform's store: not where there are some elsewhere, which machines go on with."""
    app = runtime.app
    return bool(app.env.settings.backup.bucket) or not app.registry.backups.list()


def _folder_copies(runtime: "Runtime", wanted: Mapping[str, str]) -> "list[FolderCopy]":
    from hermesops.app.services.platform_connect import FolderCopy, PlatformFiles
    from hermesops.engine.embedded.state.bucket import BucketAccess
    from hermesops.engine.embedded.state.storage import open_storage

    env = runtime.app.env
    files = PlatformFiles(env)
    access = BucketAccess(files.store_keys, files.authorities)
    releases = open_storage(wanted["releases"], setting="releases", access=access)
    state = open_storage(wanted["pulumi.backend"], access=access)
    return [
        FolderCopy("releases", env.folder / "releases", releases),
        *(FolderCopy("Pulumi's state", env.folder / "pulumi", state, below) for below in _CELLS_STATE),
    ]


async def platform_machine(runtime: "Runtime") -> "MachineId":
    """The id of the platform's machine.

    Raises:
        RefusedError: There is none.
    """
    from hermesops.errors import RefusedError
    from hermesops.model.ids import MachineId, platform_machine_name

    name = platform_machine_name(runtime.app.env.name)
    for one in await runtime.client.list_machines():
        if one.name == name:
            return MachineId(one.id)
    raise RefusedError(f"there is no machine {name}", hint=UP)
