"""Updates of Telegram: a person's messages to the bot, and nothing else."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermesops.model.messaging.message import IncomingKind, Update
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.messengers.telegram.read import is_telegrams, read, reply_to
from hermesops.wire.strict_json import MalformedJSONError
from tests.support.suite.cases import each_case

PERSON = {"id": 111, "is_bot": False, "first_name": "Ada\n\x1b[2J"}
PRIVATE = {"id": 111, "type": "private"}
MESSAGE = {"message_id": 1, "from": PERSON, "chat": PRIVATE, "text": "hello"}


def update(**parts: Any) -> bytes:  # noqa: ANN401 - JSON
    return json.dumps({"update_id": 9, **parts}).encode()


def test_a_message_is_read() -> None:
    report = read(update(message=MESSAGE))
    assert report is not None
    assert report == Update(
        Messenger.TELEGRAM, "9", IncomingKind.MESSAGE, "111", "111", text="hello", display=report.display
    )
    assert report.display.isprintable()


@each_case(
    "message",
    [
        {**MESSAGE, "chat": {"id": -5, "type": "group"}},
        {**MESSAGE, "chat": {"id": 111, "type": "group"}},
        {**MESSAGE, "chat": {"id": 112, "type": "private"}},
        {**MESSAGE, "from": {**PERSON, "is_bot": True}},
        {**MESSAGE, "from": {"id": 111}},
        {**MESSAGE, "from": {**PERSON, "id": True}},
        {**MESSAGE, "from": None},
    ],
)
def test_what_no_person_wrote_to_the_bot_is_nothing(message: dict[str, Any]) -> None:
    assert read(update(message=message)) is None
    assert read(update(edited_message=message)) is None


@each_case(
    ("status", "kind"),
    [("kicked", IncomingKind.BLOCKED), ("left", IncomingKind.BLOCKED), ("member", IncomingKind.UNBLOCKED)],
)
def test_blocking_the_bot_is_seen(status: str, kind: IncomingKind) -> None:
    change = {"from": PERSON, "chat": PRIVATE, "new_chat_member": {"status": status}}
    report = read(update(my_chat_member=change))
    assert report is not None
    assert (report.kind, report.account) == (kind, "111")


PRESS = {"id": "4382bfdwdsb323b2d9", "from": PERSON, "message": {"message_id": 1, "chat": PRIVATE}, "data": "/approve"}


def test_a_button_is_the_command_that_it_stands_for_and_is_shown_as_pressed() -> None:
    report = read(update(callback_query=PRESS))
    assert report is not None
    assert (report.kind, report.account, report.text) == (IncomingKind.MESSAGE, "111", "/approve")
    assert reply_to(update(callback_query=PRESS)) == {"method": "answerCallbackQuery", "callback_query_id": PRESS["id"]}
    assert reply_to(update(message=MESSAGE)) == {}
    assert reply_to(update(callback_query={**PRESS, "id": "a b"})) == {}


@each_case(
    "press",
    [
        {**PRESS, "data": "/unlink"},
        {**PRESS, "data": ["/approve"]},
        {**PRESS, "message": None},
        {**PRESS, "message": {"chat": {"id": -5, "type": "group"}}},
        {**PRESS, "message": {"chat": {"id": 112, "type": "private"}}},
        {**PRESS, "from": {**PERSON, "is_bot": True}},
    ],
)
def test_other_buttons_and_those_of_others_are_nothing(press: dict[str, Any]) -> None:
    assert read(update(callback_query=press)) is None


@given(
    st.binary(max_size=300)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["update_id", "message", "from", "chat", "id", "text"]), inner)
        ),
    ).map(lambda value: json.dumps(value).encode())
)
def test_whatever_comes_is_an_update_or_nothing_or_malformed(body: bytes) -> None:
    try:
        report = read(body)
    except MalformedJSONError:
        return
    assert report is None or report.account.isdigit()


def test_the_secret_of_the_webhook_is_compared_whole() -> None:
    assert is_telegrams("new", ("old", "new"))
    assert not is_telegrams("ne", ("old", "new"))
    assert not is_telegrams("", ("",))
    assert not is_telegrams("x", ())
