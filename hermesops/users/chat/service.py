"""Web chat as the API offers it: begin a turn, read its events, stop it, answer its requests for approval.

Eligibility stands here once; every method takes the user whom the token names, and finds only that user's turns.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from hermesops.agents.relay.client import AgentBusyError, AgentEndedError, NoSuchThingError
from hermesops.base.foreign_json import in_thread
from hermesops.base.waiting import cancel, pause
from hermesops.errors import HermesError, RefusedError, UnavailableError, UsageError
from hermesops.model.chat.caller import CalledTask
from hermesops.model.chat.transcript import Message
from hermesops.model.chat.turn import Turn, TurnState, session_of
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId, UserId
from hermesops.store.user_rows.accounts import Account, UserAccounts
from hermesops.store.user_rows.approvals import Approval
from hermesops.users.chat.agent_runs import AgentRuns, spoken_in
from hermesops.users.chat.agent_runs import Conversation as Listed
from hermesops.users.chat.carrier import ENDED, ChatRows, TurnCarrier, shown_end
from hermesops.users.chat.conversations import Conversation, together
from hermesops.users.chat.decide import Finish
from hermesops.users.chat.events import STEP, ChatEvent, EventLog, place_of
from hermesops.users.chat.files import MOST, MOST_BYTES, SentFile, TooManyFilesError, refuse_too_many, with_texts

_MOST_SHOWN, _MOST_CHARACTERS = 2_000, 2_000_000
"""Messages of a conversation that are shown, the newest, and their characters together: a page of more is rendered
for so long that the process serves nobody meanwhile."""

LONGEST_MESSAGE = 100_000
"""Characters of a user's message, its text files included."""

MOST_OPEN = 2
"""Turns that a user may have at once: the relay carries four requests to an agent, and each turn is one."""

MOST_CALLED = 1
"""Turns of a user's that agents of others may have begun and that have not ended; they come beside the user's own."""

_SWEEP_S = 5.0
_FORGET_EVERY = 720
_LOOK_S = 2.0
"""Seconds after which a reader of a turn that another process carries looks at its row; twice as many each time."""

_LONGEST_LOOK_S = 15.0
_APPROVAL_S = 4.0
"""Seconds from the look at a request for approval to the agent: less than the agent waits for longer than the rows."""

_TITLES_S = 4.0
"""Seconds for an agent to name its conversations; the rows have them without titles. A page waits for this list."""


class NoAgentError(RefusedError):
    """The user has no agent, and none is being made."""


class AgentNotReadyError(UnavailableError):
    """The user's agent is being made."""


class AgentSuspendedError(RefusedError):
    """The user's agent does not run now."""


class ConversationBusyError(RefusedError):
    """The conversation has a turn that has not ended, or the user has too many."""


class NoSuchTurnError(UsageError):
    """The user has no such turn."""


class NoSuchConversationError(UsageError):
    """The user has no such conversation."""


class NotAskedError(RefusedError):
    """The turn waits for no such approval."""


@dataclass(frozen=True)
class Spoken:
    """The messages of a conversation.

    Attributes:
        messages: From the agent's transcript, oldest first.
        open_turn: The turn that has not ended; ``None`` for none.
        unanswered: The newest turn if it ended without an answer, so that whoever was away is told; else ``None``.
    """

    messages: Sequence[Message]
    open_turn: Turn | None
    unanswered: Turn | None


