"""The next step of a turn, from its row and the agent's observed state. Pure.

hermes-agent 0.19.0 forgets its runs when it stops, keeps no idempotency keys and resumes no run of its API, but stores
a user's message when its turn begins (observed 2026-11-29: ``kill -9`` in a run; after the restart ``GET
/v1/runs/{id}`` answered 404, and the transcript ended with the user's message). So the transcript decides.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import assert_never

from hermesops.model.chat.transcript import AgentView, Run, RunState
from hermesops.model.chat.turn import Turn, TurnState

LONGEST = timedelta(hours=1, minutes=5)
"""From a turn's creation to its failure: the relay lets a run take an hour."""

UNREACHED = timedelta(minutes=15)
"""From a turn's creation to its failure, while its agent never got the message."""

SETTLING = timedelta(seconds=20)
"""After a request whose answer was lost, the time in which its message may still appear in the transcript: longer than
the relay lets such a request take."""

INTERRUPTED = "the answer was interrupted and is lost; send the message again"
"""Why is not known: the agent was restarted, or the platform behind its model was."""

UNANSWERED = "the agent did not answer in time; send the message again"
NOT_REACHED = "the agent could not be reached; send the message again"


@dataclass(frozen=True)
class Send:
    """Send the message to the agent; ``mark`` is the transcript's before it."""

    mark: int


@dataclass(frozen=True)
class Follow:
    """Read the run's events until they end."""

    run_id: str


@dataclass(frozen=True)
class Stop:
    """Stop the run, then look again."""

    run_id: str


@dataclass(frozen=True)
class Taken:
    """Record that the agent has the message."""


@dataclass(frozen=True)
class Wait:
    """Decision to look at the turn again later."""


@dataclass(frozen=True)
class Finish:
    """End the turn.

    Attributes:
        text: The whole answer, of one that is done.
        detail: The reason of a failure, in words for the user.
    """

    state: TurnState
    text: str = field(default="", repr=False)
    detail: str = ""


Step = Send | Follow | Stop | Taken | Wait | Finish


def next_step(turn: Turn, view: AgentView | None, now: datetime) -> Step:
    """Decide what is done about a turn that has not ended.

    Args:
        view: ``None`` where the agent does not answer.
    """
    if turn.is_lost and turn.state is not TurnState.RUNNING:
        return Finish(TurnState.FAILED, detail=NOT_REACHED)
    if view is None:
        return _without_agent(turn, now)
    match turn.state:
        case TurnState.QUEUED:
            return _unsent(turn, view, now)
        case TurnState.SENDING:
            return _sending(turn, view, now)
        case TurnState.RUNNING:
            return _running(turn, view, now)
        case TurnState.DONE | TurnState.FAILED | TurnState.STOPPED:
            return Wait()
        case unreachable:
            assert_never(unreachable)


def _without_agent(turn: Turn, now: datetime) -> Step:
    if turn.state is TurnState.QUEUED and turn.stop_at is not None:
        return Finish(TurnState.STOPPED)
    return _expired(turn, now) or Wait()


def _unsent(turn: Turn, view: AgentView, now: datetime) -> Step:
    """The agent does not have the message."""
    if turn.stop_at is not None:
        return Finish(TurnState.STOPPED)
    return _expired(turn, now) or Send(view.transcript.mark)


def _sending(turn: Turn, view: AgentView, now: datetime) -> Step:
    """The request's answer was lost: only the transcript tells whether the agent has the message."""
    if view.transcript.question_after(turn.transcript_mark, turn.message):
        return Taken()
    is_settled = turn.sent_at is not None and now - turn.sent_at >= SETTLING
    if not is_settled or view.active_runs:
        return _expired(turn, now) or Wait()
    return _unsent(turn, view, now)


def _running(turn: Turn, view: AgentView, now: datetime) -> Step:
    if view.run is not None:
        return _of_run(turn, view.run, now)
    question = view.transcript.question_after(turn.transcript_mark, turn.message)
    if question and (answer := view.transcript.answer_after(question)):
        return Finish(TurnState.DONE, text=answer.text)
    if view.active_runs and not turn.run_id:
        return _expired(turn, now) or Wait()
    if turn.stop_at is not None:
        return Finish(TurnState.STOPPED)
    return Finish(TurnState.FAILED, detail=INTERRUPTED)


def _of_run(turn: Turn, run: Run, now: datetime) -> Step:
    match run.state:
        case RunState.COMPLETED:
            return Finish(TurnState.DONE, text=run.output)
        case RunState.FAILED:
            return Finish(TurnState.FAILED, detail=run.error or UNANSWERED)
        case RunState.CANCELLED:
            return Finish(TurnState.STOPPED)
        case RunState.QUEUED | RunState.RUNNING | RunState.WAITING_FOR_APPROVAL:
            goes_on = Stop(turn.run_id) if turn.stop_at is not None else Follow(turn.run_id)
            return _expired(turn, now) or goes_on
        case RunState.STOPPING:
            return _expired(turn, now) or Follow(turn.run_id)
        case unreachable:
            assert_never(unreachable)


def _expired(turn: Turn, now: datetime) -> Finish | None:
    never_got_it = turn.state is TurnState.QUEUED
    limit = UNREACHED if never_got_it else LONGEST
    if now - turn.created_at < limit:
        return None
    return Finish(TurnState.FAILED, detail=NOT_REACHED if never_got_it else UNANSWERED)
