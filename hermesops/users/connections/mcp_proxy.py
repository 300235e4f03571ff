"""The way of an agent's calls to its services: it adds the project's key, and limits each agent to its own accounts.

An agent proves itself by its own token. From the token follow the agent, its linked accounts, and the session at the
vendor that is limited to them; path, query, headers and body of the request choose none of these. The project's key
goes to the vendor's own origin alone, and is in no answer.

Source: Model Context Protocol, revision 2025-06-18, "Transports": a client takes a server without a stream of its own
(405), and begins anew where its session is not known any more (404).
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from weakref import WeakValueDictionary

import httpx
import structlog

from hermesops.base.network.http import client
from hermesops.errors import HermesError, RefusedError, UnavailableError
from hermesops.model.ids import InstanceId
from hermesops.store.user_rows.connections import UserConnections
from hermesops.store.user_rows.mcp_access import McpAccess, McpAccesses
from hermesops.users.connections.decide import accounts_for_agent, digest_of
from hermesops.users.connections.mcp_messages import Message
from hermesops.vendor.composio.client import KEY_HEADER, Composio
from hermesops.vendor.justavps.answer_body import AnswerBody, Deadline, UnreadableAnswerError

CALL_S = 120.0
"""Seconds for a call, with all of its answer."""

LARGEST_ANSWER = 8 << 20

_CONNECT_S = 10.0
_WORD = re.compile(r"[\x21-\x7e]{1,128}")
_KINDS = frozenset({"application/json", "text/event-stream"})
_LONGEST_TOKEN = 128

log = structlog.get_logger()


class UnknownAgentError(RefusedError):
    """The token is no running agent's."""


class NothingConnectedError(RefusedError):
    """The agent has no connected service."""


class SessionEndedError(RefusedError):
    """The agent's session of the protocol is not known any more; it begins another."""


@dataclass(frozen=True)
class McpAnswer:
    """The head of an answer.

    Attributes:
        headers: Those that an agent gets.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)


class McpProxy:
    """Passes agents' calls on to the vendor."""

    def __init__(
        self, rows: UserConnections, accesses: McpAccesses, vendor: Composio, *, call_s: float = CALL_S
    ) -> None:
        self._rows = rows
        self._accesses = accesses
        self._vendor = vendor
        self._call_s = call_s
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def agent_of(self, token: str) -> McpAccess:
        """The agent of a token.

        Raises:
            UnknownAgentError: See there.
        """
        is_one = 0 < len(token) <= _LONGEST_TOKEN and token.isascii()
        access = await asyncio.to_thread(self._accesses.of_token, token) if is_one else None
        if access is None:
            raise UnknownAgentError("this token is no running agent's")
        return access

    async def call(
        self, access: McpAccess, message: Message, headers: Mapping[str, str]
    ) -> AsyncIterator[McpAnswer | bytes]:
        """Pass a message on: the head of the answer first, then pieces of its body.

        Args:
            access: As ``agent_of`` gave it.
            headers: Of the agent's request, with names in lower case.

        Raises:
            NothingConnectedError: See there.
            SessionEndedError: See there.
            UnavailableError: The vendor takes no more calls, or does not answer as a server of the protocol.
        """
        limited = await self._limited(access)
        if limited.session != access.session and not message.is_first:
            raise SessionEndedError("the agent's services have changed")
        try:
            async for piece in self._exchange(limited, message, headers):
                yield piece
        except SessionEndedError:
            if not message.is_first:
                raise
            await asyncio.to_thread(self._accesses.keep_session, limited, "", "", "")
            async for piece in self._exchange(await self._limited(access), message, headers):
                yield piece

    async def _limited(self, access: McpAccess) -> McpAccess:
        """The agent with a session that is limited to the accounts that are linked now."""
        lock = self._opening.setdefault(access.instance_id, asyncio.Lock())
        async with lock:
            current = await asyncio.to_thread(self._accesses.of_instance, access.instance_id)
            connections = await asyncio.to_thread(self._rows.of_instance, access.instance_id)
            accounts = accounts_for_agent(connections)
            if current is None or not accounts:
                raise NothingConnectedError("no service is connected")
            if current.session and current.accounts_digest == digest_of(accounts):
                return current
            return await self._opened(current, accounts)

    async def _opened(self, before: McpAccess, accounts: Mapping[str, tuple[str, ...]]) -> McpAccess:
        try:
            session = await self._vendor.open_session(before.instance_id, accounts)
        except HermesError as error:
            log.warning("connections_not_opened", agent=before.instance_id, why=error.message)
            raise UnavailableError("the vendor opens no session now") from error
        digest = digest_of(accounts)
        is_ours = await asyncio.to_thread(self._accesses.keep_session, before, session.id, session.url, digest)
        await self._end(before.session if is_ours else session.id, before.instance_id)
        if is_ours:
            return McpAccess(before.instance_id, session.id, session.url, digest)
        raise UnavailableError("another process opened a session meanwhile; try again")

    async def _end(self, session: str, instance_id: InstanceId) -> None:
        if not session:
            return
        try:
            await self._vendor.end_session(session)
        except HermesError as error:
            log.warning("connections_not_closed", agent=instance_id, why=error.message)

    async def _exchange(
        self, access: McpAccess, message: Message, headers: Mapping[str, str]
    ) -> AsyncIterator[McpAnswer | bytes]:
        key = self._vendor.key
        deadline = Deadline(self._call_s)
        timeout = httpx.Timeout(self._call_s, connect=_CONNECT_S)
        try:
            async with client(timeout=timeout) as asking:
                request = asking.build_request("POST", access.url, content=message.content, headers=_sent(headers, key))
                sending = asking.send(request, stream=True, follow_redirects=False)
                async with aclosing(await deadline.bound(sending)) as response:
                    yield _head(response, key)
                    body = AnswerBody(response, deadline=deadline, largest=LARGEST_ANSWER)
                    async for piece in without(body.pieces(), key.encode()):
                        yield piece
        except (httpx.HTTPError, UnreadableAnswerError) as error:
            raise UnavailableError(f"the vendor's answer broke off: {type(error).__name__}") from error


