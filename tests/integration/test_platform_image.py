"""The platform's image, built through a real local world; then a machine booted from it."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hermesops.base import assets
from hermesops.machines.converge import Host
from hermesops.machines.image.build import Built, Recipe
from hermesops.machines.image.definition import inputs_of, load
from hermesops.model.ids import ImageId, MachineId
from hermesops.model.image import PLATFORM_IMAGE
from hermesops.platform.host import OPEN_PORTS
from hermesops.platform.image.bundles import control_bundle_of, router_wheels
from hermesops.platform.image.programs import PlatformPrograms
from hermesops.programs.ingest import build as ingest
from hermesops.programs.model_router import build as router
from hermesops.settings.environment import Environment
from hermesops.vendor.channel import Channel
from tests.support.images.builds import CANARY, Workshop
from tests.support.real.go_programs import VERSITYGW
from tests.support.real.machines.bases import tested_base
from tests.support.suite.kept import shared_cache

pytestmark = [pytest.mark.machines, pytest.mark.turns(120)]

PROVED, BROKEN = 42, 43


@dataclass(frozen=True)
class MadeForPlatform:
    """A build that ended."""

    workshop: Workshop
    recipe: Recipe
    built: Built


@pytest.fixture(scope="module")
async def built_platform(workshop: Workshop) -> MadeForPlatform:
    if tested_base().name != "base-debian12":
        pytest.skip("the platform's roles are written for Debian 12")
    await workshop.world.driver.extend_base()
    programs = await asyncio.to_thread(_programs, workshop.world.folder)
    definition = load(assets.folder("images") / PLATFORM_IMAGE)
    role_variables = {**workshop.world.base_variables, "hermes_base_open_ports": list(OPEN_PORTS)}
    inputs = inputs_of(
        definition,
        roles=assets.folder("roles"),
        playbooks=assets.folder("ansible") / "playbooks",
        variables={**role_variables, **programs.inputs},
        extra=programs.files,
    )
    recipe = Recipe(definition, inputs, "local", "starter", "hel1", {**role_variables, **programs.variables})
    return MadeForPlatform(workshop, recipe, await workshop.builder.build(recipe))


def _programs(folder: Path) -> PlatformPrograms:
    """All but Loki, which takes a quarter of an hour to build where nobody has."""
    # pip's own settings, as a user has them
    environ = {key: value for key, value in os.environ.items() if not key.startswith("HERMESOPS_")}  # noqa: TID251
    env = Environment.load("local", {**environ, "HERMESOPS_HOME": str(folder), "HERMESOPS_CACHE": str(shared_cache())})
    platform_programs = PlatformPrograms(
        object_store=VERSITYGW.built(),
        loki=None,
        ingest=folder / "hermes-ingest",
        router=folder / "hermes-router.pyz",
        router_wheels=router_wheels(env, print),
        control=control_bundle_of(env, print),
    )
    ingest.write(platform_programs.ingest)
    router.write(platform_programs.router)
    return platform_programs


@pytest.fixture(scope="module")
async def machine_id(built_platform: MadeForPlatform) -> AsyncIterator[MachineId]:
    async with built_platform.workshop.world.machine(
        image_id=ImageId(built_platform.built.manifest.image_id)
    ) as machine_id:
        yield machine_id


@pytest.fixture
def machine(built_platform: MadeForPlatform, machine_id: MachineId) -> Channel:
    return built_platform.workshop.world.channel(machine_id)


async def prove(built_platform: MadeForPlatform, machine: Channel) -> tuple[int, list[str]]:
    """How prove.sh ends, and the promises that it calls broken."""
    script = b"".join([await asyncio.to_thread(file.read_bytes) for file in built_platform.recipe.definition.prove])
    done = await machine.run("exec sh -s", stdin=script, timeout_s=300)
    broken = [line.removeprefix("broken ") for line in done.text.splitlines() if line.startswith("broken ")]
    return done.exit_code, broken


async def test_a_build_ends_with_an_image_of_no_agent_and_no_machine(built_platform: MadeForPlatform) -> None:
    manifest = built_platform.built.manifest
    assert built_platform.built.made
    assert [machine.name for machine in await built_platform.workshop.world.client.list_machines()] == []
    assert manifest.image_id in [image.id for image in await built_platform.workshop.world.client.list_images()]
    assert set(manifest.packages) == {"debian"}
    assert {"postgresql-15", "redis-server", "prometheus", "nginx", "nftables"} <= set(manifest.packages["debian"])
    assert set(manifest.seconds) == {"machine", "roles", "prepare", "clean", "save", "boot", "prove"}
    assert manifest.inputs["versitygw"]
    assert not (await built_platform.workshop.builder.build(built_platform.recipe)).made, (
        "an unchanged build does nothing"
    )


async def test_what_was_on_the_builder_is_not_in_the_image(machine: Channel) -> None:
    """Searched from the root of a machine booted from it, the command's own text excepted."""
    first, second = CANARY.split("-")
    search = f'grep -rlIa --exclude-dir=proc --exclude-dir=sys --exclude-dir=run "{first}[-]{second}" / 2>/dev/null'
    assert (await machine.run(search, timeout_s=120)).text == ""


async def test_there_is_nothing_left_to_install_on_a_machine_from_the_image(
    built_platform: MadeForPlatform, machine_id: MachineId
) -> None:
    host = Host("m", machine_id)
    done = await built_platform.workshop.world.converger.run(
        "platform_image", [host], variables=built_platform.recipe.variables
    )
    assert (done.hosts["m"].status, done.hosts["m"].changed) == ("done", ()), done.hosts["m"].failure


async def test_a_machine_keeps_the_promises_until_something_is_set_up_on_it(
    built_platform: MadeForPlatform, machine: Channel
) -> None:
    assert await prove(built_platform, machine) == (PROVED, [])
    spoil = """
install -d /etc/hermes-platform/secrets /var/lib/postgresql/15/main
echo '-----BEGIN PRIVATE KEY-----' >/var/lib/server.key
rm /etc/systemd/system/redis-server.service /usr/local/lib/hermes-platform/versitygw
touch /etc/systemd/system/hermes-platform-redis.service
systemctl daemon-reload
"""
    assert (await machine.run(spoil)).exit_code == 0
    status, broken = await prove(built_platform, machine)
    assert status == BROKEN
    assert broken == [
        "no private keys",
        "no secrets, certificates or settings of a platform",
        "no database of the distribution's",
        "an object store",
        "nothing of the platform's is set up",
        "units of the distribution's are masked",
    ]
