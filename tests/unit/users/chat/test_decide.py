"""The next step of a turn: every state, view and time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesops.agents.relay.routes import QUICK_S
from hermesops.app.parts import chat as chat_parts
from hermesops.model.chat.transcript import AgentView, Message, Run, RunState, Transcript
from hermesops.model.chat.turn import ENDED, Turn, TurnState
from hermesops.model.ids import InstanceId, UserId
from hermesops.users.chat import carrier, service
from hermesops.users.chat.decide import (
    LONGEST,
    NOT_REACHED,
    SETTLING,
    UNREACHED,
    Finish,
    Follow,
    Send,
    Stop,
    Taken,
    Wait,
    next_step,
)

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
QUESTION = Message(7, "user", "hello")
ANSWER = Message(8, "assistant", "YOU SAID: hello", is_final=True)


def a_turn(
    state: TurnState,
    *,
    age: timedelta = timedelta(seconds=1),
    run: str = "",
    sent: timedelta | None = None,
    is_stopped: bool = False,
) -> Turn:
    return Turn(
        id="t1",
        user_id=UserId("u"),
        instance_id=InstanceId("i"),
        conversation="main",
        client_key="k",
        message="hello",
        state=state,
        created_at=NOW - age,
        transcript_mark=5,
        run_id=run,
        sent_at=NOW - sent if sent is not None else None,
        stop_at=NOW if is_stopped else None,
    )


def view(*messages: Message, run: Run | None = None, active: int = 0) -> AgentView:
    return AgentView(Transcript(messages), run, active)


def test_a_queued_turn_is_sent_behind_the_last_message() -> None:
    assert next_step(a_turn(TurnState.QUEUED), view(Message(6, "user", "hello")), NOW) == Send(6)
    assert next_step(a_turn(TurnState.QUEUED), view(), NOW) == Send(0)


def test_a_lost_answer_is_settled_by_the_transcript_and_never_sent_twice_while_it_may_run() -> None:
    late = SETTLING + timedelta(seconds=1)
    assert next_step(a_turn(TurnState.SENDING, sent=late), view(QUESTION), NOW) == Taken()
    assert next_step(a_turn(TurnState.SENDING, sent=late), view(active=1), NOW) == Wait()
    assert next_step(a_turn(TurnState.SENDING, sent=timedelta(seconds=1)), view(), NOW) == Wait()
    assert next_step(a_turn(TurnState.SENDING, sent=late), view(), NOW) == Send(0)
    # A conversation has one turn at a time: what the user said after the mark is the turn's, in whatever words.
    noted = Message(7, "user", "hello [1 image]")
    assert next_step(a_turn(TurnState.SENDING, sent=late), view(noted), NOW) == Taken()
    # The same words before the mark are of an earlier turn.
    assert next_step(a_turn(TurnState.SENDING, sent=late), view(Message(3, "user", "hello")), NOW) == Send(3)


def test_a_run_is_followed_and_its_end_is_the_turns() -> None:
    turn = a_turn(TurnState.RUNNING, run="r1")
    for state in (RunState.QUEUED, RunState.RUNNING, RunState.WAITING_FOR_APPROVAL, RunState.STOPPING):
        assert next_step(turn, view(QUESTION, run=Run(state)), NOW) == Follow("r1")
    assert next_step(turn, view(run=Run(RunState.COMPLETED, "hi")), NOW) == Finish(TurnState.DONE, text="hi")
    assert next_step(turn, view(run=Run(RunState.CANCELLED)), NOW) == Finish(TurnState.STOPPED)
    failed = next_step(turn, view(run=Run(RunState.FAILED, error="no model")), NOW)
    assert failed == Finish(TurnState.FAILED, detail="no model")


def test_a_run_that_a_restart_ended_is_recalled_from_the_transcript_or_told_as_failed() -> None:
    turn = a_turn(TurnState.RUNNING, run="r1")
    assert next_step(turn, view(QUESTION, ANSWER), NOW) == Finish(TurnState.DONE, text=ANSWER.text)
    lost = next_step(
        turn, view(QUESTION, Message(9, "user", "other"), Message(10, "assistant", "x", is_final=True)), NOW
    )
    assert isinstance(lost, Finish)
    assert lost.state is TurnState.FAILED
    tool_only = next_step(turn, view(QUESTION, Message(8, "assistant", "")), NOW)
    assert isinstance(tool_only, Finish)
    assert tool_only.state is TurnState.FAILED


def test_a_taken_turn_without_a_run_waits_while_the_agent_works() -> None:
    turn = a_turn(TurnState.RUNNING)
    assert next_step(turn, view(QUESTION, active=1), NOW) == Wait()
    assert next_step(turn, view(QUESTION, ANSWER), NOW) == Finish(TurnState.DONE, text=ANSWER.text)


@pytest.mark.parametrize(
    ("state", "limit"), [(TurnState.QUEUED, UNREACHED), (TurnState.SENDING, LONGEST), (TurnState.RUNNING, LONGEST)]
)
def test_an_agent_that_does_not_answer_fails_the_turn_in_the_end(state: TurnState, limit: timedelta) -> None:
    assert next_step(a_turn(state, age=limit - timedelta(seconds=1)), None, NOW) == Wait()
    step = next_step(a_turn(state, age=limit), None, NOW)
    assert isinstance(step, Finish)
    assert step.state is TurnState.FAILED
    assert step.detail


def test_a_message_that_cannot_be_read_any_more_is_told_as_failed_and_not_sent() -> None:
    for state in (TurnState.QUEUED, TurnState.SENDING):
        lost = replace(a_turn(state), message="", is_lost=True)
        for agent_view in (None, view(), view(QUESTION)):
            assert next_step(lost, agent_view, NOW) == Finish(TurnState.FAILED, detail=NOT_REACHED)
    running = replace(a_turn(TurnState.RUNNING, run="r1"), message="", is_lost=True)
    assert next_step(running, view(run=Run(RunState.RUNNING)), NOW) == Follow("r1")


def test_a_stopped_turn_is_never_sent_and_its_run_is_stopped() -> None:
    late = SETTLING + timedelta(seconds=1)
    stopped = Finish(TurnState.STOPPED)
    for agent_view in (None, view(), view(QUESTION)):
        assert next_step(a_turn(TurnState.QUEUED, is_stopped=True), agent_view, NOW) == stopped
    assert next_step(a_turn(TurnState.SENDING, sent=late, is_stopped=True), view(), NOW) == stopped
    # It may have been sent: that is found out first.
    assert next_step(a_turn(TurnState.SENDING, sent=late, is_stopped=True), None, NOW) == Wait()
    assert next_step(a_turn(TurnState.SENDING, sent=late, is_stopped=True), view(QUESTION), NOW) == Taken()
    running = a_turn(TurnState.RUNNING, run="r1", is_stopped=True)
    assert next_step(running, view(run=Run(RunState.RUNNING)), NOW) == Stop("r1")
    assert next_step(running, view(run=Run(RunState.STOPPING)), NOW) == Follow("r1")
    assert next_step(running, view(run=Run(RunState.COMPLETED, "hi")), NOW) == Finish(TurnState.DONE, text="hi")
    assert next_step(running, view(QUESTION), NOW) == stopped


_MESSAGES = st.lists(
    st.builds(
        Message,
        st.integers(0, 20),
        st.sampled_from(["user", "assistant"]),
        st.sampled_from(["hello", "x"]),
        st.booleans(),
    ),
    max_size=6,
    unique_by=lambda message: message.id,
).map(lambda messages: tuple(sorted(messages, key=lambda message: message.id)))
_VIEWS = st.none() | st.builds(
    AgentView,
    st.builds(Transcript, _MESSAGES),
    st.none() | st.builds(Run, st.sampled_from(RunState)),
    st.integers(0, 2),
)


@given(
    state=st.sampled_from(sorted(set(TurnState) - ENDED)),
    run=st.sampled_from(["", "r1"]),
    age=st.integers(0, 2 * int(LONGEST.total_seconds())),
    agent_view=_VIEWS,
    is_stopped=st.booleans(),
)
def test_whatever_the_agent_shows_each_turn_ends_and_none_is_sent_twice(
    state: TurnState, run: str, age: int, agent_view: AgentView | None, *, is_stopped: bool
) -> None:
    turn = a_turn(state, age=timedelta(seconds=age), run=run, sent=timedelta(seconds=age), is_stopped=is_stopped)
    step = next_step(turn, agent_view, NOW)
    if isinstance(step, Send):
        assert state in {TurnState.QUEUED, TurnState.SENDING}
        assert agent_view is not None
        assert not is_stopped
        if state is TurnState.SENDING:
            assert agent_view.transcript.question_after(turn.transcript_mark, turn.message) is None
            assert agent_view.active_runs == 0
    if age >= LONGEST.total_seconds():
        assert isinstance(step, Finish | Taken)
    if isinstance(step, Finish) and step.state is TurnState.FAILED:
        assert step.detail


def test_a_message_comes_to_its_agent_before_it_counts_as_lost() -> None:
    """The relay begins to deliver it before a moment, and has so long for that."""
    assert SETTLING.total_seconds() >= carrier._STALLED_S + QUICK_S


def test_an_approval_comes_to_its_agent_before_that_gives_the_request_up() -> None:
    """``approvals.timeout`` of hermes-agent 0.19.0 is 60 s; afterwards the next request would take the answer."""
    assert chat_parts._APPROVAL.total_seconds() + service._APPROVAL_S < 60
