"""Messages as operators see them, on either database: where each is, never a text, and answers that are sent again."""

from dataclasses import asdict, replace
from datetime import timedelta

import pytest

from hermesops.agents.drift.history.timeline import instance_timeline
from hermesops.errors import RefusedError, UsageError
from hermesops.model.fleet.instance import Instance
from hermesops.model.messaging.message import IncomingKind, IncomingState, OutgoingState, Update
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.accounts import MessengerAccounts
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.store.message_rows.outgoing import Draft, OutgoingMessages
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.users.messaging.directory import MessageDirectory
from hermesops.users.messaging.outbound.delivery import Uncertain, record_of
from tests.support.real.stores.registries import KEYS, TurnedClock, placed

TELEGRAM = Messenger.TELEGRAM
CANARY = "canary-words"


@pytest.fixture
def directory(registry: Registry) -> MessageDirectory:
    return MessageDirectory(registry)


@pytest.fixture
def outgoing(database: Database) -> OutgoingMessages:
    return OutgoingMessages(database, KEYS)


def asked(database: Database, ada: Instance, number: int = 1, account: str = "111") -> int:
    """Queue a message of ada's; its id."""
    incoming = IncomingMessages(database, KEYS)
    text = f"{CANARY} {number}"
    assert incoming.add(
        Update(TELEGRAM, str(number), IncomingKind.MESSAGE, account, account, text=text, display=CANARY)
    )
    [message] = incoming.received()
    assert incoming.queue(message.id, ada.user_id, ada.id)
    return message.id


def answered(outgoing: OutgoingMessages, ada: Instance, incoming_id: int | None = None, parts: int = 1) -> list[int]:
    """Queue an answer; ids of its parts."""
    origin, texts = f"{ada.id}/{incoming_id}", tuple(f"{CANARY} {part}" for part in range(parts))
    outgoing.add(Draft(origin, TELEGRAM, "111", texts, ada.id, incoming_id))
    return [record.id for record in outgoing.of(incoming_id)] if incoming_id else [outgoing.due(TELEGRAM)[0].id]


def test_both_ways_are_listed_newest_first_without_a_word_of_anybody(
    database: Database, directory: MessageDirectory, outgoing: OutgoingMessages, ada: Instance, clock: TurnedClock
) -> None:
    number = asked(database, ada)
    clock.turn(5)
    first, second = answered(outgoing, ada, number, parts=2)
    records = directory.list()
    assert [record.id for record in records][-1] == f"in-{number}"
    assert {record.id for record in records} == {f"in-{number}", f"out-{first}", f"out-{second}"}
    assert {record.user_id for record in records} == {ada.user_id}
    assert [record.part for record in directory.get(f"in-{number}").answers] == [0, 1]
    answered_message = directory.get(f"out-{second}").answered
    assert answered_message is not None
    assert answered_message.id == f"in-{number}"
    shown = [asdict(record) for record in records]
    assert CANARY not in repr(shown)
    assert "111" not in [value for fields in shown for value in fields.values()]


def test_lists_are_narrowed(
    database: Database, registry: Registry, directory: MessageDirectory, outgoing: OutgoingMessages, ada: Instance
) -> None:
    bob = placed(registry, "bob")
    number = asked(database, bob, 2, "222")
    part = answered(outgoing, ada)[0]
    assert [record.id for record in directory.list(user="bob")] == [f"in-{number}"]
    assert [record.id for record in directory.list(user="ada")] == [f"out-{part}"]
    assert [record.id for record in directory.list(user=bob.user_id, state="dead")] == []
    assert directory.list(messenger="slack") == ()
    assert len(directory.list(limit=1)) == 1


