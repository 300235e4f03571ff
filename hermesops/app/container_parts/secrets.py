"""Where an environment's secrets are."""

from typing import TYPE_CHECKING

from hermesops.errors import UsageError
from hermesops.settings import SECRET_PREFIX, Environment, value_of

if TYPE_CHECKING:
    from hermesops.secrets.endpoint import Endpoint
    from hermesops.secrets.store import Secrets


def secrets_of(env: Environment) -> "Secrets":
    """An environment's secrets; nothing is read yet.

    Raises:
        RefusedError: The setting ``secrets.home`` names no home.
    """
    from hermesops.secrets.backends.folder import EnvironmentBackend
    from hermesops.secrets.catalog import CATALOG
    from hermesops.secrets.store import Secrets, home_of

    settings = env.settings
    given = {one.name: value_of(settings, one.setting) for one in CATALOG}
    variables = {name: text.get_secret_value() for name, text in env.secrets.items()}
    home = home_of(
        settings.secrets.home,
        keys=env.keys,
        identity=settings.secrets.identity,
        variables=EnvironmentBackend(variables, prefix=SECRET_PREFIX),
    )
    return Secrets({name: file for name, file in given.items() if file}, home)


def router_key_of(env: Environment, endpoint: "Endpoint", secrets: "Secrets") -> bytes:
    """The key that signs tokens for the model router.

    Raises:
        UsageError: There is none.
        RefusedError: It is too short, or others may read it.
    """
    from hermesops.secrets.catalog import ROUTER_KEY
    from hermesops.secrets.instance_keys import parse_router_key, read_router_key

    if endpoint.router_key_file is not None:
        return read_router_key(endpoint.router_key_file)
    text = secrets.find(ROUTER_KEY)
    if text is None:
        raise UsageError(
            f"environment {env.name} has no router.key_file, and no secret router.key in {secrets.home.title}",
            hint="hermesops secrets set router.key --from FILE",
        )
    return parse_router_key(text, secrets.home.title)
