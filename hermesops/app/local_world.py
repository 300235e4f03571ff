"""The local world of an environment, and the object store in it."""

from typing import TYPE_CHECKING

from hermesops.app.narration import Tell
from hermesops.errors import RefusedError
from hermesops.settings import Environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermesops.localcloud.world import World

_VERSITYGW = "github.com/versity/versitygw/cmd/versitygw"


def world_of(env: Environment, driver: str = "") -> "World":
    """The world that stands for the vendor.

    Args:
        env: The environment.
        driver: What shall run its machines; empty for what the settings say.

    Raises:
        RefusedError: The environment's machines are rented.
    """
    from hermesops.assets import folder
    from hermesops.localcloud.nspawn.base import find_definition
    from hermesops.localcloud.world import World

    if not env.is_local:
        raise RefusedError(f"environment {env.name} is not this computer's", hint="--env local")
    definition = find_definition(folder("images"), env.settings.local_base)
    driver = driver or env.settings.local_driver
    return World(env.world, base_definition=definition, bases=env.cache / "bases", driver=driver)


async def object_store_of(env: Environment, tell: Tell) -> "Mapping[str, str]":
    """Where the world's object store is; it is built and started on first need.

    Raises:
        UnavailableError: The world is down, or the program could not be built.
    """
    from hermesops.assets import folder
    from hermesops.localcloud.go_tools import GoTools

    tools = GoTools(folder("images") / "tools", env.cache, env.inherited, tell)
    return await world_of(env).object_store(await tools.build(_VERSITYGW))
