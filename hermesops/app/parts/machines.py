"""Machines: images, releases, roles and verification."""

from functools import partial
from typing import TYPE_CHECKING

from hermesops.base import child_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermesops.agents.instances.releases.transfer import ReleaseTransfer
    from hermesops.app.adapters import WorldAdapters
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.base.narration import Reporter
    from hermesops.infra.engine.embedded.state.bucket import BucketAccess
    from hermesops.machines.converge import Converger
    from hermesops.machines.image.build import Builder as ImageBuilder
    from hermesops.machines.image.definition import AgentPins
    from hermesops.machines.image.directory import ImageBuilds, Images
    from hermesops.machines.image.recipes import ImageRecipes
    from hermesops.machines.release import Releases
    from hermesops.machines.release.builder.build import Builder as ReleaseBuilder
    from hermesops.machines.release.builder.prefetch import Prefetch
    from hermesops.machines.release.builder.sqlite import SqliteBuilder
    from hermesops.machines.release.service import ReleaseChanges
    from hermesops.machines.release.signing import ReleaseKey
    from hermesops.machines.verify.verification import Verification
    from hermesops.model.fleet.instance import Instance
    from hermesops.model.ids import MachineId
    from hermesops.model.operation import Lease
    from hermesops.model.rollout.release import ReleaseId
    from hermesops.settings.environment import Environment


def adapters(container: "Container") -> "WorldAdapters":
    """Adapters for real or simulated machines."""
    from hermesops.app.adapters import adapters_of

    return adapters_of(container.env)


def bucket_access(container: "Container") -> "BucketAccess":
    """Access to the buckets of releases and of Pulumi's state."""
    from hermesops.infra.engine.configuration import bucket_access_of

    return bucket_access_of(container.env)


def base_variables(container: "Container") -> "Mapping[str, object]":
    """Variables of role ``hermes_base``: addresses of the broker and the daemon's port."""
    return {
        "hermes_base_broker_addresses": list(container.endpoint.broker_addresses),
        "hermes_base_daemon_port": container.endpoint.daemon_port,
    }


def converger(container: "Container") -> "Converger":
    """Applies Ansible roles to machines and reports each machine's result."""
    from hermesops.base import assets
    from hermesops.machines.converge import Access, Converger

    return Converger(assets.folder("ansible"), Access(container.endpoint.api_url, container.api_key_file))


def releases(container: "Container") -> "Releases":
    """The releases in this environment's store: lists, verifies, signs and revokes them."""
    from hermesops.infra.engine.embedded.state.storage import open_storage
    from hermesops.machines.release import Releases
    from hermesops.machines.release.signing import trust_of

    place = container.env.settings.releases or container.env.folder / "releases"
    store = open_storage(place, setting="releases", access=bucket_access(container))
    return Releases(store, trust_of(container.env, store), container.release_key)


def release_key(container: "Container") -> "ReleaseKey":
    """Signs releases with the key that settings name, or with a secret of hermesops."""
    from hermesops.machines.release.signing import ReleaseKey

    return ReleaseKey(container.env, container.secrets)


def release_changes(container: "Container") -> "ReleaseChanges":
    """Builds, rebuilds and revokes releases, and changes their signers."""
    from hermesops.machines.release.service import ReleaseChanges

    builder = partial(_release_builder, container)
    return ReleaseChanges(container.releases, container.release_key, builder, container.registry, container.hold_lease)


def _release_builder(container: "Container", pins: "AgentPins | None" = None) -> "ReleaseBuilder":
    from hermesops.machines.image.packages.download import NEWEST_GLIBC, Pip
    from hermesops.machines.release.builder.resolver import Resolver
    from hermesops.machines.release.service import parts_of

    env = container.env
    packages = env.for_child(child_environment.PACKAGES)
    downloads = Pip(packages, env.cache / "packages")
    pins = pins or container.agent_pins
    return container.adapters.release_builder(
        container.releases,
        Resolver(packages, glibc=NEWEST_GLIBC),
        downloads,
        parts_of(pins, downloads, _sqlite_builder(env, pins)),
        env.cache / "releases",
        container.report,
    )


def prefetch(container: "Container") -> "Prefetch":
    """Fetches ahead what the first release of this environment's image is built of."""
    from hermesops.machines.image.packages.download import Pip
    from hermesops.machines.release.builder.prefetch import Prefetch

    env, pins = container.env, container.agent_pins
    python, lock = next(iter(pins.locks.items()))
    downloads = Pip(env.for_child(child_environment.PACKAGES), env.cache / "packages")
    return Prefetch(_sqlite_builder(env, pins), downloads, python, lock, env.cache / "releases", container.report)


