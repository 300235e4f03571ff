"""The protocol's methods over the services: each finds only the tasks of the caller whose key the request has."""

import asyncio
import time
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import cast
from uuid import uuid4

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler, validate_request_params
from a2a.types.a2a_pb2 import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError, UnsupportedOperationError

from hermesops.a2a.cards import card_of
from hermesops.a2a.messages import content_of, refuse_other_outputs
from hermesops.a2a.pages import page_of
from hermesops.a2a.pushes import config_of, push_of
from hermesops.a2a.refusals import answering, not_cancelable, streaming
from hermesops.a2a.rendering import STATES, Events, ends_stream, task_of
from hermesops.model.chat.caller import Caller
from hermesops.model.chat.turn import TurnState
from hermesops.serving.limits import Limits
from hermesops.users.callers.pushes import TaskNotices
from hermesops.users.callers.service import Callers
from hermesops.users.callers.tasks import AgentTask, AgentTasks, TaskEndedError

CALLER, ADDRESS = "caller", "address"
"""Names in the state of a call: the caller, and the agent's address."""

_LONGEST_WAIT_S = 75.0
"""Seconds until a call that waits for its task's end is answered with the task as it stands: proxies on the way end a
connection that is silent for longer. The protocol lets such a call wait without end."""

_CHECK_S = 30.0
"""Seconds after which a stream looks whether its caller's key still counts, before it passes anything on."""

Update = Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent | Message


