"""``pulumi-resource-justavps``: the console script an engine starts. Prints one line, the port it answers on.

Nothing heavy is imported before that line: the engine waits for it.
"""

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops import __version__
from hermesops.errors import UnavailableError, UsageError
from hermesops.provider import stubs

if TYPE_CHECKING:
    from hermesops.provider.vendor import JustAvps
    from hermesops.settings import Environment


def main() -> int:
    """Serve the engine that started this process until it is gone."""
    stubs.load_only_stubs()
    # After the line above, or the whole SDK would be loaded.
    from hermesops.provider.server import engine_address, serve

    asyncio.run(serve(_open_vendor, version=__version__, engine=engine_address(sys.argv[1:]), announce=_announce))
    return 0


def _announce(port: int) -> None:
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()


def _open_vendor() -> "JustAvps":
    """The vendor of the environment that ``HERMESOPS_ENV`` names; read when the first machine is asked for."""
    import structlog

    from hermesops.justavps import Client
    from hermesops.provider.vendor import JustAvps
    from hermesops.settings import Environment

    # Engines read the port from stdout and show stderr to operators, so every call to the vendor stays unsaid.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    url, key = _endpoint(Environment.load())
    return JustAvps(Client(url, key))


def _endpoint(environment: "Environment") -> tuple[str, str]:
    """Base URL and key of the vendor's API, or of the local world that stands in for it."""
    settings = environment.settings
    if environment.is_local:
        world = _world(environment.world / "world.json")
        return f"{world['api_url']}/api/v1", _key(Path(world["api_key_file"]))
    if not settings.api_url:
        raise UsageError(f"environment {environment.name} has no api_url", hint="hermesops settings show")
    if settings.api_key is not None:
        return settings.api_url, settings.api_key.get_secret_value()
    if settings.api_key_file is None:
        raise UsageError(f"environment {environment.name} has no api_key_file", hint="hermesops settings show")
    return settings.api_url, _key(settings.api_key_file)


def _world(file: Path) -> dict[str, str]:
    try:
        world: dict[str, str] = json.loads(file.read_text())
    except FileNotFoundError:
        raise UnavailableError("the local world is not up", hint="hermesops local up") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {file}: {error}", hint="hermesops local up") from error
    return world


def _key(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the API key in {file}: {error}", hint="hermesops settings show") from error
