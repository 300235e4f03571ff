"""Keeps ``hermes_connections`` as users' connections are: other services of the platform read it.

The services' tokens are at the vendor, so a row has the vendor's id of the account in their place, sealed.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from hermesops.errors import HermesError, RefusedError
from hermesops.model.connections.connection import AccountStatus
from hermesops.store.registry import Registry
from hermesops.store.user_rows.connection_records import ConnectionRecords
from hermesops.vendor.composio.client import Composio


@dataclass(frozen=True)
class ConnectionRecording:
    """Writes and deletes rows of ``hermes_connections``."""

    registry: Registry
    records: ConnectionRecords
    vendor: Composio

    def due(self) -> list[str]:
        """Connections that are not recorded, and records of none."""
        missing = [f"{each.service} of {each.instance_id}" for each in self.records.missing()]
        return [*missing, *(f"{service} of {instance_id}" for instance_id, service in self.records.left_over())]

    async def run(self) -> Mapping[str, str]:
        """Record what is not recorded; the problem of each, empty for none."""
        problems = {}
        for connection in await asyncio.to_thread(self.records.missing):
            name = f"{connection.service} of {connection.instance_id}"
            try:
                account = await self.vendor.account(connection.account)
                if account.status is AccountStatus.ACTIVE:
                    await asyncio.to_thread(
                        self.registry.connections.connect,
                        connection.instance_id,
                        connection.service,
                        access_token=connection.account,
                        scopes=account.scopes,
                    )
                problems[name] = ""
            except HermesError as error:
                problems[name] = error.message
        for instance_id, service in await asyncio.to_thread(self.records.left_over):
            with suppress(RefusedError):
                await asyncio.to_thread(self.registry.connections.disconnect, instance_id, service)
            problems[f"{service} of {instance_id}"] = ""
        return problems
