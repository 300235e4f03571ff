"""Reports of WhatsApp: signed ones, people's own messages to our number, failures of ours; answers of its API."""

import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesops.model.messaging.message import IncomingKind, Outgoing, OutgoingState, Update
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.inbound.door import UnsignedReportError, WhatsAppDoor
from hermesops.users.messaging.messengers.exchange import Answer
from hermesops.users.messaging.messengers.whatsapp.read import Reader, challenge_of, is_whatsapps, verify_token
from hermesops.users.messaging.messengers.whatsapp.send import WhatsAppBot, content, delivery_of, recipient
from hermesops.users.messaging.outbound.bots import WHATSAPP_PACE
from hermesops.users.messaging.outbound.budget import Budget
from hermesops.users.messaging.outbound.delivery import Away, Closed, Delivery, Limited, Refused, Sent, Uncertain
from hermesops.users.messaging.outbound.reports import failure_of
from hermesops.wire.strict_json import MalformedJSONError
from tests.support.suite.cases import each_case

SECRET, PHONE, BODY = "s" * 32, "106540352242922", b'{"object": "x"}'
READER = Reader(PHONE, b"k" * 32)
MESSAGE = {
    "from": "16505551234",
    "from_user_id": "US.13491208655302741918",
    "id": "wamid.A",
    "timestamp": "1749416383",
    "type": "text",
    "text": {"body": "hello"},
}
CONTACT = {"profile": {"name": "Ada\nL"}, "wa_id": "16505551234", "user_id": "US.13491208655302741918"}
FAILED = {
    "id": "wamid.B",
    "status": "failed",
    "timestamp": "1749416383",
    "recipient_id": "16505551234",
    "errors": [{"code": 131047, "title": "Re-engagement message"}],
    "biz_opaque_callback_data": "out-17",
}
CLOSED = OutgoingState.WAITING


def signature(body: bytes = BODY, secret: str = SECRET) -> str:
    return f"sha256={hmac.new(secret.encode(), body, sha256).hexdigest()}"


def value(**changes: Any) -> Mapping[str, Any]:  # noqa: ANN401 - JSON
    metadata = {"display_phone_number": "15550783881", "phone_number_id": PHONE}
    return {"messaging_product": "whatsapp", "metadata": metadata, **changes}


def body(*values: Mapping[str, Any], field: str = "messages") -> bytes:
    changes = [{"field": field, "value": each} for each in values]
    return json.dumps({"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": changes}]}).encode()


def message(**changes: Any) -> bytes:  # noqa: ANN401 - JSON
    return body(value(contacts=[CONTACT], messages=[{**MESSAGE, **changes}]))


@each_case(
    ("given", "is_valid"),
    [
        (signature(), True),
        (signature(b"other"), False),
        (signature(secret="x" * 32), False),
        (signature().removeprefix("sha256="), False),
        (signature().replace("sha256", "sha1"), False),
        ("", False),
        ("sha256=\u0661", False),
    ],
)
def test_a_body_counts_if_meta_signed_it(given: str, is_valid: bool) -> None:  # noqa: FBT001 - a case
    assert is_whatsapps(BODY, given, ("new" * 10, SECRET)) is is_valid
    assert not is_whatsapps(BODY, given, ())
    assert not is_whatsapps(BODY, given, ("",))


def test_a_message_is_read_and_its_number_is_a_digest() -> None:
    (update,) = READER.read(message())
    person = READER.person("US.13491208655302741918")
    assert update == Update(
        *(Messenger.WHATSAPP, "wamid.A", IncomingKind.MESSAGE, person, person),
        text="hello",
        display="Ada L",
        address="16505551234",
        written_at=datetime(2025, 6, 8, 20, 59, 43, tzinfo=UTC),
    )
    assert "16505551234" not in repr(update) + person
    assert Reader(PHONE, b"x" * 32).person("US.13491208655302741918") != person


def test_a_person_is_known_by_the_business_scoped_id_where_there_is_one() -> None:
    hidden = {key: content for key, content in MESSAGE.items() if key != "from"}
    (by_id,) = READER.read(body(value(messages=[hidden])))
    (as_before,) = READER.read(message())
    (of_another,) = READER.read(message(from_user_id="US.2"))
    old = {key: content for key, content in MESSAGE.items() if key != "from_user_id"}
    (by_number,) = READER.read(body(value(messages=[old])))
    assert (by_id.account, by_id.address) == (as_before.account, "US.13491208655302741918")
    assert of_another.account != as_before.account, "a number that somebody else has now"
    assert by_number.account == READER.person("16505551234")
    assert recipient(by_id.address) == {"recipient": "US.13491208655302741918"}
    assert recipient(by_number.address) == {"to": "16505551234"}


@each_case(
    ("written", "text"),
    [
        ("Link ABCDEFGH23456789", "/link ABCDEFGH23456789"),
        ("link ABCDEFGH23456789", "/link ABCDEFGH23456789"),
        ("!approve", "/approve"),
        ("/approve", "/approve"),
        ("link representatives", "link representatives"),
    ],
)
def test_commands_need_no_slash(written: str, text: str) -> None:
    assert [update.text for update in READER.read(message(text={"body": written}))] == [text]


