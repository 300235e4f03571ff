"""Brings connections to the state that rows and vendor ask for: one step after the other, each safe to repeat.

An agent's access ends before anything is asked of the vendor, and the row goes last: whatever dies in between, the
agent has no access, and what is left at the vendor is found by the row.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta

import structlog

from hermesops.errors import HermesError
from hermesops.model.connections.connection import Connection, ConnectionState, VendorAccount
from hermesops.store.user_rows.accounts import UserAccounts
from hermesops.store.user_rows.connections import Pace, UserConnections
from hermesops.store.user_rows.mcp_access import McpAccesses
from hermesops.users.connections.decide import (
    CHECKED,
    KEPT,
    Clean,
    Drop,
    Move,
    Seen,
    Step,
    accounts_for_agent,
    digest_of,
    looks_at_account,
    next_step,
)
from hermesops.vendor.composio.client import Composio, NoSuchAccountError, NotRevocableError

AGAIN = timedelta(seconds=10)
"""Between two attempts at a step that has to be done soon."""

PACE = Pace(CHECKED, AGAIN, KEPT)

_MOST_AT_ONCE = 100
"""Connections of one run: the smallest plan at Composio has 2,000 requests a minute, and a connection takes two."""

_MOST_STEPS = 4
"""Steps of one connection in a run, as: move, clean, drop."""

log = structlog.get_logger()


class ConnectionUpkeep:
    """Carries out what is decided about connections."""

    def __init__(self, accounts: UserAccounts, rows: UserConnections, accesses: McpAccesses, vendor: Composio) -> None:
        self._accounts = accounts
        self._rows = rows
        self._accesses = accesses
        self._vendor = vendor

    def due(self) -> list[str]:
        """Connections that may need a step, as service and agent."""
        return [f"{each.service} of {each.instance_id}" for each, _ in self._rows.due(PACE, limit=_MOST_AT_ONCE)]

    async def run(self) -> Mapping[str, str]:
        """Bring connections that may need it a step further; the problem of each, empty for none."""
        problems = {}
        for connection, has_agent in await asyncio.to_thread(self._rows.due, PACE, limit=_MOST_AT_ONCE):
            name = f"{connection.service} of {connection.instance_id}"
            try:
                await self.settle(connection, has_agent=has_agent)
                problems[name] = ""
            except HermesError as error:
                problems[name] = error.message
                await asyncio.to_thread(self._rows.seen, connection.id)  # others get their turn first
        return problems

    async def settle(self, connection: Connection, *, has_agent: bool = True) -> Connection | None:
        """Bring a connection as far as it goes now; ``None`` once its row is gone.

        Raises:
            UnavailableError: The vendor does not answer.
            RefusedError: The vendor refuses our key.
        """
        current: Connection | None = connection
        for _ in range(_MOST_STEPS):
            if current is None:
                return None
            account = await self._account_of(current)
            now = await asyncio.to_thread(self._accounts.now)
            step = next_step(current, account, has_agent=has_agent, now=now)
            if step is None:
                return current
            await self._do(current, step)
            current = await asyncio.to_thread(self._rows.get, connection.id)
            if isinstance(step, Seen) or (isinstance(step, Clean) and current and not current.cleaned_at):
                return current
        return current

    async def narrow_session(self, connection: Connection) -> None:
        """End the agent's session at the vendor where it is not limited to the accounts that the agent has now.

        Raises:
            UnavailableError: The vendor does not answer.
        """
        access = await asyncio.to_thread(self._accesses.of_instance, connection.instance_id)
        if access is None or not access.session:
            return
        connections = await asyncio.to_thread(self._rows.of_instance, connection.instance_id)
        if digest_of(accounts_for_agent(connections)) == access.accounts_digest:
            return
        await self._vendor.end_session(access.session)
        await asyncio.to_thread(self._accesses.keep_session, access, "", "", "")

    async def _account_of(self, connection: Connection) -> VendorAccount | None:
        if not connection.account or not looks_at_account(connection):
            return None
        return await self._vendor.account(connection.account)

    async def _do(self, connection: Connection, step: Step) -> None:
        match step:
            case Move(state=state, detail=detail):
                if await asyncio.to_thread(self._rows.move, connection, state, detail):
                    log.info("connection_moved", service=connection.service, agent=connection.instance_id, state=state)
            case Seen():
                await asyncio.to_thread(self._rows.seen, connection.id)
            case Clean():
                await self._clean(connection)
            case Drop():
                await asyncio.to_thread(self._rows.drop, connection.id)

    async def _clean(self, connection: Connection) -> None:
        await self.narrow_session(connection)
        left = await self._left_of(connection)
        if left is None:
            await asyncio.to_thread(self._rows.seen, connection.id)
            return
        for account in left:
            with suppress(NoSuchAccountError, NotRevocableError):
                await self._vendor.revoke(account)
            await self._vendor.delete(account)
        await asyncio.to_thread(self._rows.cleaned, connection.id)

    async def _left_of(self, connection: Connection) -> list[str] | None:
        """Accounts of a connection at the vendor: where the answer with its id was lost, those that no row has.

        ``None`` while that is not known: another link is being made, whose account no row has yet.
        """
        if connection.account:
            return [connection.account]
        rows = await asyncio.to_thread(self._rows.of_instance, connection.instance_id)
        if any(row.state is ConnectionState.REQUESTED and not row.account for row in rows):
            return None
        known = {row.account for row in rows}
        listed = await self._vendor.accounts_of(connection.instance_id)
        return [account.id for account in listed if account.id not in known]
