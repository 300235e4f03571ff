"""Configuration of an environment's engine: backend, passphrase, lease tokens, and the variables of plugins."""

from collections.abc import Callable
from functools import partial

from hermesops.base import child_environment
from hermesops.errors import UnavailableError
from hermesops.infra.engine.embedded.state.bucket import BucketAccess
from hermesops.infra.engine.embedded.state.storage import open_storage
from hermesops.infra.engine.options import EngineConfig, Token, read_passphrase
from hermesops.model.fleet.cell import PLATFORM
from hermesops.model.stack import StackRef
from hermesops.settings.environment import Environment
from hermesops.store.registry import Registry

_VENDOR_KEYS = frozenset({"HERMESOPS_API_KEY", "HERMESOPS_SECRET_API_KEY"})
"""The only secrets that plugins get: they order machines."""


def bucket_access_of(env: Environment) -> BucketAccess:
    """Access to the buckets of releases and of Pulumi's state."""
    return BucketAccess(env.settings.platform.key_file, env.settings.platform.ca_file)


def backend_of(env: Environment) -> str:
    """Folder or URL of Pulumi's state."""
    return env.settings.pulumi.backend or str(env.folder / "pulumi")


def platform_backend_of(env: Environment) -> str:
    """Folder or URL of the state of the platform's stack.

    In a local world it is always a folder on this computer: the platform itself serves the other backend.
    """
    return str(env.folder / "pulumi") if env.is_local else backend_of(env)


def passphrase_of(env: Environment, stored: Callable[[], str]) -> str:
    """The passphrase that encrypts secrets in Pulumi's state: of a file if the settings name one.

    Args:
        stored: Reads it from the environment's secrets, where it is made on first use.

    Raises:
        RefusedError: The file is missing, empty, or readable by others.
    """
    file = env.settings.pulumi.passphrase_file
    return read_passphrase(file) if file else stored()


def engine_config(
    env: Environment, backend: str, passphrase: Callable[[], str], registry: Callable[[], Registry]
) -> EngineConfig:
    """Configuration of the engine over one backend.

    Args:
        registry: Opens the registry, for the tokens of leases.
    """
    access = bucket_access_of(env)
    return EngineConfig(
        backend=open_storage(backend, access=access),
        passphrase=passphrase,
        environment=_plugin_environment(env, access),
        token_of=partial(token_of, registry),
    )


def _plugin_environment(env: Environment, access: BucketAccess) -> dict[str, str]:
    is_bucket = backend_of(env).startswith("s3://") or env.settings.secrets.home.startswith("aws:")
    names = (child_environment.PULUMI, *((child_environment.BUCKET,) if is_bucket else ()))
    return {**env.for_hermesops(*names, secrets=set(_VENDOR_KEYS)), **access.environment()}


def token_of(registry: Callable[[], Registry], stack: StackRef) -> Token | None:
    """The token of the lease under which a stack is changed; ``None`` without a lease.

    Raises:
        UnavailableError: The registry does not answer. Not for the platform's stack, which may have to bring it up.
    """
    subject = f"stack/{stack.project}/{stack.stack}"
    try:
        leases = registry().leases.list()
    except UnavailableError:
        if stack.project != PLATFORM:
            raise
        return None
    leases_of_subject = (lease for lease in leases if lease.subject == subject)
    return next(((lease.epoch, lease.counter) for lease in leases_of_subject), None)
