"""Turns: one message of a user and the agent's answer to it."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from hermesops.model.ids import InstanceId, UserId


class TurnState(StrEnum):
    """Processing states of a turn of the web chat."""

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
        stop_at: When the user wanted it stopped.
        is_lost: Whether its message cannot be read any more, as where the key that sealed it is gone.
        carries: How many processes have carried it; events of a later one follow those of an earlier one.
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
    stop_at: datetime | None = None
    carries: int = 0
    is_lost: bool = False
    ended_at: datetime | None = None
    detail: str = ""

    @property
    def session(self) -> str:
        """The agent's session of the conversation."""
        return session_of(self.conversation)

    @property
    def has_ended(self) -> bool:
        """Whether the turn has ended and no event follows."""
        return self.state in ENDED


_WEB = "web_"


def session_of(conversation: str) -> str:
    """Name of the agent's session that holds a conversation of the web chat."""
    return f"{_WEB}{conversation}"


def conversation_of(session: str) -> str | None:
    """The web chat's conversation that an agent's session holds; ``None`` for a session of something else."""
    name = session.removeprefix(_WEB)
    return name if name != session and CONVERSATION.fullmatch(name) else None


CONVERSATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""Names of conversations, and clients' keys of requests."""
