"""Turns: one message of a user and the agent's answer to it."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from hermesops.model.ids import InstanceId, UserId


class TurnState(StrEnum):
    """Processing states of a turn."""

    QUEUED = "queued"
    """The agent was not asked yet."""

    SENDING = "sending"
    """The agent may have got the message: its answer to the request is not known."""

    RUNNING = "running"
    """The agent has the message."""

    DONE = "done"
    FAILED = "failed"
    """There is no answer, and the user was told why."""

    STOPPED = "stopped"
    """The user stopped it."""


ENDED = frozenset({TurnState.DONE, TurnState.FAILED, TurnState.STOPPED})
"""States that nothing follows."""


@dataclass(frozen=True)
class Turn:
    """A row of ``turns``.

    Attributes:
        conversation: The user's name of the conversation; the agent's session carries it.
        client_key: The client's own name of the request, unique for the user: repeating it opens no second turn.
        message: The user's text; empty once the turn has ended.
        transcript_mark: Id of the last message in the agent's transcript before this one was sent; 0 for none.
        run_id: The agent's name of the run; empty while it is not known.
        sent_at: When the message was last sent to the agent.
        detail: The reason of a failure, in words for the user.
    """

    id: str
    user_id: UserId
    instance_id: InstanceId
    conversation: str
    client_key: str
    message: str = field(repr=False)
    state: TurnState
    created_at: datetime
    transcript_mark: int = 0
    run_id: str = ""
    sent_at: datetime | None = None
    ended_at: datetime | None = None
    detail: str = ""

    @property
    def session(self) -> str:
        """The agent's session of the conversation."""
        return session_of(self.conversation)

    @property
    def has_ended(self) -> bool:
        """Whether nothing follows any more."""
        return self.state in ENDED


def session_of(conversation: str) -> str:
    """Name of the agent's session that holds a conversation of the web chat."""
    return f"web_{conversation}"
