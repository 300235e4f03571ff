"""The project at Composio of an environment, and the services that it offers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hermesops.access.secrets.catalog import CONNECTIONS_KEY
from hermesops.access.secrets.endpoint import Endpoint
from hermesops.access.secrets.store import Secrets
from hermesops.errors import Hint, UsageError
from hermesops.model.connections.service import BY_SLUG
from hermesops.settings.sections import ConnectionSettings
from hermesops.vendor.composio.client import API, Composio


@dataclass(frozen=True)
class Project:
    """A project at Composio.

    Attributes:
        services: Ids of services' configurations there, by service: those that users are offered.
    """

    composio: Composio
    services: Mapping[str, str]


def project_of(
    settings: ConnectionSettings, secrets: Secrets, endpoint: Callable[[], Endpoint] | None
) -> Project | None:
    """The project whose key is among the secrets, else the local world's; ``None`` where there is neither.

    Args:
        endpoint: Of the local world; ``None`` elsewhere.

    Raises:
        UsageError: The settings name a service that there is not.
        UnavailableError: The local world is not up.
    """
    if secrets.find(CONNECTIONS_KEY) is not None:
        composio = Composio(lambda: secrets.read(CONNECTIONS_KEY).strip(), settings.base_url or API)
        return Project(composio, offered_services(settings))
    world = endpoint() if endpoint else None
    if world is None or not world.composio_url:
        return None
    offered = offered_services(settings) or {slug: f"ac_{slug}" for slug in BY_SLUG}
    return Project(Composio(lambda: world.composio_key, world.composio_url), offered)


def offered_services(settings: ConnectionSettings) -> Mapping[str, str]:
    """Ids of services' configurations at Composio, by service. Pure.

    Raises:
        UsageError: The setting names a service that there is not.
    """
    pairs = [pair.partition("=") for pair in settings.services.split(",") if pair]
    unknown = sorted({slug for slug, _, _ in pairs} - BY_SLUG.keys())
    if unknown:
        raise UsageError(
            f"connections.services: no service {', '.join(unknown)}; there are {', '.join(BY_SLUG)}",
            hint=Hint(("settings", "set", "connections.services", "SERVICE=ID")),
        )
    return {slug: id_ for slug, _, id_ in pairs}