@each_case(
    "changes",
    [
        {"from": None, "from_user_id": None},
        {"from": "+1", "from_user_id": ""},
        {"id": "A"},
        {"timestamp": 1749416383},
        {"timestamp": "soon"},
        {"type": "reaction"},
        {"type": "system"},
        {"type": "unsupported"},
        {"type": ["text"]},
        {"group_id": "G"},
    ],
)
def test_what_no_person_wrote_to_the_number_is_nothing(changes: dict[str, Any]) -> None:
    assert READER.read(message(**changes)) == ()


def test_many_reports_come_in_one_body_and_those_of_other_numbers_are_not_ours() -> None:
    messages = [{**MESSAGE, "id": f"wamid.{number}"} for number in range(3)]
    foreign = {**value(messages=[MESSAGE]), "metadata": {"phone_number_id": "1"}}
    delivered = {**FAILED, "status": "delivered"}
    both = body(value(messages=messages, statuses=[delivered, FAILED]), foreign, value(messages=[{}, None, MESSAGE]))
    assert [update.vendor_id for update in READER.read(both)] == ["wamid.0", "wamid.1", "wamid.2", "wamid.B", "wamid.A"]
    assert READER.read(body(value(messages=[MESSAGE]), field="security")) == ()
    assert len(READER.read(body(value(messages=[MESSAGE] * 1001)))) == 1000


def test_a_message_of_ours_that_failed_is_known_by_the_number_that_was_sent_with_it() -> None:
    (update,) = READER.read(body(value(statuses=[FAILED])))
    assert (update.kind, update.vendor_id, update.text) == (IncomingKind.FAILED, "wamid.B", "17 131047")
    for changes in ({"biz_opaque_callback_data": "in-17"}, {"biz_opaque_callback_data": None}, {"id": "B"}):
        assert READER.read(body(value(statuses=[{**FAILED, **changes}]))) == ()


def test_metas_question_is_answered_by_its_own_text_if_it_knows_our_token() -> None:
    query = {"hub.mode": "subscribe", "hub.verify_token": verify_token(SECRET), "hub.challenge": "1158201444"}
    assert challenge_of(query, ("new" * 10, SECRET)) == "1158201444"
    for changes in (
        {"hub.verify_token": SECRET},
        {"hub.verify_token": verify_token("")},
        {"hub.verify_token": ""},
        {"hub.mode": "unsubscribe"},
        {"hub.challenge": "<script> x"},
        {"hub.challenge": ""},
    ):
        assert challenge_of({**query, **changes}, (SECRET, "")) is None


@given(
    st.binary(max_size=300)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["messages", "text", "failed", PHONE]),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["object", "entry", "changes", *MESSAGE, *FAILED, "value"]), inner)
        ),
    ).map(lambda content: json.dumps({"object": "whatsapp_business_account", "entry": [content]}).encode())
    | st.recursive(
        st.none() | st.integers() | st.text() | st.sampled_from(["text", "failed", "wamid.A", "1749416383"]),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*MESSAGE, *FAILED, "body", "code"]), inner),
    ).map(lambda content: body(value(contacts=content, messages=content, statuses=content)))
)
def test_whatever_comes_is_reports_or_malformed(content: bytes) -> None:
    try:
        updates = READER.read(content)
    except MalformedJSONError:
        return
    assert all(isinstance(update, Update) for update in updates)


def test_the_door_keeps_each_report_and_refuses_what_meta_did_not_sign() -> None:
    kept: list[Update] = []

    def receive(update: Update) -> bool:
        kept.append(update)
        return True

    door = WhatsAppDoor(lambda: (SECRET,), receive, READER)
    for report in (message(), b"not json", body(value(statuses=[FAILED]))):
        door.take(report, signature(report))
    with pytest.raises(UnsignedReportError, match="does not come from WhatsApp"):
        door.take(message(), signature())
    with pytest.raises(UnsignedReportError, match="question does not come"):
        door.confirm({"hub.mode": "subscribe", "hub.verify_token": "x", "hub.challenge": "1"})
    assert [update.vendor_id for update in kept] == ["wamid.A", "wamid.B"]


def failure(code: int, words: str = "words") -> bytes:
    return json.dumps({"error": {"message": words, "code": code}}).encode()


