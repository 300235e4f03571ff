"""What is recorded of an attempt: an uncertain one is made again once, and an outage loses nothing."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from hermesops.model.messaging.message import Outgoing, OutgoingState
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.messengers.exchange import Answer
from hermesops.users.messaging.messengers.telegram.send import delivery_of
from hermesops.users.messaging.outbound.budget import Budget, Pace
from hermesops.users.messaging.outbound.delivery import (
    MOST_TRIES,
    Away,
    Delivery,
    Limited,
    Refused,
    Sent,
    Uncertain,
    record_of,
)
from tests.support.suite.cases import each_case

PART = Outgoing(1, Messenger.TELEGRAM, "111", "hello", 0, OutgoingState.QUEUED, "", 0, None)
AGAIN = Outgoing(1, Messenger.TELEGRAM, "111", "hello", 0, OutgoingState.UNCERTAIN, "", 1, None)


@each_case(
    ("part", "delivery", "state"),
    [
        (PART, Sent("7"), OutgoingState.SENT),
        (PART, Limited(9), OutgoingState.QUEUED),
        (AGAIN, Limited(9), OutgoingState.UNCERTAIN),
        (PART, Away("x"), OutgoingState.QUEUED),
        (AGAIN, Away("x"), OutgoingState.UNCERTAIN),
        (PART, Uncertain("x"), OutgoingState.UNCERTAIN),
        (AGAIN, Uncertain("x"), OutgoingState.SENT),
        (PART, Refused("x"), OutgoingState.REFUSED),
    ],
)
def test_a_part_may_be_sent_twice_and_never_a_third_time(
    part: Outgoing, delivery: Delivery, state: OutgoingState
) -> None:
    assert record_of(part, delivery).state is state


def test_a_messenger_that_is_away_is_asked_each_minute_for_a_day() -> None:
    waits = [
        record_of(Outgoing(1, Messenger.TELEGRAM, "1", "x", 0, OutgoingState.QUEUED, "", tries, None), Away("x"))
        for tries in range(MOST_TRIES + 1)
    ]
    assert waits[-1].state is OutgoingState.REFUSED
    assert max(record.after for record in waits) == timedelta(minutes=1)
    assert timedelta(hours=23) < sum((record.after for record in waits), timedelta()) < timedelta(hours=25)


@each_case(
    ("delivery", "detail"),
    [
        (Limited(9), "limited"),
        (Away("HTTP 502"), "away: HTTP 502"),
        (Away("Unauthorized", is_of_token=True), "token refused: Unauthorized"),
        (Sent("7"), ""),
    ],
)
def test_operators_read_why_a_part_waits(delivery: Delivery, detail: str) -> None:
    assert record_of(PART, delivery).detail == detail


@each_case(
    ("status", "answer", "delivery"),
    [
        (200, b'{"ok": true, "result": {"message_id": 5}}', Sent("5")),
        (200, b"gateway page", Uncertain("HTTP 200")),
        (429, b'{"ok": false, "parameters": {"retry_after": 17}}', Limited(17.0)),
        (429, b'{"ok": false, "parameters": {"retry_after": 1e9}}', Limited(10_800.0)),
        (429, b"", Limited(30.0)),
        (
            403,
            b'{"description": "Forbidden: bot was blocked by the user"}',
            Refused("Forbidden: bot was blocked by the user", is_blocked=True),
        ),
        (400, b'{"description": "Bad Request: message is too long"}', Refused("Bad Request: message is too long")),
        (401, b'{"description": "Unauthorized"}', Away("Unauthorized", is_of_token=True)),
        (404, b'{"description": "Not Found"}', Away("Not Found", is_of_token=True)),
        (502, b"<html>", Away("HTTP 502")),
    ],
)
def test_answers_of_telegram(status: int, answer: bytes, delivery: Delivery) -> None:
    assert delivery_of(Answer(status, answer)) == delivery


@given(st.integers(100, 599), st.binary(max_size=200))
def test_whatever_telegram_answers_is_a_delivery(status: int, answer: bytes) -> None:
    assert isinstance(delivery_of(Answer(status, answer)), Sent | Limited | Away | Uncertain | Refused)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 0.4)), max_size=80))
def test_a_budget_is_never_exceeded(steps: list[tuple[str, float]]) -> None:
    budget, now, taken = Budget(Pace(chat_s=1.0, a_second=2)), 0.0, list[tuple[float, str]]()
    for chat, later in steps:
        now += later
        if budget.take(chat, now):
            taken.append((now, chat))
    for at, chat in taken:
        within = [each for each in taken if at <= each[0] < at + 1.0]
        assert len(within) <= 2
        assert len([each for each in within if each[1] == chat]) == 1
