"""Messages and commands of Discord: signed and recent ones, a person's own to the bot; answers of its HTTP API."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from hermesops.model.messaging.message import IncomingKind, Outgoing, OutgoingState, Update
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.inbound.door import DiscordDoor, UnsignedReportError
from hermesops.users.messaging.messengers.discord import interactions
from hermesops.users.messaging.messengers.discord.interactions import ELSEWHERE, RECEIVED, is_discords
from hermesops.users.messaging.messengers.discord.read import read
from hermesops.users.messaging.messengers.discord.send import Application, DiscordBot, Entrance, delivery_of
from hermesops.users.messaging.messengers.exchange import Answer
from hermesops.users.messaging.outbound.delivery import Away, Delivery, Limited, Refused, Sent, Uncertain
from hermesops.users.messaging.registrations.discord import judged_application, judged_entrance, judged_webhook
from hermesops.wire.strict_json import MalformedJSONError
from tests.support.suite.cases import each_case

KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
PUBLIC = KEY.public_key().public_bytes_raw().hex()
NOW, BODY = 1_000_000.0, b'{"type": 1}'
MESSAGE = {
    "id": "1111111",
    "channel_id": "2222222",
    "type": 0,
    "author": {"id": "3333333", "username": "ada", "global_name": "Ada\nL"},
    "content": "hello",
}
COMMAND = {
    "type": 2,
    "id": "4444444",
    "channel_id": "2222222",
    "context": 1,
    "user": {"id": "3333333", "username": "ada"},
    "data": {"name": "link", "options": [{"type": 3, "name": "code", "value": "ABCDEFGH23456789"}]},
}


def signature(stamp: str = "1000000", body: bytes = BODY) -> str:
    return KEY.sign(stamp.encode() + body).hex()


@each_case(
    ("stamp", "given", "is_valid"),
    [
        ("1000000", signature(), True),
        ("1000000", signature().upper(), True),
        ("999700", signature("999700"), True),
        ("1000300", signature("1000300"), True),
        ("999699", signature("999699"), False),
        ("1000301", signature("1000301"), False),
        ("1000000", signature("1000001"), False),
        ("1000000", signature(body=b"other"), False),
        ("1000000", "0" * 128, False),
        ("1000000", signature()[:-2], False),
        ("1000000", "x" * 128, False),
        ("1000000", "", False),
        ("", signature(""), False),
        ("1e6", signature("1e6"), False),
        ("\u0661000000", signature(), False),
    ],
)
def test_an_interaction_counts_if_discord_signed_it_within_five_minutes(
    stamp: str,
    given: str,
    is_valid: bool,  # noqa: FBT001 - a case
) -> None:
    assert is_discords(BODY, stamp, given, PUBLIC, NOW) is is_valid
    assert not is_discords(BODY, stamp, given, "ab" * 32, NOW)
    assert not is_discords(BODY, stamp, given, "", NOW)


def test_a_message_is_read() -> None:
    assert read(MESSAGE) == Update(
        Messenger.DISCORD, "1111111", IncomingKind.MESSAGE, "3333333", "2222222", text="hello", display="Ada L"
    )
    (linking, approving) = (read({**MESSAGE, "content": text}) for text in ("link ABCDEFGH23456789", "!approve"))
    assert linking is not None
    assert approving is not None
    assert (linking.text, approving.text) == ("/link ABCDEFGH23456789", "/approve")
    assert read({**MESSAGE, "type": 19}) is not None, "a reply"


@each_case(
    "changes",
    [
        {"author": {**MESSAGE["author"], "bot": True}},  # type: ignore[dict-item]
        {"author": None},
        {"webhook_id": "1"},
        {"guild_id": "55555"},
        {"type": 7},
        {"type": "0"},
        {"id": 1111111},
        {"id": "../../x"},
        {"channel_id": "2222222/messages"},
        {"author": {"id": "x"}},
    ],
)
def test_what_no_person_wrote_to_the_bot_is_nothing(changes: dict[str, Any]) -> None:
    assert read({**MESSAGE, **changes}) is None


def test_discords_question_is_answered_and_a_command_is_kept() -> None:
    assert interactions.read(BODY) == interactions.Interaction({"type": 1})
    command = interactions.read(json.dumps(COMMAND).encode())
    assert command.answer["data"]["content"] == RECEIVED
    assert command.update == Update(
        *(Messenger.DISCORD, "interaction/4444444", IncomingKind.MESSAGE, "3333333", "2222222"),
        text="/link ABCDEFGH23456789",
        display="ada",
    )
    approve = {**COMMAND, "data": {"name": "approve"}}
    update = interactions.read(json.dumps(approve).encode()).update
    assert update is not None
    assert update.text == "/approve"
    pressed = {**COMMAND, "type": 3, "data": {"custom_id": "/deny", "component_type": 2}}
    update = interactions.read(json.dumps(pressed).encode()).update
    assert update is not None
    assert update.text == "/deny"


@each_case(
    "changes",
    [
        {"type": 4},
        {"type": 3, "data": {"custom_id": "/unlink"}},
        {"type": 3, "data": {"custom_id": ["/deny"]}},
        {"context": 0, "guild_id": "55555"},
        {"context": 2},
        {"context": None},
        {"user": None},
        {"id": "x"},
        {"data": {"name": "ask"}},
        {"data": {"name": ["link"]}},
        {"data": None},
    ],
)
def test_commands_from_elsewhere_are_answered_and_not_kept(changes: dict[str, Any]) -> None:
    interaction = interactions.read(json.dumps({**COMMAND, **changes}).encode())
    assert (interaction.update, interaction.answer["data"]["content"]) == (None, ELSEWHERE)
    assert interaction.answer["data"]["flags"] == 64, "for the person alone"


_NAMES = [*MESSAGE, *COMMAND, "options", "value", "name", "bot"]
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["1111111", "link"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(_NAMES), inner),
)


@given(_ANY.map(lambda content: json.dumps(content).encode()) | st.binary(max_size=200))
def test_whatever_comes_is_an_interaction_or_malformed(body: bytes) -> None:
    try:
        interaction = interactions.read(body)
    except MalformedJSONError:
        return
    assert isinstance(interaction, interactions.Interaction)


@given(st.dictionaries(st.sampled_from(_NAMES), _ANY))
def test_whatever_the_gateway_sends_is_a_message_or_nothing(content: dict[str, Any]) -> None:
    assert isinstance(read(content), Update | None)


def test_the_door_keeps_commands_and_refuses_what_discord_did_not_sign() -> None:
    kept: list[Update] = []

    def receive(update: Update) -> bool:
        kept.append(update)
        return True

    door = DiscordDoor(PUBLIC, receive)
    body = json.dumps(COMMAND).encode()
    assert door.take(BODY, "1000000", signature(), NOW) == {"type": 1}
    assert door.take(body, "1000000", signature(body=body), NOW)["type"] == 4
    assert door.take(b"not json", "1000000", signature(body=b"not json"), NOW) == {}
    for forged in (signature(), "0" * 128):
        with pytest.raises(UnsignedReportError, match="does not come from Discord"):
            door.take(body, "1000000", forged, NOW)
    assert [update.vendor_id for update in kept] == ["interaction/4444444"]


@each_case(
    ("answer", "delivery"),
    [
        (Answer(200, b'{"id": "77"}'), Sent("77")),
        (Answer(204, b""), Sent("")),
        (Answer(200, b"gateway page"), Uncertain("HTTP 200")),
        (Answer(429, b'{"retry_after": 64.57, "global": false}', "65"), Limited(64.57)),
        (Answer(429, b'{"retry_after": 1, "global": true}'), Limited(1.0, is_for_all=True)),
        (Answer(429, b"", "3", {"x-ratelimit-global": "true"}), Limited(3.0, is_for_all=True)),
        (Answer(429, b'{"retry_after": -1}', "x"), Limited(30.0)),
        (Answer(429, b'{"retry_after": 1e9}'), Limited(3600.0)),
        (Answer(403, b'{"message": "Cannot send", "code": 50007}'), Refused("Cannot send", is_blocked=True)),
        (Answer(404, b'{"message": "Unknown Channel", "code": 10003}'), Refused("Unknown Channel")),
        (Answer(401, b'{"message": "401: Unauthorized"}'), Away("401: Unauthorized", is_of_token=True)),
        (Answer(503, b"<html>"), Away("HTTP 503")),
    ],
)
def test_answers_of_discord(answer: Answer, delivery: Delivery) -> None:
    assert delivery_of(answer) == delivery


@given(st.integers(100, 599), st.binary(max_size=200), st.text(max_size=20))
def test_whatever_discord_answers_is_a_delivery(status: int, body: bytes, header: str) -> None:
    assert isinstance(delivery_of(Answer(status, body, header)), Sent | Limited | Away | Uncertain | Refused)


async def test_a_route_that_takes_no_more_is_waited_for_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    now, requests = [100.0], list[str]()
    answers = [Answer(200, b'{"id": "1"}', headers={"x-ratelimit-remaining": "0", "x-ratelimit-reset-after": "2.5"})]
    answers += [Answer(200, b'{"id": "2"}', headers={"x-ratelimit-remaining": "4"})] * 2

    async def call(_vendor: str, url: str, *_: object, **__: object) -> Answer:
        requests.append(url.rpartition("channels/")[2])
        return answers[len(requests) - 1]

    monkeypatch.setattr("hermesops.users.messaging.messengers.discord.send.call", call)
    bot = DiscordBot(lambda: "token", "http://127.0.0.1:9", lambda: now[0])
    part = Outgoing(1, Messenger.DISCORD, "5", "x", 0, OutgoingState.QUEUED, "", 0, None)
    assert await bot.send(part) == Sent("1")
    now[0] += 1
    assert await bot.send(part) == Limited(1.5)
    assert await bot.send(Outgoing(2, Messenger.DISCORD, "6", "x", 0, OutgoingState.QUEUED, "", 0, None)) == Sent("2")
    now[0] += 1.5
    assert await bot.send(part) == Sent("2")
    assert requests == ["5/messages", "6/messages", "5/messages"]


URL = "https://agents.test/webhooks/discord"
GOOD = Application("1", "hermes", PUBLIC, URL)


@each_case(
    ("judged", "verdict"),
    [
        (lambda: judged_application(GOOD, "1"), "ok"),
        (lambda: judged_application(GOOD, "2"), "failed"),
        (lambda: judged_webhook(GOOD, PUBLIC, URL), "ok"),
        (lambda: judged_webhook(GOOD, PUBLIC, ""), "ok"),
        (lambda: judged_webhook(GOOD, "ab" * 32, URL), "failed"),
        (lambda: judged_webhook(Application("1", "hermes", PUBLIC, ""), PUBLIC, URL), "failed"),
        (lambda: judged_webhook(GOOD, PUBLIC, "https://old.test"), "failed"),
        (lambda: judged_entrance(Entrance("wss://x", 1000, 3600)), "ok"),
        (lambda: judged_entrance(Entrance("wss://x", 49, 3600)), "warning"),
    ],
)
def test_an_application_is_ours_and_sends_commands_to_us(judged: Callable[[], Any], verdict: str) -> None:
    assert judged().verdict == verdict
