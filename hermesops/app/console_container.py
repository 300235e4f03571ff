"""The container of the served console: it reads the registry by a role that sees no sealed column.

It is an environment without keys: a part that needs one is refused, as by the command line on such a computer.
"""

from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from hermesops.app import parts
from hermesops.app.container import Container
from hermesops.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hermesops.app.connected import Connected
    from hermesops.observability.telemetry.platform_monitoring import PlatformMonitoring
    from hermesops.store.registry import Registry
    from hermesops.vendor.justavps import Client


class ConsoleContainer(Container):
    """The parts of the served console."""

    @cached_property
    def registry(self) -> "Registry":  # type: ignore[override]  # the same part, opened for reading
        """The registry, for reading."""
        return parts.console.readable_registry(self)

    @cached_property
    def monitoring(self) -> "PlatformMonitoring":  # type: ignore[override]  # the same part, with a certificate of a file
        """The platform's monitoring, by the process's own certificate."""
        return parts.console.monitoring(self)

    operator_tokens = cached_property(parts.console.operator_tokens)
    operator_request_rows = cached_property(parts.console.operator_request_rows)
    issuer_client = cached_property(parts.console.issuer_client)

    @asynccontextmanager
    async def connect(self) -> "AsyncIterator[Connected]":
        """Refuse: this process holds no key that opens a machine."""
        raise UnavailableError("the served console reaches no machine: workers carry out what operators ask for")
        yield  # a generator, as the container's

    @asynccontextmanager
    async def vendor(self) -> "AsyncIterator[Client]":
        """Refuse: this process holds no key of the vendor's."""
        raise UnavailableError("the served console has no key of JustAVPS")
        yield  # as above