class Handler(RequestHandler):
    """Answers the methods of the protocol.

    Args:
        limits: Counts each caller's requests.
    """

    def __init__(self, callers: Callers, tasks: AgentTasks, notices: TaskNotices, limits: Limits) -> None:
        self._callers = callers
        self._tasks = tasks
        self._notices = notices
        self._limits = limits

    @validate_request_params
    @answering
    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task:
        """Begin a task, or answer one that waits; wait until it has ended or waits for the caller."""
        caller = caller_of(context)
        task = await self._sent(caller, params)
        if not params.configuration.return_immediately:
            await self._wait(caller, task)
            task = await self._tasks.get(caller, task.turn.id)
        return task_of(task, may_approve=caller.may_approve, has_history=_has_history(params.configuration))

    @validate_request_params
    @streaming
    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Update]:
        """Begin a task, or answer one that waits; yield it and its updates."""
        caller = caller_of(context)
        self._limits.refuse_stream(caller.id)
        task = await self._sent(caller, params)
        async for update in self._updates(caller, task):
            yield update

    @validate_request_params
    @streaming
    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Update]:
        """Yield a task that has not ended, and its updates from its begin on."""
        caller = caller_of(context)
        self._limits.refuse_stream(caller.id)
        task = await self._tasks.get(caller, params.id)
        if task.turn.has_ended:
            raise UnsupportedOperationError("the task has ended")
        async for update in self._updates(caller, task, waits=True):
            yield update

    @validate_request_params
    @answering
    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        """Show a task, with its answer."""
        caller = caller_of(context)
        task = await self._tasks.get(caller, params.id)
        return task_of(task, may_approve=caller.may_approve, has_history=_has_history(params))

    @answering
    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """List the caller's tasks, the newest first."""
        caller, page = caller_of(context), page_of(params)
        has_history = params.history_length > 0  # of agents' transcripts, which are read one by one
        tasks, count = await self._tasks.list(
            caller,
            context=params.context_id,
            states=_states(params.status),
            since=_since(params),
            offset=page.offset,
            limit=page.size,
            are_answers_read=params.include_artifacts or has_history,
        )
        return ListTasksResponse(
            tasks=[
                task_of(
                    task,
                    may_approve=caller.may_approve,
                    has_artifacts=params.include_artifacts,
                    has_history=has_history,
                )
                for task in tasks
            ],
            next_page_token=page.token_of_next(count),
            page_size=page.size,
            total_size=count,
        )

    @validate_request_params
    @answering
    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        """Stop a task."""
        caller = caller_of(context)
        try:
            return task_of(await self._tasks.cancel(caller, params.id), may_approve=caller.may_approve)
        except TaskEndedError as ended:
            raise not_cancelable(ended) from ended

    @answering
    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Have an address notified of a task."""
        caller = caller_of(context)
        self._limits.admit(caller.id, "change")  # each has a host tried at once
        task = await self._tasks.get(caller, params.task_id, is_answer_read=False)
        push = push_of(params, task.turn.id, params.id or str(uuid4()))
        await self._notices.put(caller, push)
        return config_of(push)

    @validate_request_params
    @answering
    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Show an address of a task."""
        for config in await self._configs(caller_of(context), params.task_id):
            if config.id == params.id:
                return config
        raise TaskNotFoundError("no push notification configuration has this id")

    @validate_request_params
    @answering
    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        """List the addresses of a task; they are few, and come at once."""
        return ListTaskPushNotificationConfigsResponse(configs=await self._configs(caller_of(context), params.task_id))

    @validate_request_params
    @answering
    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        """Have an address not notified any more; one that is gone is no error."""
        task = await self._tasks.get(caller_of(context), params.task_id, is_answer_read=False)
        await self._notices.delete(task, params.id)

    @answering
    async def on_get_extended_agent_card(
        self,
        params: GetExtendedAgentCardRequest,  # noqa: ARG002 - as the base has it
        context: ServerCallContext,
    ) -> AgentCard:
        """Show the card, which is the same with and without a key."""
        return card_of(str(context.state[ADDRESS]))

    async def _sent(self, caller: Caller, params: SendMessageRequest) -> AgentTask:
        """The task of a message: a new one, or the one that it answers."""
        self._limits.admit(caller.id, "turn")
        message = params.message
        text, files = content_of(message)
        refuse_other_outputs(params.configuration)
        if message.task_id:
            return await self._answered(caller, message, text)
        push = None
        if params.configuration.HasField("task_push_notification_config"):
            push = params.configuration.task_push_notification_config
            self._notices.refuse(caller, push_of(push, "", push.id or str(uuid4())))
        task = await self._tasks.begin(caller, message.context_id or str(uuid4()), message.message_id, text, files)
        if push is not None:
            await self._notices.put(caller, push_of(push, task.turn.id, push.id or str(uuid4())))
        return task

    async def _answered(self, caller: Caller, message: Message, text: str) -> AgentTask:
        task = await self._tasks.get(caller, message.task_id, is_answer_read=False)
        if message.context_id and message.context_id != task.context:
            raise InvalidParamsError("the task belongs to another context")
        return await self._tasks.answer(caller, message.task_id, text)

    async def _wait(self, caller: Caller, task: AgentTask) -> None:
        """Return when the task has ended, waits for its caller, or has taken too long for one request."""
        if task.turn.has_ended or (task.request is not None and caller.may_approve):
            return
        try:
            async with asyncio.timeout(_LONGEST_WAIT_S):
                async for event in self._tasks.events(task):
                    if ends_stream(event, may_approve=caller.may_approve):
                        return
        except TimeoutError:
            return

    async def _updates(self, caller: Caller, task: AgentTask, *, waits: bool = False) -> AsyncGenerator[Update]:
        """The task, then its updates until it has ended, or, unless it ``waits``, is up to the caller."""
        with self._limits.stream(caller.id):
            yield task_of(task, may_approve=caller.may_approve, has_artifacts=task.turn.has_ended)
            if task.turn.has_ended:
                return
            rendering, checked = Events(task, may_approve=caller.may_approve), time.monotonic()
            async for event in self._tasks.events(task):
                if time.monotonic() - checked > _CHECK_S:
                    if not await self._callers.is_live(caller):
                        return
                    checked = time.monotonic()
                for update in rendering.of(event):
                    yield update
                if ends_stream(event, may_approve=caller.may_approve and not waits):
                    return

    async def _configs(self, caller: Caller, task_id: str) -> list[TaskPushNotificationConfig]:
        task = await self._tasks.get(caller, task_id, is_answer_read=False)
        return [config_of(push) for push in await self._notices.list(task)]


def caller_of(context: ServerCallContext) -> Caller:
    """The caller whose key a call has."""
    return cast("Caller", context.state[CALLER])


def _has_history(params: GetTaskRequest | SendMessageConfiguration) -> bool:
    """Whether a caller gets a task's messages: unless it wants none. Source: section 3.2.4."""
    return not params.HasField("history_length") or params.history_length > 0


def _since(params: ListTasksRequest) -> datetime | None:
    """The earliest state that a caller wants listed; ``None`` for any."""
    if not params.HasField("status_timestamp_after"):
        return None
    try:
        return params.status_timestamp_after.ToDatetime(UTC)
    except (ValueError, OverflowError):
        raise InvalidParamsError("status_timestamp_after is not a valid timestamp") from None


def _states(state: TaskState) -> frozenset[TurnState] | None:
    """The states of turns that a filter means; ``None`` where there is none. A task that waits counts as working."""
    if state == TaskState.TASK_STATE_UNSPECIFIED:
        return None
    return frozenset(turn for turn, rendered in STATES.items() if rendered == state)
