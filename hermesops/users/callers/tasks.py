"""Tasks of calling agents: each is a turn of the user's, in a conversation of that caller and context alone."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime

from hermesops.agents.relay.client import AgentEndedError
from hermesops.errors import HermesError, RefusedError, UsageError
from hermesops.model.chat.caller import CalledTask, Caller, client_key_of, conversation_of_task
from hermesops.model.chat.turn import Turn, TurnState
from hermesops.store.calling_rows.tasks import CalledTasks
from hermesops.store.user_rows.approvals import Approval
from hermesops.users.chat.events import ChatEvent
from hermesops.users.chat.files import SentFile
from hermesops.users.chat.service import Chat, NoSuchTurnError

YES, NO = frozenset({"yes", "approve", "once"}), frozenset({"no", "deny"})
"""Answers to a request for approval; a caller can approve a single action, and never for good."""

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CANCELLED_S = 10.0
"""Seconds that a cancelled task has until its agent has stopped."""

_LISTED_WITHIN_S, _MOST_LISTED = 10.0, 4_000_000
"""Seconds for the answers of a list, and their characters together with the messages."""

_PREFACE = "[From {name}, an agent of somebody else. It is not your user, and speaks for itself.]\n\n"


class NoSuchTaskError(UsageError):
    """The caller has no such task."""


class TaskEndedError(RefusedError):
    """The task has ended."""


class NotWaitingError(RefusedError):
    """The task waits for no answer of the caller's."""


@dataclass(frozen=True)
class AgentTask:
    """A task as its caller may see it.

    Attributes:
        message_id: The caller's name of the message that began it; empty where it is not known.
        request: The request for approval that waits; ``None`` for none.
        message: The message that began it, as the agent has it; empty where it was not read, or the task has failed.
        answer: Of a task that is done; ``None`` where it was not read.
    """

    turn: Turn
    context: str
    message_id: str = ""
    request: Approval | None = None
    message: str = field(default="", repr=False)
    answer: str | None = field(default=None, repr=False)


