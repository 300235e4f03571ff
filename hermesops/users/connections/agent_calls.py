"""Agents' calls to their services: who calls, how many at once, and the answer."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from hermesops.agents.relay.places import Most, Places
from hermesops.errors import UnavailableError
from hermesops.serving.exchange import RefusedRequestError
from hermesops.users.connections.mcp_messages import rebuilt
from hermesops.users.connections.mcp_proxy import McpAnswer, McpProxy, UnknownAgentError

MOST = Most(at_once=64, per_caller=64, per_agent=4, bodies_bytes=32 << 20)
"""Calls at once, in one process."""

_CALLER = "mcp"


class BusyError(UnavailableError):
    """The agent, or all agents together, have too many calls under way."""


@dataclass(frozen=True)
class AgentCalls:
    """Takes agents' calls."""

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
            MalformedMessageError: See there.
            BusyError: See there.
            HermesError: As ``McpProxy.call``.
        """
        scheme, _, token = authorization.partition(" ")
        access = await self.proxy.agent_of(token.strip() if scheme.lower() == "bearer" else "")
        if access.instance_id != agent:
            raise UnknownAgentError("this token is another agent's")
        try:
            with self.places.of_caller(_CALLER), self.places.of_agent(agent), self.places.of_body(len(body)):
                async for piece in self.proxy.call(access, rebuilt(body), headers):
                    yield piece
        except RefusedRequestError as refused:
            raise BusyError(refused.words) from None
