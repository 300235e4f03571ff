"""Tasks and their events in the protocol's types. Pure.

Source: A2A specification 1.0, sections 3.1.2 and 4.1.
"""

from collections.abc import Iterator
from datetime import datetime

from a2a.types.a2a_pb2 import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

from hermesops.model.chat.turn import Turn, TurnState
from hermesops.users.callers.tasks import AgentTask
from hermesops.users.chat.events import ChatEvent

STATES = {
    TurnState.QUEUED: TaskState.TASK_STATE_SUBMITTED,
    TurnState.SENDING: TaskState.TASK_STATE_SUBMITTED,
    TurnState.RUNNING: TaskState.TASK_STATE_WORKING,
    TurnState.DONE: TaskState.TASK_STATE_COMPLETED,
    TurnState.FAILED: TaskState.TASK_STATE_FAILED,
    TurnState.STOPPED: TaskState.TASK_STATE_CANCELED,
}
ANSWER = "answer"
"""Id of the artifact that holds the agent's answer."""

OWNER = "The agent waits until its user approves an action."


def task_of(task: AgentTask, *, may_approve: bool, has_artifacts: bool = True, has_history: bool = False) -> Task:
    """A task as it stands.

    Args:
        has_history: Whether the message that began it is shown. Approvals of its actions are kept nowhere, and its
            answer is an artifact (section 3.7).
    """
    turn = task.turn
    artifacts = [_artifact(turn, task.answer)] if task.answer is not None and has_artifacts else []
    return Task(
        id=turn.id,
        context_id=task.context,
        status=_status(task, may_approve=may_approve),
        artifacts=artifacts,
        history=[_first(task)] if has_history and task.message_id and task.message else [],
    )


def _first(task: AgentTask) -> Message:
    return Message(
        message_id=task.message_id,
        role=Role.ROLE_USER,
        task_id=task.turn.id,
        context_id=task.context,
        parts=[Part(text=task.message)],
    )


def _status(task: AgentTask, *, may_approve: bool) -> TaskStatus:
    turn, state, words = task.turn, STATES[task.turn.state], task.turn.detail
    if task.request is not None:
        state = TaskState.TASK_STATE_INPUT_REQUIRED if may_approve else TaskState.TASK_STATE_WORKING
        words = request_words(task.request.request) if may_approve else OWNER
    return _made_status(task, state, words, turn.ended_at or turn.sent_at or turn.created_at)


class Events:
    """Renders the events of one task, in their order.

    Args:
        may_approve: Whether the task's caller may answer its requests for approval.
    """

    def __init__(self, task: AgentTask, *, may_approve: bool) -> None:
        self._task = task
        self._may_approve = may_approve
        self._pieces: list[str] = []

    def of(self, event: ChatEvent) -> Iterator[TaskArtifactUpdateEvent | TaskStatusUpdateEvent]:
        """The updates that an event makes: the same ones for each reader, so that none has the time of its reading."""
        match event.kind:
            case "delta":
                text = str(event.data["text"])
                yield self._update(text, append=bool(self._pieces), is_last=False)
                self._pieces.append(text)
            case "approval" if self._may_approve:
                yield self._state(TaskState.TASK_STATE_INPUT_REQUIRED, request_words(event.data))
            case "approval":
                yield self._state(TaskState.TASK_STATE_WORKING, OWNER)
            case "resolved":
                yield self._state(TaskState.TASK_STATE_WORKING, "")
            case "done":
                yield from self._done(str(event.data.get("text", "")))
            case "failed":
                yield self._state(TaskState.TASK_STATE_FAILED, str(event.data.get("detail", "")))
            case "stopped":
                yield self._state(TaskState.TASK_STATE_CANCELED, "")

    def _done(self, text: str) -> Iterator[TaskArtifactUpdateEvent | TaskStatusUpdateEvent]:
        """The end of the answer: what the pieces lack, or the whole of it where they are no begin of it."""
        pieces = "".join(self._pieces)
        is_begin = bool(self._pieces) and text.startswith(pieces)
        yield self._update(text.removeprefix(pieces) if is_begin else text, append=is_begin, is_last=True)
        yield self._state(TaskState.TASK_STATE_COMPLETED, "")

    def _update(self, text: str, *, append: bool, is_last: bool) -> TaskArtifactUpdateEvent:
        turn = self._task.turn
        return TaskArtifactUpdateEvent(
            task_id=turn.id,
            context_id=self._task.context,
            artifact=_artifact(turn, text),
            append=append,
            last_chunk=is_last,
        )

    def _state(self, state: TaskState, words: str) -> TaskStatusUpdateEvent:
        status = _made_status(self._task, state, words)
        return TaskStatusUpdateEvent(task_id=self._task.turn.id, context_id=self._task.context, status=status)


def ends_stream(event: ChatEvent, *, may_approve: bool) -> bool:
    """Whether a caller's stream ends behind an event: the task has ended, or waits for the caller."""
    return event.is_last or (event.kind == "approval" and may_approve)


def request_words(request: object) -> str:
    """A request for approval in words, with the command as it would be run."""
    fields = request if isinstance(request, dict) else {}
    command, description = str(fields.get("command", "")), str(fields.get("description", ""))
    return "\n\n".join(filter(None, [description, command, "Answer yes or no."]))


def _artifact(turn: Turn, text: str) -> Artifact:
    return Artifact(artifact_id=f"{ANSWER}-{turn.id}", name=ANSWER, parts=[Part(text=text, media_type="text/markdown")])


def _made_status(task: AgentTask, state: TaskState, words: str, at: datetime | None = None) -> TaskStatus:
    status = TaskStatus(state=state)
    if at is not None:
        status.timestamp.FromDatetime(at)
    if words:
        message_id = f"{task.turn.id}-{TaskState.Name(state)}"
        status.message.CopyFrom(
            Message(
                message_id=message_id,
                role=Role.ROLE_AGENT,
                task_id=task.turn.id,
                context_id=task.context,
                parts=[Part(text=words)],
            )
        )
    return status
