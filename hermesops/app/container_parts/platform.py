"""The parts of an environment's platform: its stack, and on the local world's machine its roles."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermesops.model.plan import Plan

if TYPE_CHECKING:
    from hermesops.app.container_parts.runtime import Runtime
    from hermesops.app.services.local_monitoring import MonitoringPart
    from hermesops.app.services.platform import LocalPlatforms, PlatformStack
    from hermesops.app.services.platform_control import ControlPart
    from hermesops.app.services.platform_host import Part
    from hermesops.image.control_bundle import ControlBundle
    from hermesops.localcloud.drivers.interface import PlatformService


def platform_stack(runtime: "Runtime") -> "PlatformStack":
    """The stack of the platform."""
    from hermesops.app.services.platform import PlatformStack

    app = runtime.app

    async def make(state: Mapping[str, Any]) -> Callable[[], Any]:
        return await _local_program(runtime, state)

    return PlatformStack(app.env.name, lambda: app.platform_engine, make, app.hold_lease, app.report)


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
    from hermesops.app.container_parts.local_world import loki_of
    from hermesops.app.services.local_monitoring import found_loki
    from hermesops.app.services.platform_host import TlsPart
    from hermesops.localcloud.drivers.interface import PlatformService

    app = runtime.app
    loki = await found_loki(partial(loki_of, app.env, app.report), app.report)
    services, _ = _services(runtime)
    url = f"https://{services[PlatformService.MONITORING]}"
    return [
        TlsPart(lambda: runtime.platform_host.authorities),
        monitoring_part(runtime, url, loki),
        _control_part(runtime),
    ]


def _control_part(runtime: "Runtime") -> "ControlPart":
    """Role ``hermes_platform_control``."""
    from urllib.parse import urlsplit

    from hermesops.app.services.platform import local_outputs
    from hermesops.app.services.platform_control import ControlPart, host_settings

    app = runtime.app
    services, vendor_api = _services(runtime)
    port = urlsplit(app.endpoint.api_url).port or 0
    outputs = local_outputs(services)
    return ControlPart(
        environment=app.env.name,
        bundle=partial(_bundle, runtime),
        registry_url="",
        settings=host_settings(app.env, app.endpoint, outputs, api_url=f"http://127.0.0.1:{port}/api/v1"),
        keys=partial(_keys, runtime),
        vendor_api=vendor_api,
        vendor_api_port=port,
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