class Chat:
    """One user's chat with one agent, for every user."""

    def __init__(
        self, accounts: UserAccounts, rows: ChatRows, runs: AgentRuns, events: EventLog, carrier: TurnCarrier
    ) -> None:
        self._accounts = accounts
        self._rows = rows
        self._turns = rows.turns
        self._runs = runs
        self._events = events
        self._carrier = carrier
        self._carrying: dict[str, asyncio.Task[None]] = {}

    # Turns

    async def begin(
        self,
        user_id: UserId,
        conversation: str,
        client_key: str,
        message: str,
        files: Sequence[str] = (),
        *,
        task: CalledTask | None = None,
        sent: Sequence[SentFile] = (),
    ) -> Turn:
        """Begin a turn, or return the one that the client began with the same key; a task carries it.

        Args:
            files: Ids of files that the user uploaded for this message.
            task: The calling agent's, where one begins the turn.
            sent: Files that came with the message.

        Raises:
            NoAgentError: See there.
            AgentSuspendedError: See there.
            ConversationBusyError: See there.
            TooManyFilesError: See there; of files that came with the message.
            UsageError: A file is not there, or the message is too long with them.
        """
        account = await self.running(user_id)
        if known := await asyncio.to_thread(self._turns.of_key, user_id, client_key):
            self._carry_open(known)
            return known
        await self._refuse_busy(user_id, task)
        kept: list[str] = []
        try:
            await asyncio.to_thread(self._keep, user_id, sent, kept)
            turn = await self._add(
                (user_id, account.instance_id, conversation, client_key), message, [*files, *kept], task
            )
        finally:
            if kept:  # those that no turn has taken, so that a refused message leaves none
                with suppress(UnavailableError):
                    await asyncio.to_thread(self._rows.files.drop, kept)
        self._carry_open(turn)
        return turn

    async def _add(
        self,
        names: tuple[UserId, InstanceId, str, str],
        message: str,
        files: Sequence[str],
        task: CalledTask | None,
    ) -> Turn:
        """Add a turn; errors as of ``begin``.

        Args:
            names: Its user, agent, conversation and client's key.
        """
        user_id, _, conversation, _ = names
        most = MOST_OPEN if task is None else MOST_CALLED
        text = await asyncio.to_thread(self._text_with, user_id, message, files)
        turn = await asyncio.to_thread(self._turns.add, *names, text, files, task, most)
        if turn is None:
            await self._refuse_busy(user_id, task)  # others came in between
        if turn is None and files and not await asyncio.to_thread(self._turns.unfinished, user_id, conversation):
            raise UsageError("a file is not there any more; upload it again", field="files")
        if turn is None:
            raise ConversationBusyError("this conversation has an answer under way", hint="wait for it, or stop it")
        return turn

    async def events(self, turn: Turn, after: int) -> AsyncIterator[ChatEvent]:
        """Yield a turn's events behind position ``after``, those to come too, until the last one."""
        (position, has_hole), wait_s = place_of(after), _LOOK_S
        while True:
            for event in await self._events.after(turn.id, position, wait_s=wait_s):
                has_hole = has_hole or not event.follows(position)
                position, wait_s = event.id, _LOOK_S
                if not has_hole:
                    yield event
                elif event.kind != "delta":
                    yield event.behind_hole()
                if event.is_last:
                    return
            if turn.id in self._carrying:
                continue
            wait_s = min(2 * wait_s, _LONGEST_LOOK_S)
            try:
                present = await asyncio.to_thread(self._turns.get, turn.user_id, turn.id)
            except UnavailableError:  # whether it has ended is unknown: no reason to break every reader's stream off
                continue
            if present is None or (present.has_ended and not self._events.ends_after(turn.id, position)):
                last = await self._recalled(present or turn, position)
                if last is not None:
                    yield last
                    return

    async def turn(self, user_id: UserId, turn_id: str) -> Turn:
        """Find a turn of this user.

        Raises:
            NoSuchTurnError: See there.
        """
        turn = await asyncio.to_thread(self._turns.get, user_id, turn_id)
        if turn is None:
            raise NoSuchTurnError("there is no such turn")
        return turn

    async def exchanges(self, turns: Sequence[Turn]) -> Sequence[tuple[str, str]]:
        """The messages of turns that are done and the whole answers, from the agent's transcript, which is read once.

        Args:
            turns: Of one conversation.

        Raises:
            AgentEndedError: The agent does not run any more.
            UnavailableError: The agent does not answer.
        """
        if not turns:
            return ()
        transcript = await self._runs.transcript(turns[0].instance_id, turns[0].session)
        return await in_thread(lambda: [transcript.exchange_behind(turn.transcript_mark) for turn in turns])

    async def requests(self, turn: Turn) -> tuple[Approval, ...]:
        """The requests for approval of a turn, the oldest first."""
        return await asyncio.to_thread(self._rows.approvals.list, turn.id)

    async def stop(self, user_id: UserId, turn_id: str) -> Turn:
        """Stop a turn; one that has ended stays as it is. It ends once its agent has stopped.

        Raises:
            NoSuchTurnError: See there.
        """
        turn = await self.turn(user_id, turn_id)
        if turn.has_ended:
            return turn
        await asyncio.to_thread(self._turns.stop, user_id, turn_id)
        if turn.run_id:
            with suppress(HermesError):  # its carrier repeats it
                await self._runs.stop(turn)
        return turn

    async def approve(self, user_id: UserId, turn_id: str, number: int, choice: str) -> None:
        """Answer a request for approval, the oldest one that waits.

        Raises:
            NoSuchTurnError: See there.
            NotAskedError: The request was answered, or has expired, or an older one waits: nothing was sent.
            UsageError: The agent does not offer this choice.
            UnavailableError: The agent did not get the answer.
            UnknownOutcomeError: The agent may have got it.
        """
        turn = await self.turn(user_id, turn_id)
        approvals = self._rows.approvals
        requests = await asyncio.to_thread(approvals.list, turn.id)
        until = time.time() + _APPROVAL_S
        if any(each.number == number and each.is_waiting and choice not in each.choices for each in requests):
            raise UsageError("the agent does not offer this choice", field="choice")
        if turn.has_ended or not turn.run_id or not await asyncio.to_thread(approvals.answer, turn.id, number, choice):
            raise NotAskedError("this request for approval was answered already, or has expired")
        try:
            await self._runs.approve(turn, choice, until=until)
        except AgentBusyError:
            await asyncio.to_thread(approvals.unanswered, turn.id, number)
            raise
        except RefusedError as gone:
            raise NotAskedError("the agent does not wait for this approval any more") from gone

    # Conversations

    async def conversations(self, user_id: UserId) -> tuple[Conversation, ...]:
        """A user's conversations, the last used one first; without titles while the agent does not answer soon.

        Raises:
            NoAgentError: See there.
        """
        account = await self.account(user_id)
        rows = await asyncio.to_thread(self._turns.conversations, user_id)
        listed: Mapping[str, Listed] = {}
        with suppress(UnavailableError, RefusedError, TimeoutError):
            async with asyncio.timeout(_TITLES_S):
                listed = await self._runs.conversations(account.instance_id)
        return together(rows, listed)

    async def messages(self, user_id: UserId, conversation: str) -> Spoken:
        """The newest spoken messages of a conversation, from the agent's transcript, and the state of its newest turn.

        Raises:
            NoAgentError: See there.
            AgentSuspendedError: See there.
            UnavailableError: The agent does not answer.
        """
        account = await self.running(user_id)
        turn = await asyncio.to_thread(self._turns.newest, user_id, conversation)
        transcript = await self._runs.transcript(account.instance_id, session_of(conversation))
        open_turn = turn if turn and turn.ended_at is None else None
        unanswered = turn if turn and turn.state in {TurnState.FAILED, TurnState.STOPPED} else None
        return Spoken(_newest(spoken_in(transcript)), open_turn, unanswered)

    async def forget(self, user_id: UserId, conversation: str) -> None:
        """Delete a conversation at the agent.

        Raises:
            NoSuchConversationError: The agent has no such conversation.
            ConversationBusyError: It has a turn that has not ended.
        """
        account = await self.running(user_id)
        if await asyncio.to_thread(self._turns.unfinished, user_id, conversation):
            raise ConversationBusyError("this conversation has an answer under way", hint="wait for it, or stop it")
        is_there = True
        try:
            await self._runs.forget(account.instance_id, conversation)
        except NoSuchThingError:
            is_there = False
        await asyncio.to_thread(self._turns.forget_conversation, user_id, conversation)
        if not is_there:
            raise NoSuchConversationError("there is no such conversation")

    # Agents

    async def account(self, user_id: UserId) -> Account:
        """The user's agent.

        Raises:
            NoAgentError: See there.
        """
        account = await asyncio.to_thread(self._accounts.of_user, user_id)
        if account is None:
            raise NoAgentError("you have no agent", hint="subscribe to a plan")
        return account

    async def running(self, user_id: UserId) -> Account:
        """The user's agent, which takes requests.

        Raises:
            NoAgentError: See there.
            AgentNotReadyError: See there.
            AgentSuspendedError: See there.
        """
        account = await self.account(user_id)
        if account.status is InstanceStatus.PROVISIONING:
            raise AgentNotReadyError("your agent is being prepared")
        if account.status is not InstanceStatus.RUNNING:
            raise AgentSuspendedError(f"your agent is {account.status.value}")
        return account

    # The process

    async def run(self) -> None:
        """Carry turns that no process carries, as after a crash, until cancelled; forget old ones; share events."""
        sharing = asyncio.ensure_future(self._events.run())
        try:
            await asyncio.gather(sharing, self._sweep())
        finally:
            await cancel(sharing, *self._carrying.values())

    async def _sweep(self) -> None:
        for count in itertools.count():
            with suppress(UnavailableError):
                for turn_id in await asyncio.to_thread(self._turns.orphans):
                    self._carry(turn_id)
                if count % _FORGET_EVERY == 0:
                    await asyncio.to_thread(self._turns.forget)
            await pause(_SWEEP_S)

    async def _refuse_busy(self, user_id: UserId, task: CalledTask | None) -> None:
        count = await asyncio.to_thread(self._turns.open_count, user_id, of_callers=task is not None)
        if task is not None and count >= MOST_CALLED:
            raise ConversationBusyError("the agent works on another task", hint="try again when that has ended")
        if task is None and count >= MOST_OPEN:
            raise ConversationBusyError(f"your agent works on {MOST_OPEN} answers already", hint="wait for one of them")

    def _keep(self, user_id: UserId, files: Sequence[SentFile], kept: list[str]) -> None:
        """Add files that came with a message, and their ids to ``kept``, one after the other."""
        for file in files:
            added = self._rows.files.add(
                user_id, file.name, file.media_type, file.content, most=MOST, most_bytes=MOST_BYTES
            )
            if added is None:
                raise TooManyFilesError(f"{file.name}: too many files wait for a message already")
            kept.append(added.id)

    def _text_with(self, user_id: UserId, message: str, files: Sequence[str]) -> str:
        waiting = self._rows.files.waiting(user_id, files)
        refuse_too_many(waiting)
        text = with_texts(message.strip(), waiting)
        if len(text) > LONGEST_MESSAGE:
            raise UsageError(f"the message has more than {LONGEST_MESSAGE} characters with its files", field="files")
        return text

    async def _recalled(self, turn: Turn, position: int) -> ChatEvent | None:
        """The last event of a turn whose events are gone: its answer stands in the agent's transcript.

        ``None`` while the agent, or the relay, does not answer: an empty answer would be taken for the whole one.
        """
        finish = Finish(turn.state, detail=turn.detail)
        if turn.state is TurnState.DONE:
            try:
                transcript = await self._runs.transcript(turn.instance_id, turn.session)
            except AgentEndedError:
                finish = Finish(TurnState.FAILED, detail=ENDED)
            except UnavailableError:
                return None
            else:
                finish = Finish(turn.state, transcript.answer_behind(turn.transcript_mark))
        return ChatEvent(max(position, turn.carries * STEP) + 1, finish.state.value, shown_end(finish))

    def _carry_open(self, turn: Turn) -> None:
        if not turn.has_ended:
            self._carry(turn.id)

    def _carry(self, turn_id: str) -> None:
        if turn_id in self._carrying:
            return
        task = asyncio.ensure_future(self._carrier.carry(turn_id))
        self._carrying[turn_id] = task
        task.add_done_callback(lambda _: self._carrying.pop(turn_id, None))


def _newest(messages: Sequence[Message]) -> Sequence[Message]:
    """The newest messages, as many as a page takes. Pure."""
    lengths = itertools.accumulate(len(message.text) for message in reversed(messages[-_MOST_SHOWN:]))
    count = sum(length <= _MOST_CHARACTERS for length in lengths)
    return messages[len(messages) - count :]
