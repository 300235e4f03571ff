"""Looks into messages of which nothing was heard: delivers answers that were lost, and sends lost messages again."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

import structlog

from hermesops.base.fan_out import Limits, fan_out
from hermesops.errors import HermesError
from hermesops.model.ids import InstanceId, UserId
from hermesops.model.messaging.message import Incoming, IncomingState
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.store.message_rows.outgoing import Draft, OutgoingMessages
from hermesops.users.messaging.inbound.routing import Agent
from hermesops.users.messaging.recovery import lifecycle
from hermesops.users.messaging.recovery.reconcile import (
    LATE,
    LONGEST,
    ChatView,
    GiveUp,
    Outcome,
    Recover,
    SendAgain,
    is_due,
    reconcile,
)
from hermesops.users.messaging.texts.parts import parts_of

NO_ANSWER = "Your agent did not answer this message. It may have done part of it: ask before you send it again."

RECOVERED = "recovered"
"""Detail of a message whose answer was read from the transcript: the agent's own, if it comes, is not sent as well."""

UNNAMED = "unnamed"
"""Detail of a message whose answer the agent brought as an answer to nothing."""

_LIMITS = Limits(at_once=16, slow_after_s=5.0, within_s=30.0)

ReadChat = Callable[[InstanceId, str], Awaitable[ChatView]]
"""Reads what an agent has of a chat, by the chat's name; raises where the agent does not answer."""

AgentOf = Callable[[UserId], Agent | None]
"""The present agent of a user; ``None`` for none."""

log = structlog.get_logger()


@dataclass(frozen=True)
class Sweep:
    """The sweep of messages under way."""

    incoming: IncomingMessages
    outgoing: OutgoingMessages
    read_chat: ReadChat
    agent_of: AgentOf

    async def run_all(self, fence_of: Callable[[InstanceId], int]) -> None:
        """Look into the messages of all agents; one that does not answer delays no other.

        Args:
            fence_of: The fence of an agent's present socket; 0 for none.
        """
        agents = sorted(await asyncio.to_thread(self.incoming.agents_at_work))
        await fan_out(agents, lambda agent: self.run(agent, fence_of(agent)), _LIMITS)

    async def run(self, instance_id: InstanceId, fence: int) -> int:
        """Look into the messages of an agent; returns the number of those that changed.

        Args:
            fence: Of its present socket; 0 for none.
        """
        changed, now = 0, await asyncio.to_thread(self.incoming.now)
        for incoming in await asyncio.to_thread(self.incoming.waiting, instance_id):
            outcome = await asyncio.to_thread(self._ending, incoming, fence)
            if outcome is None and now - incoming.received_at >= LONGEST:
                outcome = GiveUp("agent away")
            changed += outcome is not None and await asyncio.to_thread(self._carry_out, incoming, outcome)
        for command in await asyncio.to_thread(self.incoming.commands, instance_id):
            if now - command.received_at > LATE:
                changed += await asyncio.to_thread(self.incoming.end, command.id, IncomingState.DEAD, "late")
        for incoming in await asyncio.to_thread(self.incoming.under_way, instance_id):
            if is_due(incoming, fence, now):
                changed += await self._look_into(instance_id, incoming, now, fence)
        return changed

    async def _look_into(self, instance_id: InstanceId, incoming: Incoming, now: datetime, fence: int) -> bool:
        outcome = await asyncio.to_thread(self._ending, incoming, fence)
        if outcome is None:
            outcome = reconcile(incoming, await self._read(instance_id, incoming.chat), now)
        return await asyncio.to_thread(self._carry_out, incoming, outcome)

    def _ending(self, incoming: Incoming, fence: int) -> Outcome | None:
        agent = self.agent_of(incoming.user_id) if incoming.user_id else None
        return lifecycle.ending(incoming, agent, has_socket=fence > 0)

    async def _read(self, instance_id: InstanceId, chat: str) -> ChatView | None:
        try:
            return await self.read_chat(instance_id, chat)
        except HermesError as error:
            log.info("chat_not_read", instance=instance_id, why=error.message)
            return None

    def _carry_out(self, incoming: Incoming, outcome: Outcome) -> bool:
        match outcome:
            case Recover(text):
                return self._recover(incoming, text)
            case GiveUp(why):
                log.warning("message_given_up", instance=incoming.instance_id, message=incoming.id, why=why)
                text = lifecycle.words(incoming, why) or NO_ANSWER
                return self._answer(incoming, text, IncomingState.DEAD, why)
            case SendAgain():
                return self.incoming.queue_again(incoming.id)
        return False

    def _recover(self, incoming: Incoming, text: str) -> bool:
        """Deliver an answer, unless the agent itself has brought it as an answer to nothing."""
        if parts_of(incoming.messenger, text) in self.outgoing.unnamed(incoming):
            return self.incoming.end(incoming.id, IncomingState.ANSWERED, UNNAMED)
        log.info("answer_recovered", instance=incoming.instance_id, message=incoming.id)
        return self._answer(incoming, text, IncomingState.ANSWERED, RECOVERED)

    def _answer(self, incoming: Incoming, text: str, state: IncomingState, detail: str) -> bool:
        parts = parts_of(incoming.messenger, text)
        origin = f"sweep/{incoming.id}"
        draft = Draft(
            origin, incoming.messenger, incoming.vendor_chat, parts, incoming.instance_id, incoming_id=incoming.id
        )
        return self.outgoing.end_with(draft, state, detail)
