"""The providers of one run: default ones, explicit ones, and those that only the state still knows.

Source: recordings, semantics §1-§2: one process per provider resource; Configure runs beside other work.
"""

import asyncio
import contextlib
import uuid
from collections.abc import Mapping
from typing import Any

from hermesops.engine.embedded.plugins.provider import Provider
from hermesops.engine.embedded.protocol import urns
from hermesops.engine.embedded.protocol.rpc import PluginHost, ProviderFaultError
from hermesops.engine.embedded.protocol.values import Vault, has_unknown
from hermesops.engine.embedded.state.deployment import Resource

CANCEL_LIMIT_S = 2.0


class Providers:
    """Starts, configures and ends provider plugins.

    Args:
        host: Where plugins come from.
        folder: What plugins are told the program's folder is.
        engine_address: Where plugins send log lines; empty for none.
    """

    def __init__(self, host: PluginHost, vault: Vault, *, folder: str, engine_address: str) -> None:
        self._host = host
        self._vault = vault
        self._folder = folder
        self._engine_address = engine_address
        self._running: list[Provider] = []
        self._configuring: set[asyncio.Task[None]] = set()
        self._current: dict[str, Provider] = {}
        self._stored: dict[str, asyncio.Task[Provider]] = {}

    async def launch(self, urn: str) -> Provider:
        """Start a plugin for a provider resource and shake hands; it is not configured yet."""
        connection = await self._host.start(urns.package_of(urns.type_of(urn)))
        provider = Provider(urn, "", connection, self._vault, self._engine_address)
        self._running.append(provider)
        await provider.handshake(self._folder)
        return provider

    def configure(self, provider: Provider, inputs: Mapping[str, Any], *, resource_id: str) -> None:
        """Begin to configure; whoever uses the provider awaits :meth:`usable`. From now on it serves its URN."""
        provider.id = resource_id
        self._current[provider.urn] = provider
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        provider.ready = ready
        if has_unknown(dict(inputs)):
            ready.set_exception(ProviderFaultError("FAILED_PRECONDITION", "its configuration is not known yet"))
            ready.exception()
            return

        async def work() -> None:
            try:
                await provider.configure(inputs)
            except ProviderFaultError as fault:
                ready.set_exception(fault)
                ready.exception()  # whoever uses the provider reports it; nobody may
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

    async def of_state(self, reference: str, resources: list[Resource]) -> Provider:
        """Find or load the provider that a resource of the state was made with.

        Raises:
            ProviderFaultError: The state does not hold that provider, or it does not come up.
        """
        urn, resource_id = urns.split_reference(reference)
        current = self._current.get(urn)
        if current is not None and current.id == resource_id:
            return await self.usable(current)
        if reference not in self._stored:
            self._stored[reference] = asyncio.create_task(self._load(urn, resource_id, resources))
        return await asyncio.shield(self._stored[reference])

    async def for_look_up(self, reference: str, resources: list[Resource]) -> Provider:
        """As ``of_state``; where the state has lost that provider, a default one without settings stands in."""
        urn, resource_id = urns.split_reference(reference)
        if not urns.is_default_provider(urn) or any(r.urn == urn and r.id == resource_id for r in resources):
            return await self.of_state(reference, resources)
        if urn not in self._stored:
            self._stored[urn] = asyncio.create_task(self._stand_in(urn, resource_id))
        return await asyncio.shield(self._stored[urn])

    async def _stand_in(self, urn: str, resource_id: str) -> Provider:
        provider = await self.launch(urn)
        provider.id = resource_id
        await provider.configure({})
        return provider

    async def _load(self, urn: str, resource_id: str, resources: list[Resource]) -> Provider:
        stored = next((r for r in resources if r.urn == urn and r.id == resource_id), None)
        if stored is None:
            raise ProviderFaultError("FAILED_PRECONDITION", f"the state names a provider that it does not hold: {urn}")
        provider = await self.launch(urn)
        provider.id = resource_id
        await provider.configure(stored.inputs)
        return provider

    async def retire(self, provider: Provider) -> None:
        """End one plugin that is not needed any more."""
        self._running.remove(provider)
        await self._end(provider)

    async def cancel(self) -> None:
        """Ask every plugin to end what it is doing."""
        await asyncio.gather(*(self._cancel(provider) for provider in self._running))

    async def close(self) -> None:
        """End all plugins."""
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


def new_id() -> str:
    """Make the id of a new provider resource."""
    return str(uuid.uuid4())
