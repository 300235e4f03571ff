"""A worker that carries out users' changes of settings, where the machine of the agent takes each at once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from hermesops.agents.model_providers.service import ModelProviders
from hermesops.base.waiting import cancel, pause
from hermesops.errors import UnavailableError
from hermesops.model.operation import Operation, OperationStatus
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.user_rows.requests import UserRequests
from hermesops.store.user_rows.settings_copies import SettingsCopies
from hermesops.users.agent_settings.copies import SettingsCopying
from hermesops.users.agent_settings.service import AgentSettings, Patch
from hermesops.users.user_requests.carrier import RequestCarrier
from hermesops.vendor.model_providers.client import ModelProviderClient
from tests.support.billing.plan_world import POLICY
from tests.support.fakes.parts import part
from tests.support.real.stores.registries import KEYS
from tests.support.users.api import UsersApi


@dataclass
class SettingsWorker:
    """The worker.

    Attributes:
        client: Asks model providers.
        checks_fail: How often the machine does not answer before a provider is asked.
        changes_fail: How often it does not when it gets settings.
    """

    api: UsersApi
    client: ModelProviderClient
    checks_fail: int = 0
    changes_fail: int = 0

    async def run(self) -> None:
        """Look again and again until cancelled."""
        registry = self.api.relay.registry
        copies = SettingsCopies(self.api.all_rows, KEYS)
        carrier = RequestCarrier(
            registry=registry,
            rows=lambda: UserRequests(self.api.all_rows, KEYS),
            policy=POLICY,
            prices={},
            at_stripe=lambda: None,
            seen=part(),
            settings=AgentSettings(
                registry, self._configure, self._refuse_provider, ModelProviders(registry, self.client)
            ),
            back=lambda origin: origin,
            refresh=part(),
            hold_lease=lambda subject: LeaseKeeper(registry, subject),
        )
        while True:
            await carrier.run()
            SettingsCopying(registry, lambda: copies).run()
            self.api.relay.clock.turn(2)
            await pause(0.05)

    async def _refuse_provider(self, _user: str) -> None:
        if self.checks_fail:
            self.checks_fail -= 1
            raise UnavailableError("the machine does not answer")

    async def _configure(self, user: str, patch: Patch, reason: str) -> Operation:
        if self.changes_fail:
            self.changes_fail -= 1
            raise UnavailableError("the machine does not answer")
        registry = self.api.relay.registry
        instance = registry.instances.find(user)
        settings = patch(registry.instance_secrets.settings(instance.id))
        intent = {"user": user, "reason": reason, "changed": [], "settings": {}}
        operation = registry.settings_changes.change(
            instance.id, settings, subject=f"instance/{instance.id}", intent=intent, why=reason
        )
        registry.operations.finish(operation.id, OperationStatus.DONE, "done")
        return operation


@contextlib.asynccontextmanager
async def settings_worker(api: UsersApi, client: ModelProviderClient) -> AsyncIterator[SettingsWorker]:
    """Let a worker look until the block ends."""
    worker = SettingsWorker(api, client)
    working = asyncio.ensure_future(worker.run())
    try:
        yield worker
        if working.done():
            working.result()
    finally:
        await cancel(working)
