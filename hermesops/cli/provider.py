"""``pulumi-resource-justavps``: the console script an engine starts. Prints one line, the port it answers on.

Nothing heavy is imported before that line: the engine waits for it.
"""

import asyncio
import logging
import sys
from typing import TYPE_CHECKING

from hermesops import __version__
from hermesops.infra.provider import stubs
from hermesops.wire import core_dump

if TYPE_CHECKING:
    from hermesops.infra.provider.vendor import JustAvps


def main() -> int:
    """Serve the engine that started this process until it is gone."""
    core_dump.forbid()
    stubs.load_only_stubs()
    # After the line above, or the whole SDK would be loaded.
    from hermesops.infra.provider.server import engine_address, serve

    asyncio.run(serve(_open_vendor, version=__version__, engine=engine_address(sys.argv[1:]), announce=_announce))
    return 0


def _announce(port: int) -> None:
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()


def _open_vendor() -> "JustAvps":
    """The vendor of the environment that ``HERMESOPS_ENV`` names; read when the first machine is asked for."""
    from hermesops.app import endpoint_of
    from hermesops.base import process_log
    from hermesops.infra.provider.vendor import JustAvps
    from hermesops.settings.environment import Environment
    from hermesops.vendor.justavps import Client

    # Engines read the port from stdout and show stderr to operators, so every call to the vendor stays unsaid.
    process_log.open_log(logging.WARNING, process_log.for_terminal(coloured=False))
    endpoint = endpoint_of(Environment.load())
    return JustAvps(Client(endpoint.api_url, endpoint.api_key))
