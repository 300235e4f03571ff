"""Opens what the plugins of one run need: their host, where their log lines go, the key of the state's secrets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermesops.engine.embedded.plugins.provider_pool import Providers
from hermesops.engine.embedded.protocol import urns
from hermesops.engine.embedded.protocol.rpc import PluginHost
from hermesops.engine.embedded.protocol.values import has_secret
from hermesops.engine.embedded.run.events import EventLog
from hermesops.engine.embedded.state.deployment import Deployment
from hermesops.engine.embedded.state.secrets import PassphraseVault

HostFactory = Callable[[str], PluginHost]
"""Makes what starts plugins, given the address that takes their log lines."""


@dataclass(frozen=True)
class Plugins:
    """How plugins are started.

    Attributes:
        folders: Searched before ``PATH``.
        environment: The whole environment of plugin processes.
        about: What plugins are told the program's folder is.
        host: Replaces plugin processes; for tests.
    """

    folders: Sequence[Path]
    environment: Mapping[str, str]
    about: str
    host: HostFactory | None = None

    @contextlib.asynccontextmanager
    async def opened(
        self, before: Deployment, vault: PassphraseVault, events: EventLog, *, everything: bool
    ) -> AsyncIterator[Providers]:
        """Serve one run; plugins end with the context.

        Args:
            before: The stack's state; the plugins of its default providers are started at once.
            vault: The state's secrets.
            events: Takes the plugins' log lines.
            everything: Whether the run asks the plugins about every resource, so that it will need the key if any
                of them holds a secret.
        """
        unlocking = None
        if everything and any(r.custom and has_secret([dict(r.inputs), dict(r.outputs)]) for r in before.resources):
            # The key takes a second; it is derived beside the start of the plugin and the SDK.
            unlocking = asyncio.create_task(asyncio.to_thread(vault.unlock))
        server, host, address = self._host_for(before, events)
        providers = Providers(host, vault, folder=self.about, engine_address=address)
        try:
            await asyncio.to_thread(load_sdk)
            if unlocking:
                await unlocking
            yield providers
        finally:
            await asyncio.shield(providers.close())
            if server is not None:
                server.close()

    def _host_for(self, before: Deployment, events: EventLog) -> tuple[Any, PluginHost, str]:
        if self.host is not None:
            return None, self.host(""), ""
        from hermesops.engine.embedded.plugins.log_server import LogServer  # noqa: PLC0415  loads gRPC
        from hermesops.engine.embedded.plugins.process import ProcessHost  # noqa: PLC0415  loads gRPC
        from hermesops.engine.embedded.protocol.monitor import EngineLog  # noqa: PLC0415  loads gRPC

        log = EngineLog(events, asyncio.get_running_loop())
        server = LogServer(log.Log)
        host = ProcessHost(self.folders, self.environment, server.address)
        for resource in before.resources:
            if urns.is_default_provider(resource.urn) and not resource.delete:
                host.expect(urns.package_of(resource.type))
        return server, host, server.address


def load_sdk() -> None:
    """Import the pulumi SDK, which takes about half a second the first time."""
    import pulumi.runtime.proto.provider_pb2_grpc  # noqa: F401, PLC0415  loaded only by commands that run a program
