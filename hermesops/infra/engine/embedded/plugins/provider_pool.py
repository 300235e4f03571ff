"""The providers of one run: default ones, explicit ones, and those that are only in the state.

Source: recordings, semantics §1-§2: one process per provider resource; Configure runs beside other work.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermesops.infra.engine.embedded.plugins.process import LogServer, ProcessHost
from hermesops.infra.engine.embedded.plugins.provider import Provider
from hermesops.infra.engine.embedded.protocol import urns
from hermesops.infra.engine.embedded.protocol.plugin import ProviderFaultError
from hermesops.infra.engine.embedded.protocol.values import has_secret, has_unknown
from hermesops.infra.engine.embedded.run.events import EventLog
from hermesops.infra.engine.embedded.state.journal import Journal

CANCEL_LIMIT_S = 2.0


class Providers:
    """Starts, configures and ends provider plugins.

    Args:
        folder: The program's folder, for plugins.
        engine_address: Where plugins send log lines; empty for none.
    """

    def __init__(self, host: ProcessHost, journal: Journal, *, folder: str, engine_address: str) -> None:
        self._host = host
        self._journal = journal
        self._folder = folder
        self._engine_address = engine_address
        self._running: list[Provider] = []
        self._configuring: set[asyncio.Task[None]] = set()
        self._current: dict[str, Provider] = {}
        self._stored: dict[str, asyncio.Task[Provider]] = {}

    async def launch(self, urn: str, resource_id: str = "") -> Provider:
        """Start a plugin for a provider resource, with the handshake; it is not configured yet."""
        connection = await self._host.start(urns.package_of(urns.type_of(urn)))
        provider = Provider(urn, resource_id, connection, self._journal.vault, self._engine_address)
        self._running.append(provider)
        await provider.handshake(self._folder)
        return provider

    def configure(self, provider: Provider, inputs: Mapping[str, Any], *, resource_id: str) -> None:
        """Begin to configure; users of the provider await :meth:`usable`. From now on it serves its URN."""
        provider.id = resource_id
        self._current[provider.urn] = provider
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ready.add_done_callback(asyncio.Future.exception)  # users of the provider report it; there may be none
        provider.ready = ready
        if has_unknown(dict(inputs)):
            ready.set_exception(ProviderFaultError("FAILED_PRECONDITION", "its configuration is not known yet"))
            return

        async def work() -> None:
            try:
                await provider.configure(inputs)
            except ProviderFaultError as fault:
                ready.set_exception(fault)
            else:
                ready.set_result(None)

        task = asyncio.create_task(work())
        self._configuring.add(task)
        task.add_done_callback(self._configuring.discard)

    def current(self, urn: str) -> Provider | None:
        """The provider that this run registered under a URN."""
        return self._current.get(urn)

    async def usable(self, provider: Provider) -> Provider:
        """Await the plugin's answer to Configure.

        Raises:
            ProviderFaultError: It refused its configuration.
        """
        if provider.ready is not None:
            await asyncio.shield(provider.ready)
        return provider

    async def of_state(self, reference: str, *, or_default: bool = False) -> Provider:
        """Find or load the provider that a resource of the state was made with.

        With ``or_default``, where the state has lost a default provider, one without settings is started in its place.

        Raises:
            ProviderFaultError: The state does not hold that provider, or it does not come up.
        """
        urn, resource_id = urns.split_reference(reference)
        current = self._current.get(urn)
        if current is not None and current.id == resource_id:
            return await self.usable(current)
        if reference not in self._stored:
            self._stored[reference] = asyncio.create_task(self._load(urn, resource_id, or_default=or_default))
        return await asyncio.shield(self._stored[reference])

    async def _load(self, urn: str, resource_id: str, *, or_default: bool) -> Provider:
        stored = [r.inputs for r in self._journal.resources if r.urn == urn and r.id == resource_id]
        if not stored and not (or_default and urns.is_default_provider(urn)):
            raise ProviderFaultError("FAILED_PRECONDITION", f"the state names a provider that it lacks: {urn}")
        provider = await self.launch(urn, resource_id)
        await provider.configure(stored[0] if stored else {})
        return provider

    async def retire(self, provider: Provider) -> None:
        """End one plugin that is not needed any more."""
        self._running.remove(provider)
        await self._end(provider)

    async def cancel(self) -> None:
        """Ask every plugin to stop the calls in flight."""
        await asyncio.gather(*(self._cancel(provider) for provider in self._running))

    async def close(self) -> None:
        """Stop all plugin processes of the pool."""
        for task in [*self._configuring, *self._stored.values()]:
            task.cancel()
        await asyncio.gather(*(self._end(provider) for provider in self._running))
        self._running.clear()
        await self._host.close()

    async def _end(self, provider: Provider) -> None:
        await self._cancel(provider)
        await provider.connection.close()

    async def _cancel(self, provider: Provider) -> None:
        with contextlib.suppress(ProviderFaultError, TimeoutError):
            await asyncio.wait_for(provider.cancel(), CANCEL_LIMIT_S)


@dataclass
class Plugins:
    """Parameters of plugin processes.

    Attributes:
        folders: Searched before ``PATH``.
        about: Folder of the program, for plugins.
        host: Replaces plugin processes in tests.
    """

    folders: Sequence[Path]
    environment: Mapping[str, str]
    about: str
    host: Callable[[], ProcessHost] | None = None

    @contextlib.asynccontextmanager
    async def opened(self, journal: Journal, events: EventLog, *, everything: bool) -> AsyncIterator[Providers]:
        """Serve one run; plugins end with the context.

        Plugins of the default providers in the journal's state are started at once. ``everything``: the run asks the
        plugins about every resource, so it will need the key if any of them holds a secret.
        """
        unlocking = None
        if everything and any(r.custom and has_secret([dict(r.inputs), dict(r.outputs)]) for r in journal.left):
            # The key takes a second; it is derived while the plugin and the SDK start.
            unlocking = asyncio.create_task(asyncio.to_thread(journal.vault.unlock))
        loop = asyncio.get_running_loop()
        server = None if self.host else LogServer(lambda line: events.report_line(line, loop))
        address = server.address if server else ""
        host = self.host() if self.host else ProcessHost(self.folders, self.environment, address)
        for resource in journal.left:
            if server and urns.is_default_provider(resource.urn) and not resource.delete:
                host.expect(urns.package_of(resource.type))
        providers = Providers(host, journal, folder=self.about, engine_address=address)
        try:
            await asyncio.to_thread(load_sdk)
            if unlocking:
                await unlocking
            yield providers
        finally:
            await asyncio.shield(providers.close())
            if server is not None:
                server.close()


def load_sdk() -> None:
    """Import the pulumi SDK, which takes about half a second the first time."""
    import pulumi.runtime.proto.provider_pb2_grpc  # noqa: F401, PLC0415  loaded only by commands that run a program
