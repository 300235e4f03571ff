"""The agent's view of a conversation, as its API answers it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class RunState(StrEnum):
    """States of a run, as hermes-agent 0.19.0 answers ``GET /v1/runs/{id}``."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING_FOR_APPROVAL = "waiting_for_approval"
    STOPPING = "stopping"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Run:
    """A run of the agent.

    Attributes:
        output: The answer, of a completed one.
        error: Words of the agent about a failed one.
    """

    state: RunState
    output: str = field(default="", repr=False)
    error: str = field(default="", repr=False)


@dataclass(frozen=True)
class Message:
    """A message of the agent's transcript.

    Attributes:
        id: Grows with each message of the agent.
        is_final: Whether an assistant's message ends a turn, and calls no tool.
        at: ``None`` where the agent does not say.
    """

    id: int
    role: str
    text: str = field(repr=False)
    is_final: bool = False
    at: datetime | None = None


@dataclass(frozen=True)
class Transcript:
    """Messages of one session, oldest first."""

    messages: Sequence[Message] = ()

    @property
    def mark(self) -> int:
        """Id of the last message; 0 for none."""
        return self.messages[-1].id if self.messages else 0

    def question_after(self, mark: int, text: str) -> Message | None:
        """The user's message with this text after a mark, else the first one there.

        An agent may store a message in other words, as with a note for each image, and a conversation has one turn at a
        time: what a user said after the mark is the turn's.
        """
        behind = [m for m in self.messages if m.id > mark and m.role == "user"]
        return next((m for m in behind if m.text == text), behind[0] if behind else None)

    def question_behind(self, mark: int) -> Message | None:
        """The first message of the user behind a mark."""
        return next((m for m in self.messages if m.id > mark and m.role == "user"), None)

    def answer_behind(self, mark: int) -> str:
        """The answer to the first question behind a mark; empty for none."""
        return self.exchange_behind(mark)[1]

    def exchange_behind(self, mark: int) -> tuple[str, str]:
        """The first question behind a mark and its answer; empty for none."""
        question = self.question_behind(mark)
        answer = self.answer_after(question) if question else None
        return question.text if question else "", answer.text if answer else ""

    def answer_after(self, question: Message) -> Message | None:
        """The message that ends the turn of a question, before the user's next message."""
        for message in self.messages:
            if message.id <= question.id:
                continue
            if message.role == "user":
                return None
            if message.is_final:
                return message
        return None


@dataclass(frozen=True)
class AgentView:
    """The observed state of one turn at the agent.

    Attributes:
        transcript: Read after the rest, so that it is the newest; empty where ``run`` is known, which says more.
        run: ``None`` where the agent knows no such run, or no run is known.
        active_runs: Runs that the agent works on now.
    """

    transcript: Transcript
    run: Run | None = None
    active_runs: int = 0
