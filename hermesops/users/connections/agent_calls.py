"""Agents' calls to their services: who calls, how many at once, and the answer."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from hermesops.agents.relay.places import Most, Places
from hermesops.errors import HermesError, UnavailableError
from hermesops.serving.exchange import RefusedRequestError
from hermesops.store.user_rows.mcp_access import McpAccess
from hermesops.users.connections.mcp_messages import MalformedMessageError, Message, failure, rebuilt
from hermesops.users.connections.mcp_proxy import McpAnswer, McpProxy, UnknownAgentError

MOST = Most(at_once=64, per_caller=64, per_agent=4, bodies_bytes=32 << 20)
"""Calls at once, in one process."""

_CALLER = "mcp"


class BusyError(UnavailableError):
    """The agent, or all agents together, have too many calls under way."""


@dataclass(frozen=True)
class AgentCalls:
    """Takes agents' calls of tools, checks their tokens and passes them on."""

    proxy: McpProxy
    places: Places = field(default_factory=lambda: Places(MOST))

    async def take(
        self, agent: str, authorization: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[McpAnswer | bytes]:
        """Answer one call: the head first, then pieces of its body.

        Args:
            agent: Instance id, as the path has it; it has to be that of the token.
            authorization: The header.
            headers: Of the request, with names in lower case.

        Raises:
            UnknownAgentError: See there.
            HermesError: As ``McpProxy.call``, or the message is malformed; of a message with an id inside a session,
                the answer says so instead.
        """
        scheme, _, token = authorization.partition(" ")
        access = await self.proxy.agent_of(token.strip() if scheme.lower() == "bearer" else "")
        if access.instance_id != agent:
            raise UnknownAgentError("this token is another agent's")
        try:
            message = rebuilt(body)
        except MalformedMessageError as error:
            for piece in _failed(error.id, error):
                yield piece
            return
        answer = self._answered(access, message, headers, len(body))
        try:
            head = await anext(answer)
        except UnavailableError as error:
            for piece in _failed(None if message.is_first else message.id, error):
                yield piece
            return
        yield head
        async for piece in answer:
            yield piece

    async def _answered(
        self, access: McpAccess, message: Message, headers: Mapping[str, str], size: int
    ) -> AsyncIterator[McpAnswer | bytes]:
        agent = access.instance_id
        try:
            with self.places.of_caller(_CALLER), self.places.of_agent(agent), self.places.of_body(size):
                async for piece in self.proxy.call(access, message, headers):
                    yield piece
        except RefusedRequestError as refused:
            raise BusyError(refused.words) from None


def _failed(id_: str | int | None, error: HermesError) -> tuple[McpAnswer | bytes, ...]:
    """An answer of the protocol: a client takes another status for the end of its session, with all of its tools.

    Raises:
        HermesError: ``error``, where the message has no id that an answer could name.
    """
    if id_ is None:
        raise error
    words = error.message if isinstance(error, MalformedMessageError) else "the service is not available; try again"
    return McpAnswer(HTTPStatus.OK, {"content-type": "application/json"}), failure(id_, words)