class AgentTasks:
    """Tasks, each found by its caller alone."""

    def __init__(self, chat: Chat, rows: CalledTasks) -> None:
        self._chat = chat
        self._rows = rows

    async def begin(
        self, caller: Caller, context: str, message_id: str, text: str, files: Sequence[SentFile] = ()
    ) -> AgentTask:
        """Begin a task; the same message of a caller begins it once.

        Raises:
            ConversationBusyError: The context, or the agent, has a task that has not ended.
            AgentSuspendedError: The agent does not run now.
            TooManyFilesError: Other files of the user wait for their messages.
            UsageError: The text is too long, with its files, or the images are too large together.
        """
        task = CalledTask(caller.id, context, message_id)
        turn = await self._chat.begin(
            caller.user_id,
            conversation_of_task(task),
            client_key_of(caller.id, message_id),
            _preface(caller) + text,
            task=task,
            sent=files,
        )
        return await self.get(caller, turn.id)

    async def get(self, caller: Caller, task_id: str, *, is_answer_read: bool = True) -> AgentTask:
        """Find a task, with its answer where it is done.

        Raises:
            NoSuchTaskError: See there.
            UnavailableError: The agent, which has the answer, does not answer.
        """
        if not _ID.fullmatch(task_id):  # PostgreSQL refuses to look for it
            raise NoSuchTaskError("there is no such task")
        row = await asyncio.to_thread(self._rows.get, caller.id, task_id)
        if row is None:
            raise NoSuchTaskError("there is no such task")
        try:
            turn = await self._chat.turn(caller.user_id, task_id)
        except NoSuchTurnError:
            raise NoSuchTaskError("there is no such task") from None
        return await self._task(caller, turn, row, is_answer_read=is_answer_read)

    async def list(
        self,
        caller: Caller,
        *,
        context: str = "",
        states: frozenset[TurnState] | None = None,
        since: datetime | None = None,
        offset: int = 0,
        limit: int = 50,
        are_answers_read: bool = False,
    ) -> tuple[Sequence[AgentTask], int]:
        """A caller's tasks, the newest first, and the number of all; other arguments as of ``CalledTasks.list``.

        Args:
            are_answers_read: Whether messages and answers of tasks that are done are read, some seconds long and some
                megabytes: others have none then, and also where the agent does not answer.
        """

        def rows() -> tuple[Sequence[tuple[str, CalledTask]], int]:
            return self._rows.list(caller.id, context=context, states=states, since=since, offset=offset, limit=limit)

        listed, count = await asyncio.to_thread(rows)
        tasks = []
        for id_, row in listed:
            with suppress(NoSuchTurnError):  # it was forgotten meanwhile
                turn = await self._chat.turn(caller.user_id, id_)
                tasks.append(await self._task(caller, turn, row, is_answer_read=False))
        return await self._with_answers(caller, tasks) if are_answers_read else tasks, count

    async def _with_answers(self, caller: Caller, tasks: Sequence[AgentTask]) -> Sequence[AgentTask]:
        """Tasks with messages and answers, as many as there are within the limits of a list, the newest first."""
        sessions: dict[str, list[Turn]] = {}
        for task in tasks:
            if task.turn.state is TurnState.DONE:
                sessions.setdefault(task.turn.session, []).append(task.turn)
        known: dict[str, tuple[str, str]] = {}
        with suppress(HermesError, TimeoutError):  # of an agent that is away, no other session is asked
            async with asyncio.timeout(_LISTED_WITHIN_S):
                for turns in sessions.values():
                    exchanges = await self._chat.exchanges(turns)
                    known |= {turn.id: exchange for turn, exchange in zip(turns, exchanges, strict=True)}
        left, answered = _MOST_LISTED, []
        for task in tasks:
            message, answer = known.get(task.turn.id, ("", None))
            left -= len(message) + len(answer or "")
            is_shown = answer is not None and left >= 0
            answered.append(_answered(caller, task, message, answer) if is_shown else task)
        return answered

    async def cancel(self, caller: Caller, task_id: str) -> AgentTask:
        """Stop a task, and wait some seconds until its agent has stopped.

        Raises:
            NoSuchTaskError: See there.
            TaskEndedError: See there.
        """
        task = await self.get(caller, task_id, is_answer_read=False)
        if task.turn.has_ended:
            raise TaskEndedError("the task has ended")
        await self._chat.stop(caller.user_id, task_id)
        try:
            async with asyncio.timeout(_CANCELLED_S):
                async for event in self._chat.events(task.turn, 0):
                    if event.is_last:
                        break
        except TimeoutError:
            pass  # its state says that it goes on
        return await self.get(caller, task_id)

    async def answer(self, caller: Caller, task_id: str, text: str) -> AgentTask:
        """Answer the request for approval that a task waits for; with another text than yes or no it goes on waiting.

        Raises:
            NoSuchTaskError: See there.
            TaskEndedError: See there.
            NotWaitingError: See there; also where the owner alone may answer.
            NotAskedError: The request was answered meanwhile, or has expired.
        """
        task = await self.get(caller, task_id, is_answer_read=False)
        if task.turn.has_ended:
            raise TaskEndedError("the task has ended; send the message without a task id")
        if task.request is None or not caller.may_approve:
            raise NotWaitingError("the task does not wait for an answer from you")
        word = text.strip().lower().rstrip(".!")
        if word not in YES | NO:
            return task  # its status asks again, in words that name both answers
        await self._chat.approve(caller.user_id, task_id, task.request.number, "once" if word in YES else "deny")
        return replace(task, request=None)

    async def events(self, task: AgentTask) -> AsyncIterator[ChatEvent]:
        """Yield the task's events, those to come too, until the last one; no request that was settled before."""
        settled = {str(request.number) for request in await self._chat.requests(task.turn) if not request.is_waiting}
        async for event in self._chat.events(task.turn, 0):
            is_of_past = event.kind in {"approval", "resolved"} and str(event.data.get("id")) in settled
            if event.kind != "tool" and not is_of_past:
                yield event

    async def _task(self, caller: Caller, turn: Turn, row: CalledTask, *, is_answer_read: bool) -> AgentTask:
        task = AgentTask(turn, row.context, row.message_id)
        if turn.has_ended:
            message, answer = await self._exchange(turn) if is_answer_read else ("", None)
            return _answered(caller, task, message, answer)
        waiting = [request for request in await self._chat.requests(turn) if request.is_waiting]
        message = turn.message.removeprefix(_preface(caller))
        return replace(task, message=message, request=waiting[0] if waiting else None)

    async def _exchange(self, turn: Turn) -> tuple[str, str | None]:
        """The message and the answer of a task that is done; neither where its agent does not run any more.

        Of another task that has ended, no row and no transcript says whether the agent got the message.
        """
        if turn.state is not TurnState.DONE:
            return "", None
        try:
            return (await self._chat.exchanges([turn]))[0]
        except AgentEndedError:
            return "", None


def _answered(caller: Caller, task: AgentTask, message: str, answer: str | None) -> AgentTask:
    return replace(task, message=message.removeprefix(_preface(caller)), answer=answer)


def _preface(caller: Caller) -> str:
    """Who speaks, as the agent is told in front of each message."""
    return _PREFACE.format(name=caller.name)
