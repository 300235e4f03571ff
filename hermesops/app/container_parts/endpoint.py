"""Where an environment's vendor is."""

from typing import TYPE_CHECKING

from hermesops.errors import UsageError
from hermesops.settings import Environment

if TYPE_CHECKING:
    from hermesops.secrets.endpoint import Endpoint


def api_url_of(env: Environment) -> str:
    """URL of the vendor's API, for callers that need no key.

    Raises:
        UnavailableError: It is the local world, which is not up.
        UsageError: It is not set.
    """
    from hermesops.secrets.endpoint import local_endpoint

    if env.is_local:
        return local_endpoint(env.world / "world.json").api_url
    if not env.settings.api_url:
        raise _no_url(env)
    return env.settings.api_url


def endpoint_of(env: Environment) -> "Endpoint":
    """Where an environment's vendor and model router are.

    Raises:
        UnavailableError: It is the local world, which is not up.
        UsageError: Something that it takes is not set.
        RefusedError: The API key's file cannot be read, or may be read by others.
    """
    from hermesops.app.container_parts.secrets import secrets_of
    from hermesops.secrets.catalog import API_KEY
    from hermesops.secrets.endpoint import Endpoint, local_endpoint

    settings = env.settings
    if env.is_local:
        return local_endpoint(env.world / "world.json")
    if not settings.api_url:
        raise _no_url(env)
    key, file = settings.api_key.get_secret_value() if settings.api_key else None, settings.api_key_file
    if not key:
        secrets = secrets_of(env)
        key = secrets.find(API_KEY)
        if key is None:
            raise UsageError(
                f"environment {env.name} has neither api_key_file nor api_key, and no secret api.key in "
                f"{secrets.home.title}",
                hint="hermesops secrets set api.key --from FILE",
            )
        file = file or secrets.home.path(API_KEY.name)
    return Endpoint(
        settings.api_url,
        key,
        file,
        settings.router.url,
        settings.router.key_file,
        tuple(address.strip() for address in settings.broker_addresses.split(",") if address.strip()),
        settings.daemon_port,
        settings.platform_url,
    )


def _no_url(env: Environment) -> UsageError:
    return UsageError(f"environment {env.name} has no api_url", hint="hermesops settings show")
