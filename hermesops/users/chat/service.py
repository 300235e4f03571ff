"""Web chat as the API offers it: begin a turn, read its events, stop it, answer its requests for approval.

Eligibility stands here once; every method takes the user whom the token names, and finds only that user's turns.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

from hermesops.errors import RefusedError, UsageError
from hermesops.model.chat.transcript import Message
from hermesops.model.chat.turn import Turn, TurnState, session_of
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import UserId
from hermesops.store.user_rows.accounts import Account, Accounts
from hermesops.store.user_rows.turns import Turns
from hermesops.users.chat.agent_runs import AgentRuns
from hermesops.users.chat.carrier import TurnCarrier
from hermesops.users.chat.events import ChatEvent, EventLog

LONGEST_MESSAGE = 100_000
"""Characters of a user's message."""


class NoAgentError(RefusedError):
    """The user has no agent."""


class AgentSuspendedError(RefusedError):
    """The user's agent does not run now."""


class ConversationBusyError(RefusedError):
    """The conversation has a turn that has not ended."""


class NoSuchTurnError(UsageError):
    """The user has no such turn."""


class Chat:
    """One user's chat with one agent, for every user."""

    def __init__(
        self, accounts: Accounts, turns: Turns, runs: AgentRuns, events: EventLog, carrier: TurnCarrier
    ) -> None:
        self._accounts = accounts
        self._turns = turns
        self._runs = runs
        self._events = events
        self._carrier = carrier
        self._carrying: set[asyncio.Task[None]] = set()

    async def begin(self, user_id: UserId, conversation: str, client_key: str, message: str) -> Turn:
        """Begin a turn, or return the one that the client began with the same key; a task carries it.

        Raises:
            NoAgentError: See there.
            AgentSuspendedError: See there.
            ConversationBusyError: See there.
        """
        account = await self._running(user_id)
        open_turn = await asyncio.to_thread(self._turns.unfinished, user_id, conversation)
        if open_turn is not None and open_turn.client_key != client_key:
            raise ConversationBusyError("this conversation has an answer under way", hint="wait for it, or stop it")
        turn = await asyncio.to_thread(
            self._turns.add, user_id, account.instance_id, conversation, client_key, message.strip()
        )
        if not turn.has_ended:
            self._carry(turn.id)
        return turn

    async def events(self, user_id: UserId, turn_id: str, after: int) -> AsyncIterator[ChatEvent]:
        """Yield a turn's events behind position ``after``, those to come too, until the last one.

        Raises:
            NoSuchTurnError: See there.
        """
        turn = await self.turn(user_id, turn_id)
        if turn.has_ended and not await self._events.has(turn.id):
            yield await self._recalled(turn)
            return
        async for event in self._events.read(turn.id, after):
            yield event

    async def stop(self, user_id: UserId, turn_id: str) -> Turn:
        """Stop a turn; one that has ended stays as it is. Raises as ``RelayClient.post`` and ``events``."""
        turn = await self.turn(user_id, turn_id)
        if not turn.has_ended and turn.run_id:
            await self._runs.stop(turn)
        return turn

    async def approve(self, user_id: UserId, turn_id: str, choice: str) -> None:
        """Answer the request for approval that a turn waits for. Raises as ``stop``.

        Raises:
            RefusedError: It waits for none.
        """
        turn = await self.turn(user_id, turn_id)
        if turn.state is not TurnState.RUNNING or not turn.run_id:
            raise RefusedError("this turn waits for no approval")
        await self._runs.approve(turn, choice)

    async def messages(self, user_id: UserId, conversation: str) -> Sequence[Message]:
        """The spoken messages of a conversation, from the agent's transcript.

        Raises:
            UnavailableError: The agent does not answer.
        """
        account = await self._running(user_id)
        transcript = await self._runs.transcript(account.instance_id, session_of(conversation))
        return [m for m in transcript.messages if m.text and (m.role == "user" or m.is_final)]

    async def carry_orphans(self) -> int:
        """Carry turns that no process carries, as after a crash; returns how many."""
        orphans = await asyncio.to_thread(self._turns.orphans)
        for turn in orphans:
            self._carry(turn.id)
        return len(orphans)

    async def _recalled(self, turn: Turn) -> ChatEvent:
        """The last event of a turn whose events are gone: its answer stands in the agent's transcript."""
        return ChatEvent(1, turn.state.value, {"detail": turn.detail, "conversation": turn.conversation})

    async def turn(self, user_id: UserId, turn_id: str) -> Turn:
        """Find a turn of this user.

        Raises:
            NoSuchTurnError: See there.
        """
        turn = await asyncio.to_thread(self._turns.get, user_id, turn_id)
        if turn is None:
            raise NoSuchTurnError("there is no such turn")
        return turn

    async def _running(self, user_id: UserId) -> Account:
        account = await asyncio.to_thread(self._accounts.of_user, user_id)
        if account is None:
            raise NoAgentError("you have no agent", hint="subscribe to a plan")
        if account.status is not InstanceStatus.RUNNING:
            raise AgentSuspendedError(f"your agent is {account.status.value}")
        return account

    def _carry(self, turn_id: str) -> None:
        task = asyncio.ensure_future(self._carrier.carry(turn_id))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)
