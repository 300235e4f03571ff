"""What became of a message of which nothing was heard: the agent's transcript says it."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from hermesops.model.chat.transcript import Message, Transcript
from hermesops.model.messaging.files import FileKind, UserFile
from hermesops.model.messaging.message import IncomingState
from hermesops.users.messaging.recovery.reconcile import (
    LONGEST,
    LONGEST_AT_WORK,
    MOST_TRIES,
    SILENT,
    ChatView,
    GiveUp,
    Outcome,
    Recover,
    SendAgain,
    Wait,
    is_due,
    reconcile,
)
from hermesops.users.messaging.recovery.transcripts import sessions_of
from tests.support.suite.cases import each_case
from tests.unit.users.messaging.test_routing import MESSAGE, NOW

SENT = replace(MESSAGE, state=IncomingState.SENT, fence=3, tries=1, sent_at=NOW)
BEFORE = [Message(1, "user", "hello", at=NOW - timedelta(hours=1)), Message(2, "assistant", "old", is_final=True)]
QUESTION = Message(5, "user", "hello", at=NOW)
NOTED = Message(5, "user", "[a note]\nhello", at=NOW)
ANSWER = Message(6, "assistant", "new", is_final=True)
TOOL = Message(6, "assistant", "I call a tool")


@each_case(
    ("messages", "after", "tries", "outcome"),
    [
        ([QUESTION, ANSWER], SILENT, 1, Recover("new")),
        ([NOTED, ANSWER], SILENT, 1, Recover("new")),
        ([*BEFORE, QUESTION, ANSWER], SILENT, 1, Recover("new")),
        ([*BEFORE, QUESTION], SILENT, 1, Wait()),
        ([QUESTION, TOOL], SILENT, 1, Wait()),
        ([QUESTION, TOOL], LONGEST_AT_WORK, 1, GiveUp("no answer")),
        (BEFORE, SILENT, 1, SendAgain()),
        ([], SILENT, 1, SendAgain()),
        ([], SILENT, MOST_TRIES, GiveUp("not taken")),
        (None, SILENT, 1, Wait()),
        (None, LONGEST, 1, GiveUp("agent away")),
    ],
)
def test_the_transcript_decides(messages: list[Message] | None, after: timedelta, tries: int, outcome: Outcome) -> None:
    view = None if messages is None else ChatView(Transcript(tuple(messages)))
    assert reconcile(replace(SENT, tries=tries), view, NOW + after) == outcome


FILE = UserFile(FileKind.PHOTO, "r", "holiday.jpg", "image/jpeg")
WORDS = "[Message 1 has files and no text.]"


@each_case(
    ("text", "stored", "is_there"),
    [
        ("hello", "[The user sent the file “holiday.jpg”]\n\nhello", True),
        ("hello", "[a note]\n\nhello\n\n[Image attached at: /tmp/a.jpg]", True),
        ("hello", "hello there", False),
        ("", f"[a note]\n\n{WORDS}\n\n[Image attached at: /tmp/a.jpg]", True),
        ("", "[Message 11 has files and no text.]", False),
    ],
)
def test_a_message_with_files_is_known_among_notes(text: str, stored: str, is_there: bool) -> None:  # noqa: FBT001 - a case
    incoming = replace(SENT, id=1, text=text, files=(FILE,))
    view = ChatView(Transcript((Message(5, "user", stored, at=NOW), ANSWER)))
    assert reconcile(incoming, view, NOW + SILENT) == (Recover("new") if is_there else SendAgain())


@each_case(("is_busy", "after"), [(True, SILENT), (True, LONGEST_AT_WORK), (False, SILENT / 2)])
def test_an_agent_at_work_may_have_a_message_that_its_transcript_lacks(is_busy: bool, after: timedelta) -> None:  # noqa: FBT001 - a case
    assert reconcile(SENT, ChatView(Transcript(), is_busy), NOW + after) == Wait()


def test_a_message_is_looked_into_when_its_socket_is_gone_or_nothing_is_heard() -> None:
    assert not is_due(SENT, 3, NOW + SILENT / 2)
    assert is_due(SENT, 3, NOW + SILENT)
    assert is_due(SENT, 4, NOW)
    assert is_due(SENT, 0, NOW)


MESSAGES = st.lists(
    st.builds(
        Message,
        st.integers(1, 50),
        st.sampled_from(["user", "assistant", "tool"]),
        st.sampled_from(["hello", "x", ""]),
        st.booleans(),
        st.none() | st.just(NOW),
    )
)


@given(MESSAGES, st.timedeltas(timedelta(0), timedelta(hours=30)), st.integers(1, MOST_TRIES))
def test_a_message_is_never_sent_again_where_the_agent_has_it(
    messages: list[Message], after: timedelta, tries: int
) -> None:
    outcome = reconcile(replace(SENT, tries=tries), ChatView(Transcript(tuple(messages))), NOW + after)
    has_it = any(message.role == "user" and message.text == "hello" for message in messages)
    assert not (has_it and isinstance(outcome, SendAgain))


def test_sessions_of_a_chat_are_found_by_its_name() -> None:
    rows = [
        {"id": "b", "user_id": "tg.1", "started_at": 2.0},
        {"id": "a", "user_id": "tg.1", "started_at": 1},
        {"id": "c", "user_id": "tg.2", "started_at": 3},
        {"id": 7, "user_id": "tg.1"},
        "x",
    ]
    assert sessions_of({"data": rows}, "tg.1") == ["a", "b"]
    assert sessions_of({}, "tg.1") == []
