"""Events of Slack: signed and recent ones, a person's own messages to the bot, and nothing else; answers of its API."""

import contextlib
import hmac
import json
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesops.model.messaging.message import IncomingKind, Update
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.inbound.door import SlackDoor, UnsignedReportError
from hermesops.users.messaging.messengers.exchange import Answer
from hermesops.users.messaging.messengers.slack.read import Challenge, is_slacks, read, text_of
from hermesops.users.messaging.messengers.slack.send import buttons, delivery_of
from hermesops.users.messaging.outbound.budget import Budget, Pace
from hermesops.users.messaging.outbound.delivery import Away, Delivery, Limited, Refused, Sent, Uncertain
from hermesops.wire.strict_json import MalformedJSONError
from tests.support.suite.cases import each_case

SECRET, NOW, BODY = "s" * 32, 1_000_000.0, b'{"type": "x"}'
MESSAGE = {"type": "message", "channel_type": "im", "channel": "D1", "user": "U1", "text": "hello"}
EVENT = {"type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": MESSAGE}


def signature(stamp: str, body: bytes = BODY, secret: str = SECRET) -> str:
    signed = b"v0:" + stamp.encode() + b":" + body
    return f"v0={hmac.new(secret.encode(), signed, sha256).hexdigest()}"


def event(**changes: Any) -> bytes:  # noqa: ANN401 - JSON
    return json.dumps({**EVENT, "event": {**MESSAGE, **changes}}).encode()


@each_case(
    ("stamp", "given", "is_valid"),
    [
        ("1000000", signature("1000000"), True),
        ("999700", signature("999700"), True),
        ("1000300", signature("1000300"), True),
        ("999699", signature("999699"), False),
        ("1000301", signature("1000301"), False),
        ("1000000", signature("1000001"), False),
        ("1000000", signature("1000000", b"other"), False),
        ("1000000", signature("1000000", secret="x" * 32), False),
        ("1000000", signature("1000000").removeprefix("v0="), False),
        ("1000000", "", False),
        ("", signature(""), False),
        ("1e6", signature("1e6"), False),
        ("-1000000", signature("-1000000"), False),
        ("\u0661000000", signature("1000000"), False),
    ],
)
def test_a_request_counts_if_slack_signed_it_within_five_minutes(
    stamp: str,
    given: str,
    is_valid: bool,  # noqa: FBT001 - a case
) -> None:
    assert is_slacks(BODY, stamp, given, ("new" * 10, SECRET), NOW) is is_valid
    assert not is_slacks(BODY, stamp, given, (), NOW)
    assert not is_slacks(BODY, stamp, given, ("",), NOW)


def test_a_message_is_read() -> None:
    assert read(event()) == Update(
        Messenger.SLACK, "Ev1", IncomingKind.MESSAGE, "T1-U1", "D1", text="hello", display="U1"
    )
    file = read(event(subtype="file_share", text=""))
    assert isinstance(file, Update)


@each_case(
    "changes",
    [
        {"bot_id": "B1"},
        {"bot_profile": {"id": "B1"}},
        {"subtype": "bot_message"},
        {"subtype": "message_changed"},
        {"subtype": "message_deleted"},
        {"subtype": ["file_share"]},
        {"channel_type": "channel"},
        {"channel": "C1"},
        {"channel": "D1.2"},
        {"user": None},
        {"user": "USLACKBOT.1"},
        {"type": "app_mention"},
    ],
)
def test_what_no_person_wrote_to_the_bot_is_nothing(changes: dict[str, Any]) -> None:
    assert read(event(**changes)) is None


def test_slacks_question_is_answered_with_its_own_text_if_that_is_harmless() -> None:
    assert read(b'{"type": "url_verification", "challenge": "3eZb-x_Y"}') == Challenge("3eZb-x_Y")
    for challenge in ("", "<script>alert(1)</script> x", "a\nb", 5, "x" * 257):
        assert read(json.dumps({"type": "url_verification", "challenge": challenge}).encode()) is None


@each_case(
    ("written", "text"),
    [
        ("a &lt;b&gt; &amp;lt;", "a <b> &lt;"),
        ("see <https://example.test/a|example.test/a>", "see https://example.test/a"),
        ("see <https://example.test/|here>", "see here (https://example.test/)"),
        ("<https://example.test/>", "https://example.test/"),
        ("hi <@U1|ada> <!here> <#C1|general>", "hi ada !here general"),
        ("link ABCDEFGH23456789", "/link ABCDEFGH23456789"),
        ("link representatives", "link representatives"),
        ("!approve", "/approve"),
        ("!approve session", "/approve session"),
        (" /approve", "/approve"),
        ("!important: x", "!important: x"),
        ("!!!", "!!!"),
    ],
)
def test_a_text_is_what_its_person_wrote(written: str, text: str) -> None:
    assert text_of(written) == text


@given(
    st.binary(max_size=300)
    | st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.text()
        | st.sampled_from(["event_callback", "message", "im", "D1"]),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["type", "event", "event_id", "team_id", "user", "channel", "challenge", "text"]), inner
            )
        ),
    ).map(lambda value: json.dumps(value).encode())
)
def test_whatever_comes_is_an_event_or_a_question_or_nothing_or_malformed(body: bytes) -> None:
    try:
        report = read(body)
    except MalformedJSONError:
        return
    assert report is None or isinstance(report, Update | Challenge)


