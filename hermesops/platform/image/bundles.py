"""Bundles and programs that a platform's host is installed from, and the recipe of the image that holds them."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import hermesops
from hermesops import __version__
from hermesops.base import assets, child_environment
from hermesops.errors import Hint, RefusedError
from hermesops.machines.image.build import Recipe
from hermesops.machines.image.bundles import control as control_bundle
from hermesops.machines.image.bundles import router as router_bundle
from hermesops.machines.image.definition import inputs_of
from hermesops.machines.image.packages.download import Pip
from hermesops.model.plan import Plan
from hermesops.platform.host import OPEN_PORTS
from hermesops.platform.image.programs import PlatformPrograms
from hermesops.platform.local.world import loki_of, versitygw_of, world_of
from hermesops.platform.parts.monitoring import found_loki, refuse_simulated
from hermesops.programs.ingest import build as ingest
from hermesops.programs.model_router import build as router
from hermesops.settings.environment import Environment

if TYPE_CHECKING:
    from hermesops.machines.image.bundles.control import ControlBundle
    from hermesops.machines.image.definition import Definition

ANEW = Hint(("local", "down", "--purge"), ", then", ("local", "up", "--driver", "nspawn"))
"""Begins a local world of real machines."""

ANEW_WITH_PLATFORM = Hint(ANEW, ", then", ("stack", "up", "platform"))


def control_bundle_of(env: Environment, report: Callable[[str], None]) -> "ControlBundle":
    """Build the bundle from which a platform's host installs hermesops; blocks up to a minute while wheels are fetched.

    Raises:
        RefusedError: A wheel does not have the hash it is locked to.
        UnavailableError: The package index does not answer.
    """
    locks = assets.folder("images") / "hermes-platform" / "locks"
    return control_bundle.make(
        locks / "hermesops.txt",
        locks / "uv.txt",
        Path(hermesops.__file__).parent,
        {name: assets.folder(name) for name in get_args(assets.Folder)},
        Pip(env.for_child(child_environment.PACKAGES), env.cache / "packages"),
        env.cache / "platform",
        report,
    )


def router_wheels(env: Environment, report: Callable[[str], None]) -> Path:
    """Gather the wheels that a platform's host installs LiteLLM from; blocks, raises as ``router_bundle.make``."""
    return router_bundle.make(
        assets.folder("roles") / "hermes_platform_llm_router" / "files" / "requirements.txt",
        Pip(env.for_child(child_environment.PACKAGES), env.cache / "packages"),
        env.cache / "platform",
        report,
    )


def ingest_program(env: Environment) -> Path:
    """Where hermes-ingest is written for the roles."""
    return env.cache / "ingest" / "hermes-ingest"


def router_program(env: Environment) -> Path:
    """Where hermes-router is written for the roles."""
    return env.cache / "platform" / "hermes-router.pyz"


async def platform_programs(env: Environment, report: Callable[[str], None]) -> "PlatformPrograms":
    """Return the programs that roles of a local platform install; missing ones are built first, which takes minutes.

    Raises:
        RefusedError: A wheel does not have the hash it is locked to.
        UnavailableError: The package index does not answer, or the object store's program could not be built.
    """
    programs = PlatformPrograms(
        object_store=await versitygw_of(env, report),
        loki=await found_loki(partial(loki_of, env, report), report),
        ingest=ingest_program(env),
        router=router_program(env),
        router_wheels=await asyncio.to_thread(router_wheels, env, report),
        control=await asyncio.to_thread(control_bundle_of, env, report),
    )
    for file, write in ((programs.ingest, ingest.write), (programs.router, router.write)):
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file)
    return programs


async def platform_recipe(
    env: Environment,
    definition: "Definition",
    base_variables: Callable[[], Mapping[str, object]],
    report: Callable[[str], None],
    *,
    is_simulated: bool,
) -> "Recipe":
    """The recipe of the platform's image with the programs of this computer, whose builder has the platform's packages.

    Raises as ``platform_programs``.

    Args:
        base_variables: Gives variables of role ``hermes_base``.

    Raises:
        RefusedError: No machine of this environment boots it.
    """
    settings = env.settings
    if not env.is_local:
        raise RefusedError(f"the platform of environment {env.name} is on AWS, and boots from no image of ours")
    refuse_simulated(is_simulated=is_simulated, again=ANEW)
    await world_of(env).extend_base(report)
    programs = await platform_programs(env, report)
    variables = {**base_variables(), "hermes_base_open_ports": list(OPEN_PORTS)}
    inputs = inputs_of(
        definition,
        roles=assets.folder("roles"),
        playbooks=assets.folder("ansible") / "playbooks",
        variables={**variables, **programs.inputs},
        extra=programs.files,
    )
    return Recipe(
        definition=definition,
        inputs=inputs,
        environment=env.name,
        server_type=settings.server_types[Plan.LIGHT],
        region=settings.region,
        variables={**variables, **programs.variables},
        versions={"hermesops": __version__},
    )
