"""The environments of this home: a list, the chosen one, and whether it is usable."""

from dataclasses import dataclass
from pathlib import Path

from hermesops.errors import UsageError
from hermesops.model.unknown_name import unknown_name
from hermesops.settings.environment import LOCAL, Environment


@dataclass(frozen=True)
class EnvironmentState:
    """One environment, seen from outside.

    Attributes:
        problem: What is wrong with its settings; empty for nothing.
    """

    name: str
    folder: Path
    is_chosen: bool
    vendor: str
    registry_kind: str
    problem: str


def list_environments(chosen: Environment) -> tuple[EnvironmentState, ...]:
    """Every environment that has a folder, and the chosen one, by name."""
    home = chosen.folder.parent
    return tuple(_seen(name, home, chosen) for name in sorted(_names(home) | {chosen.name}))


def require_known(env: Environment) -> None:
    """Refuse an environment that does not exist: a mistyped name must not make a new registry.

    Raises:
        UsageError: It has no folder, and no variable says where its vendor, its registry or its secrets are.
    """
    settings = env.settings
    address = settings.api_url or settings.registry.url or settings.secrets.home
    if env.name == LOCAL or address or env.folder.is_dir():
        return
    where = f": neither {env.folder} nor an api_url is there"
    raise unknown_name("environment", env.name, _names(env.folder.parent) | {LOCAL}, where=where)


def _names(home: Path) -> set[str]:
    names = (folder.name for folder in (home.iterdir() if home.is_dir() else ()) if folder.is_dir())
    return {name for name in names if name.isidentifier() and name == name.lower()}


def _seen(name: str, home: Path, chosen: Environment) -> EnvironmentState:
    is_chosen = name == chosen.name
    try:
        env = chosen if is_chosen else Environment.load(name, chosen.variables)
    except UsageError as error:
        return EnvironmentState(name, home / name, is_chosen, "", "", error.message)
    vendor = "the local world" if env.is_local else env.settings.api_url
    url = env.settings.registry.url
    registry = url.get_secret_value().partition(":")[0].partition("+")[0] if url else "sqlite"
    return EnvironmentState(name, env.folder, is_chosen, vendor, registry, "" if vendor else "no api_url is set")