async def without(pieces: AsyncIterator[bytes], secret: bytes) -> AsyncIterator[bytes]:
    """Pass pieces on with stars in the place of a secret, also where it is split between two."""
    stars, held = b"*" * len(secret), b""
    async for piece in pieces:
        held = (held + piece).replace(secret, stars)
        keep = next((size for size in range(len(secret) - 1, 0, -1) if held.endswith(secret[:size])), 0)
        ready, held = held[: len(held) - keep], held[len(held) - keep :]
        if ready:
            yield ready
    if held:
        yield held


def _sent(headers: Mapping[str, str], key: str) -> dict[str, str]:
    """Headers of the request to the vendor: of the agent's own, those of the protocol alone."""
    sent = {
        "accept": "application/json, text/event-stream",
        "accept-encoding": "identity",
        "content-type": "application/json",
        KEY_HEADER: key,
    }
    for name in ("mcp-session-id", "mcp-protocol-version"):
        if _WORD.fullmatch(headers.get(name, "")):
            sent[name] = headers[name]
    return sent


def _head(response: httpx.Response, key: str) -> McpAnswer:
    """The head that an agent gets.

    Raises:
        SessionEndedError: See there.
        UnavailableError: The vendor takes no more calls, or its answer is none of the protocol.
    """
    status = response.status_code
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if status == HTTPStatus.NOT_FOUND:
        raise SessionEndedError("the session has ended")
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        raise UnavailableError("the vendor takes no more calls now")
    if status == HTTPStatus.ACCEPTED:
        return McpAnswer(status)
    if status != HTTPStatus.OK or kind not in _KINDS:
        log.warning("connections_call_failed", status=status)
        raise UnavailableError("the vendor's answer is none of the protocol")
    session = response.headers.get("mcp-session-id", "")
    is_usable = _WORD.fullmatch(session) and key not in session
    return McpAnswer(status, {"content-type": kind, **({"mcp-session-id": session} if is_usable else {})})
