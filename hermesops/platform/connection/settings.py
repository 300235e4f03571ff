"""Settings and files with which an environment of this computer uses its platform."""

from collections.abc import Mapping
from dataclasses import dataclass

from hermesops.base.files.private_file import replace_secret
from hermesops.errors import RefusedError
from hermesops.infra.stacks.platform.outputs import PlatformOutputs
from hermesops.platform.parts.control import DATABASE_USER, STORE_KEYS
from hermesops.settings.edited_text import edited
from hermesops.settings.environment import Environment
from hermesops.settings.fields import value_of, variable_of
from hermesops.store.registry import Registry

_BEFORE = "settings.toml.before-platform"


@dataclass(frozen=True)
class SettingChange:
    """A setting that connecting changes.

    Attributes:
        before: Empty for the default.
    """

    name: str
    before: str
    after: str


class PlatformFiles:
    """Files of an environment with which it reaches its platform.

    Attributes:
        authorities: Who may have signed the platform's certificates.
        certificate: Of this computer for the registry, with its key.
        store_keys: To buckets of releases and of Pulumi's state, a profile each.
        before: The settings before they were changed.
    """

    def __init__(self, env: Environment) -> None:
        self.folder = env.folder / "platform"
        self.authorities = self.folder / "authorities.crt"
        self.certificate = self.folder / "registry-client.crt"
        self.key = self.folder / "registry-client.key"
        self.store_keys = self.folder / STORE_KEYS
        self.backup_key = self.folder / "backup.key"
        self.settings = env.folder / "settings.toml"
        self.before = env.folder / _BEFORE


def is_connected(env: Environment) -> bool:
    """Whether an environment's registry is its platform's."""
    files, url = PlatformFiles(env), env.settings.registry.url
    return files.before.exists() and url is not None and url.get_secret_value().startswith("postgresql")


def settings_of(
    env: Environment, outputs: PlatformOutputs[str], *, iam_endpoint: str, moves_backups: bool
) -> dict[str, str]:
    """The settings with which this computer uses its platform, by name.

    Args:
        iam_endpoint: Of the object store, as this computer reaches it.
        moves_backups: Whether backups go to the platform's store from now on.
    """
    files = PlatformFiles(env)
    tls = f"sslmode=verify-full&sslrootcert={files.authorities}&sslcert={files.certificate}&sslkey={files.key}"
    where = f"{outputs.database_host}:{outputs.database_port}/{outputs.database_name}"
    settings = {
        "registry.url": f"postgresql://{DATABASE_USER}@{where}?{tls}",
        "releases": outputs.releases_url,
        "pulumi.backend": outputs.pulumi_state_url,
        "platform.key_file": str(files.store_keys),
        "platform.ca_file": str(files.authorities),
        "monitoring.url": outputs.monitoring_url,
        "monitoring.ingest_url": outputs.ingest_url,
        "platform_url": outputs.identity_url,
        "router.url": outputs.router_url,
    }
    if moves_backups:
        settings |= {
            "backup.bucket": outputs.backup_bucket,
            "backup.endpoint": outputs.object_store_endpoint,
            "backup.iam_endpoint": iam_endpoint,
            "backup.region": outputs.region,
            "backup.key_file": str(files.backup_key),
            "backup.ca_file": str(files.authorities),
        }
    return settings


def moves_backups(env: Environment, registry: Registry) -> bool:
    """Whether backups go to the platform's store: not if machines use backups that are elsewhere."""
    return bool(env.settings.backup.bucket) or not registry.backups.list()


def changes_of(env: Environment, wanted: Mapping[str, str]) -> tuple[SettingChange, ...]:
    """Settings that connecting would change, with their values before and after.

    Args:
        wanted: The settings with the platform, by name.

    Raises:
        RefusedError: A variable sets one of them, and would win.
    """
    changes = []
    for name, after in wanted.items():
        if env.sources[name] == "environment":
            raise RefusedError(
                f"{variable_of(name)} is set and wins over settings.toml", hint=f"unset {variable_of(name)}"
            )
        before = _text(value_of(env.settings, name))
        if before != after:
            changes.append(SettingChange(name, before if env.sources[name] != "default" else "", after))
    return tuple(changes)


def write_settings(files: PlatformFiles, values: Mapping[str, str]) -> None:
    """Write the settings of the platform; those from before are kept beside them, the first time alone."""
    present = files.settings.read_text() if files.settings.exists() else ""
    if not files.before.exists():
        replace_secret(files.before, present)
    changed = edited(present, values)
    if changed != present:
        replace_secret(files.settings, changed)


def _text(value: object) -> str:
    if value is None:
        return ""
    getter = getattr(value, "get_secret_value", None)
    return str(getter()) if getter else str(value)
