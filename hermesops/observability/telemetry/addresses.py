"""Addresses of an environment's monitoring, for operators and for machines."""

from hermesops.errors import Hint, UnavailableError
from hermesops.localcloud.world.files import WorldFiles, read_object
from hermesops.settings.environment import Environment


def monitoring_url_of(env: Environment) -> str:
    """The monitoring of an environment's platform, as this computer reaches it; empty when it has none.

    Raises:
        UnavailableError: It is the local world's, which is not up.
        BrokenInvariantError: The local world's file is damaged.
    """
    return env.settings.monitoring.url or _of_local_world(env)


def ingest_url_of(env: Environment) -> str:
    """URL at which machines send metrics and logs; empty when the environment has no monitoring.

    Raises:
        As ``monitoring_url_of``.
    """
    return env.settings.monitoring.ingest_url or monitoring_url_of(env)


def _of_local_world(env: Environment) -> str:
    files = WorldFiles(env.world)
    return url_in_local_world(files) if env.is_local and files.monitoring.exists() else ""


def url_in_local_world(files: "WorldFiles") -> str:
    """Where a local world's monitoring is found, once it has one.

    Raises:
        UnavailableError: The world is not up.
        BrokenInvariantError: The world's file is damaged.
    """
    facts = read_object(files.world)
    if facts is None:
        raise UnavailableError("the local world is not up, and its monitoring with it", hint=Hint(("local", "up")))
    return str(facts.get("monitoring_url", ""))