@each_case(
    ("answer", "tries", "delivery"),
    [
        (Answer(200, b'{"messages": [{"id": "wamid.A"}]}'), 0, Sent("wamid.A")),
        (Answer(200, b"gateway page"), 0, Uncertain("HTTP 200")),
        (Answer(429, failure(131056)), 0, Limited(4.0)),
        (Answer(429, failure(131056)), 2, Limited(64.0)),
        (Answer(400, failure(131056)), 10_000, Limited(1024.0)),
        (Answer(429, failure(130429)), 0, Limited(5.0, is_for_all=True)),
        (Answer(400, failure(80007)), 0, Limited(300.0, is_for_all=True)),
        (Answer(429, b""), 0, Limited(5.0, is_for_all=True)),
        (Answer(400, failure(131047)), 0, Closed("outside of the 24 hours after its user's last message")),
        (Answer(400, failure(131026)), 0, Refused("words", is_blocked=True)),
        (Answer(400, failure(131050)), 0, Refused("words", is_blocked=True)),
        (Answer(401, failure(190)), 0, Away("words", is_of_token=True)),
        (Answer(400, failure(131031)), 0, Away("words")),
        (Answer(500, failure(131000)), 0, Away("words")),
        (Answer(400, failure(100)), 0, Refused("words")),
        (Answer(503, b"<html>"), 0, Away("HTTP 503")),
        (Answer(404, b""), 0, Refused("HTTP 404")),
    ],
)
def test_answers_of_whatsapp(answer: Answer, tries: int, delivery: Delivery) -> None:
    assert delivery_of(answer, tries) == delivery


@given(st.integers(100, 599), st.binary(max_size=200), st.integers(-(2**40), 2**40), st.integers(0, 2_000))
def test_whatever_whatsapp_answers_is_a_delivery(status: int, content: bytes, code: int, tries: int) -> None:
    for answer in (Answer(status, content), Answer(status, failure(code))):
        assert isinstance(delivery_of(answer, tries), Sent | Limited | Away | Uncertain | Closed | Refused)


PART = Outgoing(17, Messenger.WHATSAPP, "digest", "hello", 0, OutgoingState.SENT, "wamid.B", 1, None)
OF_SLACK = Outgoing(17, Messenger.SLACK, "D1", "hello", 0, OutgoingState.SENT, "1.2", 1, None)


@each_case(
    ("part", "code", "state", "after", "is_blocked"),
    [
        (PART, "131047", OutgoingState.WAITING, 0, False),
        (PART, "131056", OutgoingState.QUEUED, 4, False),
        (PART, "131026", OutgoingState.REFUSED, 0, True),
        (PART, "131000", OutgoingState.QUEUED, 60, False),
        (PART, "100", OutgoingState.REFUSED, 0, False),
        (PART, "x", OutgoingState.REFUSED, 0, False),
        (OF_SLACK, "131047", OutgoingState.REFUSED, 0, False),
    ],
)
def test_a_report_of_a_failure_has_the_part_wait_or_ends_it(
    part: Outgoing,
    code: str,
    state: OutgoingState,
    after: float,
    is_blocked: bool,  # noqa: FBT001 - a case
) -> None:
    record, blocked = failure_of(part, code)
    assert (record.state, record.after, blocked) == (state, timedelta(seconds=after), is_blocked)


def test_a_part_that_fails_again_and_again_ends_unless_it_waits_for_its_user() -> None:
    often = Outgoing(17, Messenger.WHATSAPP, "digest", "hello", 0, OutgoingState.SENT, "wamid.B", 6, None)
    assert failure_of(often, "131056")[0].state is OutgoingState.REFUSED
    assert failure_of(often, "131047")[0].state is OutgoingState.WAITING


async def test_nothing_is_sent_outside_of_the_window_or_to_a_number_that_is_not_known() -> None:
    bot = WhatsAppBot(lambda: "token", PHONE, "1", "http://127.0.0.1:9")
    closed = Outgoing(
        1, Messenger.WHATSAPP, "d", "x", 0, OutgoingState.QUEUED, "", 0, None, "16505551234", is_open=False
    )
    unknown = Outgoing(1, Messenger.WHATSAPP, "d", "x", 0, OutgoingState.QUEUED, "", 0, None)
    assert [type(await bot.send(each)) for each in (closed, unknown)] == [Closed, Closed]


def test_ten_parts_come_at_once_and_others_each_six_seconds() -> None:
    budget = Budget(WHATSAPP_PACE)
    taken = [at for at in range(66) if budget.take("a", float(at) / 10)]
    assert taken == [*range(10), 65]
    assert budget.take("b", 0.1)


def test_a_short_request_for_approval_has_buttons_and_other_texts_have_none() -> None:
    parameters = content("Run `x`? /approve or /deny")
    assert parameters["type"] == "interactive"
    buttons = parameters["interactive"]["action"]["buttons"]  # type: ignore[index]
    assert [button["reply"]["id"] for button in buttons] == ["/approve", "/deny"]
    for text in ("Run `x`? /approve or /deny" + " " * 1024, "see /approve", "POST a/approve, b/deny"):
        assert content(text) == {"type": "text", "text": {"body": text, "preview_url": False}}


@each_case(
    ("reply", "text"), [({"id": "/deny", "title": "Deny"}, "/deny"), ({"id": "/unlink"}, ""), ({"id": ["/deny"]}, "")]
)
def test_a_button_is_the_command_that_it_stands_for(reply: dict[str, Any], text: str) -> None:
    pressed = message(type="interactive", interactive={"type": "button_reply", "button_reply": reply}, text=None)
    assert [update.text for update in READER.read(pressed)] == [text]
