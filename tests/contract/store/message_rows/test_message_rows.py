"""Rows of messengers, on either database: a code links once, a message is kept once, a chat has one under way."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import sqlalchemy as sa

from hermesops.access.secrets.keyring.key_ring import KeyRing
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import UserId
from hermesops.model.messaging.message import IncomingKind, IncomingState, OutgoingState, Update
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.accounts import CODE_LIFE, MOST_CODES, MessengerAccounts
from hermesops.store.message_rows.gateways import Gateways
from hermesops.store.message_rows.incoming import KEPT, TEXT_KEPT, IncomingMessages
from hermesops.store.message_rows.outgoing import Draft, OutgoingMessages
from hermesops.store.message_rows.sockets import AgentSockets
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from tests.support.real.stores.registries import KEYS, TurnedClock, placed

TELEGRAM = Messenger.TELEGRAM


@pytest.fixture
def accounts(database: Database) -> MessengerAccounts:
    return MessengerAccounts(database, KEYS)


@pytest.fixture
def incoming(database: Database) -> IncomingMessages:
    return IncomingMessages(database, KEYS)


@pytest.fixture
def outgoing(database: Database) -> OutgoingMessages:
    return OutgoingMessages(database, KEYS)


def update(number: int, text: str = "hello", account: str = "111") -> Update:
    return Update(TELEGRAM, str(number), IncomingKind.MESSAGE, account, account, text=text, display="Ada")


def queued(incoming: IncomingMessages, ada: Instance, *numbers: int, account: str = "111") -> list[int]:
    for number in numbers:
        assert incoming.add(update(number, f"text {number}", account))
    ids = [message.id for message in incoming.received() if message.account == account]
    assert all(incoming.queue(id_, ada.user_id, ada.id) for id_ in ids)
    return ids


def test_a_code_links_one_account_once_within_ten_minutes(
    accounts: MessengerAccounts, ada: Instance, clock: TurnedClock
) -> None:
    code = accounts.add_code(ada.user_id)
    with ThreadPoolExecutor(6) as pool:
        links = list(pool.map(lambda n: accounts.link(code, TELEGRAM, f"{n}", f"{n}", "x"), range(6)))
    assert sorted(links, key=str) == [None, *[None] * 4, ada.user_id] or links.count(ada.user_id) == 1
    assert len(accounts.of_user(ada.user_id)) == 1
    late = accounts.add_code(ada.user_id)
    clock.turn(CODE_LIFE.total_seconds() + 1)
    assert accounts.link(late, TELEGRAM, "7", "7", "x") is None
    assert accounts.link("ABCDEFGH23456789", TELEGRAM, "7", "7", "x") is None


def test_a_code_may_be_typed_in_small_letters_and_few_are_valid_at_once(
    accounts: MessengerAccounts, ada: Instance, clock: TurnedClock
) -> None:
    codes = []
    for _ in range(MOST_CODES + 1):
        codes.append(accounts.add_code(ada.user_id))
        clock.turn(1)
    assert accounts.link(codes[0], TELEGRAM, "1", "1", "x") is None
    assert accounts.link(codes[1].lower(), TELEGRAM, "1", "1", "x") == ada.user_id


def test_the_newest_link_of_an_account_and_of_a_chat_counts(
    accounts: MessengerAccounts, registry: Registry, ada: Instance
) -> None:
    bob = placed(registry, "bob")
    assert accounts.link(accounts.add_code(ada.user_id), TELEGRAM, "1", "1", "Ada") == ada.user_id
    assert accounts.link(accounts.add_code(bob.user_id), TELEGRAM, "1", "1", "Ada") == bob.user_id
    account = accounts.get(TELEGRAM, "1")
    assert account is not None
    assert (account.user_id, account.display, account.blocked_at) == (bob.user_id, "Ada", None)
    assert accounts.of_user(ada.user_id) == ()
    accounts.mark_blocked(TELEGRAM, "1", is_blocked=True)
    blocked = accounts.of_chat(TELEGRAM, "1")
    assert blocked is not None
    assert blocked.blocked_at is not None
    assert accounts.unlink(bob.user_id, TELEGRAM) == 1
    assert accounts.get(TELEGRAM, "1") is None


def test_a_report_that_is_repeated_is_kept_once(incoming: IncomingMessages, ada: Instance) -> None:
    assert ada
    with ThreadPoolExecutor(8) as pool:
        kept = list(pool.map(lambda _: incoming.add(update(5)), range(8)))
    assert kept.count(True) == 1
    assert [message.text for message in incoming.received()] == ["hello"]


def test_a_chat_has_one_message_under_way_in_the_order_of_arrival(
    incoming: IncomingMessages, ada: Instance, clock: TurnedClock
) -> None:
    first, second = queued(incoming, ada, 1, 2)
    queued(incoming, ada, 3, account="222")
    assert [message.text for message in incoming.waiting(ada.id)] == ["text 1", "text 3"]
    assert incoming.send(second, 1) is not None, "the row allows it: order is the caller's"
    assert incoming.send(first, 1) is None, "another message of the chat is under way"
    assert incoming.queue_again(second)
    sent = incoming.send(first, 4)
    assert sent is not None
    assert (sent.state, sent.fence, sent.tries, sent.chat) == (IncomingState.SENT, 4, 1, "tg.111")
    assert [message.text for message in incoming.waiting(ada.id)] == ["text 3"]
    incoming.taken(first, ada.id, 3)  # an older socket's word
    assert [message.state for message in incoming.under_way(ada.id)] == [IncomingState.SENT]
    incoming.taken(first, ada.id, 4)
    at_work = incoming.at_work(TELEGRAM, "111")
    assert at_work is not None
    assert (at_work.id, at_work.state) == (first, IncomingState.TAKEN)
    assert incoming.end(first, IncomingState.ANSWERED)
    assert not incoming.end(first, IncomingState.DEAD)
    assert [message.text for message in incoming.waiting(ada.id)] == ["text 2", "text 3"]
    clock.turn((TEXT_KEPT + timedelta(minutes=1)).total_seconds())
    assert incoming.forget() == 1
    clock.turn(KEPT.total_seconds())
    incoming.forget()
    assert incoming.add(update(1)), "its row is gone, and no messenger repeats a report for so long"


def test_a_message_is_sent_at_once_only_where_none_of_its_chat_is_before_it(
    incoming: IncomingMessages, ada: Instance
) -> None:
    for number, account in ((1, "111"), (2, "111"), (3, "222")):
        assert incoming.add(update(number, f"text {number}", account))
    first, second, other = (message.id for message in incoming.received())
    assert incoming.send_received(second, ada.user_id, ada.id, 7) is None, "the first one is not routed yet"
    sent = incoming.send_received(first, ada.user_id, ada.id, 7)
    assert sent
    assert (sent.text, sent.state, sent.fence, sent.tries) == ("text 1", IncomingState.SENT, 7, 1)
    assert (sent.user_id, sent.instance_id) == (ada.user_id, ada.id)
    assert incoming.send_received(first, ada.user_id, ada.id, 7) is None, "it is under way already"
    assert incoming.send_received(second, ada.user_id, ada.id, 7) is None, "the agent is at the first one"
    assert incoming.send_received(other, ada.user_id, ada.id, 7), "another chat"
    assert incoming.queue(second, ada.user_id, ada.id)
    assert incoming.end(first, IncomingState.ANSWERED)
    assert [message.text for message in incoming.waiting(ada.id)] == ["text 2"]


def test_of_many_that_send_at_once_one_does(incoming: IncomingMessages, ada: Instance) -> None:
    ids = queued(incoming, ada, 1, 2, 3)
    with ThreadPoolExecutor(6) as pool:
        sent = list(pool.map(lambda n: incoming.send(ids[n % 3], 1), range(6)))
    assert len([message for message in sent if message]) == 1


def test_texts_are_sealed_and_a_message_without_its_key_can_still_end(
    database: Database, incoming: IncomingMessages, ada: Instance
) -> None:
    (id_,) = queued(incoming, ada, 1)
    with database.reading() as connection:
        assert "text 1" not in str(connection.execute(sa.text("SELECT * FROM incoming_messages")).all())
    elsewhere = IncomingMessages(database, KeyRing("k2", {"k2": bytes(32)}))
    (message,) = elsewhere.waiting(ada.id)
    assert (message.id, message.text) == (id_, "")
    assert elsewhere.end(id_, IncomingState.DEAD)


def test_parts_go_out_in_order_one_of_a_chat_at_a_time(
    outgoing: OutgoingMessages, ada: Instance, clock: TurnedClock
) -> None:
    draft = Draft("i/r1", TELEGRAM, "111", ("one", "two"), ada.id, 7)
    assert outgoing.add(draft) == 2
    assert outgoing.add(draft) == 0
    assert outgoing.add(Draft("i/r2", TELEGRAM, "222", ("three",))) == 1
    assert [part.text for part in outgoing.due(TELEGRAM)] == ["one", "three"]
    first = outgoing.due(TELEGRAM)[0]
    assert outgoing.sending(first.id)
    assert [part.text for part in outgoing.due(TELEGRAM)] == ["three"]
    outgoing.again(first.id, OutgoingState.QUEUED, timedelta(seconds=9))
    assert [part.text for part in outgoing.due(TELEGRAM)] == ["three"], "nothing of a limited chat goes out"
    clock.turn(10)
    assert [part.text for part in outgoing.due(TELEGRAM)] == ["one", "three"]
    outgoing.end(first.id, OutgoingState.SENT, vendor_id="5")
    assert not outgoing.sending(first.id)
    assert [part.text for part in outgoing.due(TELEGRAM)] == ["two", "three"]
    assert [(part.text, part.state) for part in outgoing.of(7)] == [
        ("one", OutgoingState.SENT),
        ("two", OutgoingState.QUEUED),
    ]


def test_a_part_that_a_dead_process_was_sending_is_uncertain(outgoing: OutgoingMessages, ada: Instance) -> None:
    outgoing.add(Draft("i/r1", TELEGRAM, "111", ("one",), ada.id))
    (part,) = outgoing.due(TELEGRAM)
    assert outgoing.sending(part.id)
    assert outgoing.left_over() == 1
    (again,) = outgoing.due(TELEGRAM)
    assert (again.state, again.tries) == (OutgoingState.UNCERTAIN, 1)


def test_the_newest_socket_of_an_agent_holds_it(database: Database, ada: Instance) -> None:
    sockets = AgentSockets(database)
    with ThreadPoolExecutor(6) as pool:
        fences = list(pool.map(lambda n: sockets.take(ada.id, f"p{n}"), range(6)))
    assert sorted(fences) == [1, 2, 3, 4, 5, 6]
    newest = f"p{fences.index(6)}"
    assert [holder for n in range(6) if sockets.held(holder := f"p{n}")] == [newest]
    assert sockets.held(newest) == {ada.id: 6}
    sockets.release(ada.id, 5)
    assert sockets.held(newest) == {ada.id: 6}
    sockets.release(ada.id, 6)
    assert sockets.held(newest) == {}


def test_gateways_of_agents_that_are_there_have_generations(database: Database, ada: Instance) -> None:
    gateways = Gateways(database)
    assert list(gateways.generations(ada.id)) == [1]
    for other in (UserId("x"), "'; drop table users", str(ada.user_id)):
        assert list(gateways.generations(other)) == []  # type: ignore[arg-type]