def test_the_door_keeps_messages_and_refuses_what_slack_did_not_sign() -> None:
    kept: list[Update] = []

    def receive(update: Update) -> bool:
        kept.append(update)
        return True

    door = SlackDoor(lambda: (SECRET,), receive)
    question = b'{"type": "url_verification", "challenge": "abc"}'
    assert door.take(question, "1000000", signature("1000000", question), NOW) == "abc"
    for body in (event(), b"not json", event(bot_id="B1")):
        assert door.take(body, "1000000", signature("1000000", body), NOW) == ""
    with pytest.raises(UnsignedReportError, match="does not come from Slack"):
        door.take(event(), "1000000", signature("1000000"), NOW)
    assert [update.text for update in kept] == ["hello"]


@each_case(
    ("answer", "delivery"),
    [
        (Answer(200, b'{"ok": true, "ts": "1503435956.000247"}'), Sent("1503435956.000247")),
        (Answer(200, b"gateway page"), Uncertain("HTTP 200")),
        (Answer(200, b'{"ok": false, "error": "fatal_error"}'), Uncertain("fatal_error")),
        (Answer(429, b'{"ok": false, "error": "ratelimited"}', "30"), Limited(30.0, is_for_all=True)),
        (Answer(429, b"", ""), Limited(30.0, is_for_all=True)),
        (Answer(429, b"", "1e9"), Limited(30.0, is_for_all=True)),
        (Answer(429, b"", "0"), Limited(1.0, is_for_all=True)),
        (Answer(429, b"", "999999"), Limited(3600.0, is_for_all=True)),
        (Answer(200, b'{"ok": false, "error": "ratelimited"}', "2"), Limited(2.0, is_for_all=True)),
        (Answer(200, b'{"ok": false, "error": "invalid_auth"}'), Away("invalid_auth", is_of_token=True)),
        (Answer(200, b'{"ok": false, "error": "channel_not_found"}'), Refused("channel_not_found")),
        (Answer(200, b'{"ok": false, "error": "msg_too_long"}'), Refused("msg_too_long")),
        (Answer(503, b"<html>"), Away("HTTP 503")),
    ],
)
def test_answers_of_slack(answer: Answer, delivery: Delivery) -> None:
    assert delivery_of(answer) == delivery


@given(st.integers(100, 599), st.binary(max_size=200), st.text(max_size=20))
def test_whatever_slack_answers_is_a_delivery(status: int, body: bytes, header: str) -> None:
    assert isinstance(delivery_of(Answer(status, body, header)), Sent | Limited | Away | Uncertain | Refused)


def test_a_bot_that_is_limited_as_a_whole_writes_to_no_chat_until_then() -> None:
    budget = Budget(Pace(chat_s=1.0, a_second=9))
    budget.hold(5.0)
    budget.hold(3.0)
    assert not any(budget.take(chat, now) for chat in "ab" for now in (0.0, 4.9))
    assert all(budget.take(chat, 5.0) for chat in "ab")


def pressed(**changes: Any) -> bytes:  # noqa: ANN401 - JSON
    payload = {
        "type": "block_actions",
        "user": {"id": "U1", "team_id": "T1"},
        "channel": {"id": "D1"},
        "actions": [{"action_id": "/approve", "action_ts": "1700000000.123456"}],
        **changes,
    }
    return urlencode({"payload": json.dumps(payload)}).encode()


def test_a_pressed_button_is_its_command_once() -> None:
    update = Update(
        *(Messenger.SLACK, "action/D1/1700000000.123456", IncomingKind.MESSAGE, "T1-U1", "D1"),
        text="/approve",
        display="U1",
    )
    assert read(pressed()) == read(pressed()) == update


@each_case(
    "changes",
    [
        {"type": "view_submission"},
        {"user": {"id": "U1"}},
        {"user": "U1"},
        {"channel": {"id": "C1"}},
        {"channel": None},
        {"actions": []},
        {"actions": ["/approve"]},
        {"actions": [{"action_id": "/rm", "action_ts": "1.2"}]},
        {"actions": [{"action_id": "/approve", "action_ts": "1"}]},
        {"actions": [{"action_id": "/approve", "action_ts": "1.2"}] * 2},
    ],
)
def test_another_interaction_is_nothing(changes: dict[str, Any]) -> None:
    assert read(pressed(**changes)) is None


def test_a_form_without_an_object_is_malformed() -> None:
    with pytest.raises(MalformedJSONError, match="JSON"):
        read(b"payload=x")
    assert read(b"payload=") is None
    assert read(b"payload={}" + b"&x=1" * 20) is None


@given(st.binary())
def test_any_form_is_nothing_or_malformed(rest: bytes) -> None:
    with contextlib.suppress(MalformedJSONError):
        assert read(b"payload=" + rest) is None


def test_a_request_for_approval_has_two_buttons_and_another_text_none() -> None:
    text = "Run `rm`? Reply !approve or !deny."
    blocks = buttons(text)["blocks"]
    assert isinstance(blocks, list)
    assert blocks[0]["text"] == {"type": "mrkdwn", "text": text, "verbatim": True}
    assert [element["action_id"] for element in blocks[1]["elements"]] == ["/approve", "/deny"]
    assert buttons("hello") == buttons(text + "x" * 3000) == {}
