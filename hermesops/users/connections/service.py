"""A user's connections: which there are, a link for one more, the browser's return, and the end of one."""

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hermesops.errors import HermesError, RefusedError, UnavailableError
from hermesops.model.connections.connection import SHOWN, Connection, ConnectionState
from hermesops.model.connections.service import BY_SLUG, SERVICES, Service
from hermesops.model.ids import UserId
from hermesops.store.user_rows.accounts import Account, UserAccounts
from hermesops.store.user_rows.connections import UserConnections, digest
from hermesops.users.chat.service import NoAgentError
from hermesops.users.connections.decide import LINK, comes_back
from hermesops.users.connections.upkeep import ConnectionUpkeep
from hermesops.vendor.composio.client import Composio

_LONGEST_LINK = timedelta(hours=1)
_PRECEDENCE = (
    ConnectionState.LINKED,
    ConnectionState.CONFIRMED,
    ConnectionState.EXPIRED,
    ConnectionState.REQUESTED,
    ConnectionState.FAILED,
)
"""Which of a service's connections its user sees."""


class NoSuchServiceError(RefusedError):
    """There is no such service, or this environment has no configuration of it."""


class TooManyConnectionsError(RefusedError):
    """Too many connections of the user have ended and are not cleaned up yet."""


class StaleLinkError(RefusedError):
    """The link was used, is too old, or was begun elsewhere."""


@dataclass(frozen=True)
class ServiceConnection:
    """A service, and the user's connection to it.

    Attributes:
        is_offered: Whether it can be connected here.
        state: ``None`` for not connected.
        detail: The reason of a failure, for the user.
    """

    service: Service
    is_offered: bool
    state: ConnectionState | None = None
    since: datetime | None = None
    detail: str = ""


@dataclass(frozen=True)
class Connections:
    """Users' connections.

    Attributes:
        auth_configs: Ids of services' configurations at the vendor, by service.
        callback_url: To which browsers come back; the state follows as one more part of the path.
    """

    accounts: UserAccounts
    rows: UserConnections
    upkeep: ConnectionUpkeep
    vendor: Composio
    auth_configs: Mapping[str, str]
    callback_url: str

    async def list(self, user_id: UserId) -> tuple[ServiceConnection, ...]:
        """All services, with the user's connections.

        Raises:
            NoAgentError: The user has no agent.
        """
        account = await self._account(user_id)
        rows = await asyncio.to_thread(self.rows.of_instance, account.instance_id)
        return tuple(
            shown(service, [row for row in rows if row.service == service.slug], self.auth_configs)
            for service in SERVICES
        )

    async def begin(self, user_id: UserId, slug: str, session: str) -> str:
        """Ask for a connection; returns the link for the user's browser.

        Args:
            session: The page session's cookie; empty for a client with a bearer token.

        Raises:
            NoAgentError: The user has no agent.
            NoSuchServiceError: See there.
            TooManyConnectionsError: See there.
            UnavailableError: The vendor gave no link; the user may try again.
        """
        account, service = await self._account(user_id), self._offered(slug)
        state = secrets.token_urlsafe(32)
        connection = await asyncio.to_thread(
            self.rows.begin,
            user_id,
            account.instance_id,
            service.slug,
            state=state,
            session=digest(session) if session else "",
            life=LINK,
        )
        if connection is None:
            raise TooManyConnectionsError("too many connections were begun and ended; try again in some minutes")
        try:
            link = await self.vendor.link(
                account.instance_id, self.auth_configs[service.slug], f"{self.callback_url}/{state}"
            )
        except HermesError as error:
            raise UnavailableError(f"the vendor gave no link for {slug}: {error.message}") from error
        expires_at = min(link.expires_at, connection.created_at + _LONGEST_LINK)
        if not await asyncio.to_thread(self.rows.got_link, connection.id, link.account, expires_at):
            await self._forget(replace(connection, account=link.account))
            raise StaleLinkError("another link for this service was asked for meanwhile; use that one")
        return link.url

    async def come_back(self, user_id: UserId, session: str, state: str) -> Connection | None:
        """Take the browser that comes back from a link; its connection as it is then.

        An account that another person connected through the link is revoked: it is not the user's.

        Args:
            session: The page session's cookie.

        Raises:
            StaleLinkError: See there.
        """
        connection = await asyncio.to_thread(self.rows.take, state)
        if connection is None:
            raise StaleLinkError("this link was used already, or is too old; connect the service again")
        is_right = comes_back(connection, user_id, digest(session))
        to = ConnectionState.CONFIRMED if is_right else ConnectionState.REVOKING
        await asyncio.to_thread(self.rows.move, connection, to)
        settled = await self._settled(connection)
        if not is_right:
            raise StaleLinkError("this link was asked for elsewhere; connect the service from this page")
        return settled

    async def disconnect(self, user_id: UserId, slug: str) -> None:
        """End the user's connections to a service: the agent's access at once, then the vendor's account.

        Where the vendor does not answer, a job goes on.

        Raises:
            NoAgentError: The user has no agent.
            NoSuchServiceError: There is no such service.
        """
        await self._account(user_id)
        if slug not in BY_SLUG:
            raise NoSuchServiceError("there is no such service")
        for connection in await asyncio.to_thread(self.rows.disconnect, user_id, slug):
            await self._settled(connection)

    async def _settled(self, connection: Connection) -> Connection | None:
        """Bring a connection as far as it goes; what the vendor prevents is left to the job."""
        current = await asyncio.to_thread(self.rows.get, connection.id)
        if current is None:
            return None
        try:
            return await self.upkeep.settle(current)
        except HermesError:
            return await asyncio.to_thread(self.rows.get, connection.id)

    async def _forget(self, connection: Connection) -> None:
        """Delete an account that no row has; the clean-up of its request finds it otherwise."""
        try:
            await self.vendor.delete(connection.account)
        except HermesError:
            return

    async def _account(self, user_id: UserId) -> Account:
        account = await asyncio.to_thread(self.accounts.of_user, user_id)
        if account is None:
            raise NoAgentError("you have no agent")
        return account

    def _offered(self, slug: str) -> Service:
        service = BY_SLUG.get(slug)
        if service is None or slug not in self.auth_configs:
            raise NoSuchServiceError("there is no such service here")
        return service


def shown(service: Service, rows: list[Connection], auth_configs: Mapping[str, str]) -> ServiceConnection:
    """A service as its user sees it. Pure."""
    is_offered = service.slug in auth_configs
    for state in _PRECEDENCE:
        for row in reversed(rows):
            if row.state is state and state in SHOWN:
                since = row.linked_at if state is ConnectionState.LINKED else row.changed_at
                return ServiceConnection(service, is_offered, state, since, row.detail)
    return ServiceConnection(service, is_offered)