def _sqlite_builder(env: "Environment", pins: "AgentPins") -> "SqliteBuilder":
    """Builds the SQLite of releases: from a mirror, else from npm's registry in a local world, else from upstream."""
    from hermesops.machines.release.builder.sqlite import Fetch, SqliteBuilder, download
    from hermesops.machines.release.sqlite import Source, sources_in
    from hermesops.platform.local.world import sqlite_source

    last: Source = Source(pins.sqlite_url, pins.sqlite_sha256)
    fetch: Fetch = download
    if env.is_local:
        last, fetch = sqlite_source(env)
    return SqliteBuilder((*sources_in(env.settings.release.sqlite), last), env.cache / "sqlite", fetch)


def agent_pins(container: "Container") -> "AgentPins":
    """The agent in the image of this environment.

    Raises:
        UsageError: Setting ``image`` names one that is not there, or one without an agent.
    """
    from hermesops.machines.image import definition

    return definition.agent_pins(container.env.settings.image)


def images(container: "Container") -> "Images":
    """Finds images in the registry, without asking the vendor."""
    from hermesops.machines.image.directory import Images

    return Images(container.registry)


def image_recipes(container: "Container") -> "ImageRecipes":
    """Makes recipes of images: of any image, and of those for agents' machines."""
    from hermesops.machines.image.recipes import ImageRecipes
    from hermesops.platform.image.bundles import platform_recipe
    from hermesops.platform.local.world import loki_program

    is_simulated = container.adapters.is_simulated
    of_platform = partial(
        platform_recipe,
        container.env,
        base_variables=lambda: container.base_variables,
        report=container.report,
        is_simulated=is_simulated,
    )
    return ImageRecipes(container.env, lambda: container.base_variables, loki_program(container.env), of_platform)


def image_builder(connected: "Connected") -> "ImageBuilder":
    """Builds images from recipes, by the adapter for this environment's machines."""
    container = connected.container
    return container.adapters.image_builder(
        vendor=connected.client,
        channel_to=connected.instance_client.channel,
        converge=partial(container.converger.apply, report=container.report),
        refuse_unsigned=container.release_key.find,
        release=container.release_changes.build_for,
        install=partial(_install_release, connected),
        verify=partial(connected.verify_without_user, report=container.report),
        manifests=container.env.folder / "manifests",
        report=container.report,
    )


async def _install_release(connected: "Connected", machine_id: "MachineId", release: "ReleaseId", python: str) -> None:
    from hermesops.agents.instances.remote.releases import ReleaseClient
    from hermesops.machines.release.releases import HandedOut

    bundle = HandedOut(release, connected.container.releases)
    await ReleaseClient(connected.instance_client.channel).install(machine_id, bundle, python=python)


def image_builds(connected: "Connected") -> "ImageBuilds":
    """Builds an image unless one of the same inputs exists, and records it in the registry."""
    from hermesops.machines.image.directory import ImageBuilds

    container = connected.container
    recipe, find = container.image_recipes.to_build, container.releases.find_usable
    return ImageBuilds(container.registry, connected.image_builder, recipe, container.hold_lease, find)


def release_transfer(connected: "Connected", lease: "Lease") -> "ReleaseTransfer":
    """Installs an instance's releases on another machine, under the lease of an operation."""
    from hermesops.agents.instances.releases.transfer import ReleaseTransfer
    from hermesops.agents.instances.remote.releases import ReleaseClient

    container, client = connected.container, ReleaseClient(connected.instance_client.channel, lease)
    return ReleaseTransfer(container.registry, container.releases, client)


async def verify(connected: "Connected", instance: "Instance") -> "Verification":
    """Run all checks on an instance's machine."""
    from hermesops.machines.verify.verification import verify_instance

    key = connected.container.registry.instance_secrets.api_server_key(instance.id)
    return await verify_instance(await connected.instance_client.channel_to(instance), instance, api_server_key=key)


async def verify_without_user(
    connected: "Connected", machine_id: "MachineId", *, report: "Reporter"
) -> tuple[str, ...]:
    """Run the checks of a machine without an instance; the failed ones, a line each."""
    from hermesops.machines.verify.verification import verify_without_user

    return await verify_without_user(connected.instance_client.channel(machine_id), report)
