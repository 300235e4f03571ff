"""Transcripts of messengers' chats, as agents have them, through the relay.

Source: hermes-agent 0.19.0, ``gateway/platforms/api_server.py``, ``/api/sessions``: a session has its source and the id
of its user, which is the chat's name here.
"""

from collections.abc import Mapping
from typing import Any

from hermesops.agents.relay.client import RelayClient
from hermesops.model.chat.transcript import Message, Transcript
from hermesops.model.ids import InstanceId
from hermesops.users.chat.agent_runs import AgentRuns
from hermesops.users.messaging.recovery.reconcile import ChatView

_SOURCE = "relay"
_MOST_SESSIONS = 200
_READ = 2
"""Sessions of a chat that are read, the newest: a long one goes on in a new one."""


class ChatTranscripts:
    """Reads what agents have of chats."""

    def __init__(self, relay: RelayClient) -> None:
        self._relay = relay
        self._runs = AgentRuns(relay)

    async def read(self, instance_id: InstanceId, chat: str) -> ChatView:
        """The newest messages of a chat, none where the agent has no such chat, and whether the agent is at work.

        Raises:
            UnavailableError: The agent does not answer.
            RefusedError: There is no such agent, or it is suspended.
        """
        is_busy = _is_busy(await self._relay.get(instance_id, "/health/detailed"))  # first: work that ends is read then
        answer = await self._relay.get(instance_id, f"/api/sessions?source={_SOURCE}&limit={_MOST_SESSIONS}")
        messages: list[Message] = []
        for session in sessions_of(answer, chat)[-_READ:]:
            messages += (await self._runs.transcript(instance_id, session)).messages
        return ChatView(Transcript(tuple(sorted(messages, key=lambda message: message.id))), is_busy)


def sessions_of(answer: Mapping[str, Any], chat: str) -> list[str]:
    """Ids of the sessions of a chat, the newest last. Pure."""
    rows = answer.get("data")
    listed = [row for row in (rows[:_MOST_SESSIONS] if isinstance(rows, list) else []) if isinstance(row, dict)]
    own = [row for row in listed if row.get("user_id") == chat and isinstance(row.get("id"), str)]
    return [str(row["id"]) for row in sorted(own, key=_started)]


def _is_busy(health: Mapping[str, Any]) -> bool:
    """Whether the gateway is at a message; one that does not say so may be."""
    return health.get("active_agents") != 0


def _started(row: Mapping[str, Any]) -> float:
    started = row.get("started_at")
    return float(started) if isinstance(started, int | float) and not isinstance(started, bool) else 0.0