@pytest.mark.parametrize("is_refused", [True, False])
def test_an_answer_that_failed_is_sent_again_and_the_audit_log_says_why(
    directory: MessageDirectory,
    outgoing: OutgoingMessages,
    registry: Registry,
    ada: Instance,
    is_refused: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    number = answered(outgoing, ada)[0]
    if is_refused:
        outgoing.end(number, OutgoingState.REFUSED, detail="Bad Request: chat not found")
    else:
        [part] = outgoing.due(TELEGRAM)
        outgoing.again(number, OutgoingState.UNCERTAIN, timedelta(seconds=5))
        twice = record_of(replace(part, state=OutgoingState.UNCERTAIN), Uncertain("no answer"))
        outgoing.end(number, twice.state, detail=twice.detail)
    assert outgoing.due(TELEGRAM) == ()
    record = directory.retry(f"out-{number}", reason="the chat is back")
    assert (record.state, record.ended_at, record.detail) == ("queued", None, "")
    assert [part.id for part in outgoing.due(TELEGRAM)] == [number]
    [entry] = [entry for entry in registry.audit.list() if entry.action == "message_retried"]
    assert (entry.subject, entry.why) == (f"message/out-{number}", "the chat is back")


def test_what_needs_no_person_is_not_sent_again(
    database: Database, directory: MessageDirectory, outgoing: OutgoingMessages, ada: Instance, clock: TurnedClock
) -> None:
    number = asked(database, ada)
    sent, queued = answered(outgoing, ada, number, parts=2)
    outgoing.end(sent, OutgoingState.SENT, vendor_id="1")
    for message, why in (
        (f"in-{number}", "goes to the agent again by itself"),
        (f"out-{sent}", "was delivered"),
        (f"out-{queued}", "is sent by itself"),
    ):
        with pytest.raises(RefusedError, match=why):
            directory.retry(message, reason="test")
    outgoing.end(queued, OutgoingState.REFUSED)
    clock.turn(90_000)
    outgoing.forget()
    with pytest.raises(RefusedError, match="its text is not kept any more"):
        directory.retry(f"out-{queued}", reason="test")
    with pytest.raises(UsageError, match="say why"):
        directory.retry(f"out-{queued}", reason=" ")


def test_nothing_is_sent_again_to_who_blocked_the_bot(
    database: Database, directory: MessageDirectory, outgoing: OutgoingMessages, ada: Instance
) -> None:
    accounts = MessengerAccounts(database, KEYS)
    assert accounts.link(accounts.add_code(ada.user_id), TELEGRAM, "111", "111", "Ada")
    number = answered(outgoing, ada)[0]
    outgoing.end(number, OutgoingState.REFUSED, detail="Forbidden")
    accounts.mark_blocked(TELEGRAM, "111", is_blocked=True)
    with pytest.raises(RefusedError, match="has blocked the bot"):
        directory.retry(f"out-{number}", reason="test")
    count = directory.counts()["telegram"]
    assert (count.linked, count.blocked, count.waiting, count.undelivered) == (1, 1, 0, 0)


def test_open_messages_are_counted_with_the_age_of_the_oldest(
    database: Database, directory: MessageDirectory, outgoing: OutgoingMessages, ada: Instance, clock: TurnedClock
) -> None:
    assert directory.counts() == {}
    number = asked(database, ada)
    began = directory.get(f"in-{number}").record.began_at
    clock.turn(60)
    answered(outgoing, ada, number, parts=2)
    count = directory.counts()["telegram"]
    assert (count.waiting, count.undelivered, count.oldest_at) == (1, 2, began)
    IncomingMessages(database, KEYS).end(number, IncomingState.DEAD)
    assert directory.counts()["telegram"].waiting == 0


@pytest.mark.parametrize("text", ["", "1", "in-", "in-x", "in-1 or 1=1", "OUT-1", "out-9999999999999999999"])
def test_what_is_no_id_is_named(directory: MessageDirectory, text: str) -> None:
    with pytest.raises(UsageError, match="MESSAGE is in-NUMBER or out-NUMBER"):
        directory.get(text)


def test_an_unknown_message_is_named(directory: MessageDirectory) -> None:
    with pytest.raises(UsageError, match="no message 'out-7'"):
        directory.get("out-7")


def test_a_timeline_has_an_agents_own_messages_since_a_moment(
    database: Database, registry: Registry, ada: Instance, clock: TurnedClock
) -> None:
    bob = placed(registry, "bob")
    asked(database, ada)
    clock.turn(60)
    asked(database, bob, 2, "222")
    since = registry.now()
    asked(database, ada, 3)
    assert [receipt.state for receipt in registry.messages.received_by(ada.id, None, limit=10)] == ["queued"] * 2
    assert len(registry.messages.received_by(ada.id, since, limit=10)) == 1
    assert registry.messages.received_by(ada.id, None, limit=1)[0].at >= since
    [counted] = [each for each in instance_timeline(registry, ada, since) if each.what == "messages_received"]
    assert counted.detail == "telegram: 1 message, 1 queued"
