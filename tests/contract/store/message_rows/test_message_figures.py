"""What operators see of messengers, from rows of either database: users and sockets, and no word of anybody."""

from dataclasses import replace

import pytest

from hermesops.automation.monitor.metrics.figures import FleetFigures, messaging_series
from hermesops.model.chat.transcript import Transcript
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.messaging.figures import MessagingFigures, MessengerUsers
from hermesops.model.messaging.message import IncomingKind, IncomingState, Outgoing, OutgoingState, Update
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.accounts import MessengerAccounts
from hermesops.store.message_rows.bot_sessions import BotSessions
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.store.message_rows.outgoing import Draft, OutgoingMessages
from hermesops.store.message_rows.sockets import AgentSockets
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.store.registry.schema.tables import hermes_instances
from hermesops.users.messaging.outbound.delivery import Away, Delivery, Limited, Sent, Uncertain, record_of
from hermesops.users.messaging.recovery.reconcile import ChatView, GiveUp, SendAgain, reconcile
from tests.support.real.stores.registries import KEYS, TurnedClock, placed

TELEGRAM = Messenger.TELEGRAM
EMPTY = ChatView(Transcript(()))


class Rows:
    """Rows of messengers, as the processes of the users' half write them."""

    def __init__(self, registry: Registry, database: Database) -> None:
        self.registry = registry
        self.database = database
        self.accounts = MessengerAccounts(database, KEYS)
        self.incoming = IncomingMessages(database, KEYS)
        self.outgoing = OutgoingMessages(database, KEYS)
        self.sockets = AgentSockets(database)
        self._count = 0

    def figures(self) -> MessagingFigures:
        return self.registry.message_figures.read()

    def agent(self, user: str, *, accounts: int = 1) -> Instance:
        """A running agent whose user has linked accounts."""
        instance = placed(self.registry, user)
        with self.database.writing() as connection:
            is_it = hermes_instances.c.id == instance.id
            connection.execute(hermes_instances.update().where(is_it).values(status=InstanceStatus.RUNNING))
        for number in range(accounts):
            account = f"{user}-{number}"
            self.accounts.link(self.accounts.add_code(instance.user_id), TELEGRAM, account, account, user)
        return instance

    def hears(self, instance: Instance, chat: str, *, is_queued: bool = True) -> int:
        """A message of a user, and its id."""
        self._count += 1
        vendor_id = f"u{self._count}"
        self.incoming.add(Update(TELEGRAM, vendor_id, IncomingKind.MESSAGE, chat, chat, "canary words", "Ada"))
        [message] = [each for each in self.incoming.received() if each.vendor_id == vendor_id]
        if is_queued:
            self.incoming.queue(message.id, instance.user_id, instance.id)
        return message.id

    def writes(self, instance: Instance, chat: str) -> Outgoing:
        """A message of an agent."""
        self._count += 1
        self.outgoing.add(Draft(f"{instance.id}/r{self._count}", TELEGRAM, chat, ("canary words",), instance.id))
        return next(each for each in self.outgoing.due(TELEGRAM) if each.vendor_chat == chat)

    def try_once(self, outgoing: Outgoing, delivery: Delivery) -> None:
        """Record an attempt, as the sender does."""
        self.outgoing.sending(outgoing.id)
        record = record_of(replace(outgoing, tries=outgoing.tries + 1), delivery)
        if record.is_end:
            self.outgoing.end(outgoing.id, record.state, vendor_id=record.vendor_id, detail=record.detail)
        else:
            self.outgoing.again(outgoing.id, record.state, record.after, record.detail)


@pytest.fixture
def rows(registry: Registry, database: Database) -> Rows:
    return Rows(registry, database)


def of_telegram(rows: Rows) -> MessengerUsers:
    return next(each for each in rows.figures().messengers if each.messenger == TELEGRAM)


def test_a_message_that_nobody_routes_counts_after_a_minute(rows: Rows, clock: TurnedClock) -> None:
    ada = rows.agent("ada")
    rows.hears(ada, "ada-0", is_queued=False)
    rows.hears(ada, "ada-0", is_queued=False)
    rows.hears(ada, "stranger", is_queued=False)
    clock.turn(60)
    assert rows.figures().unrouted == 0
    clock.turn(1)
    assert rows.figures().unrouted == 2, "accounts, and not messages"


def test_a_message_is_held_only_where_an_open_socket_could_take_it(rows: Rows, clock: TurnedClock) -> None:
    ada = rows.agent("ada", accounts=2)
    first = rows.hears(ada, "ada-0")
    rows.hears(ada, "ada-0")
    rows.hears(ada, "ada-1")
    clock.turn(61)
    assert rows.figures().held == 0, "without a socket"
    fence = rows.sockets.take(ada.id, "connector")
    assert rows.figures().held == 1, "a user, and not a chat"
    rows.incoming.end(rows.hears(ada, "ada-1"), IncomingState.DEAD, "t")
    for message in rows.incoming.waiting(ada.id):
        assert rows.incoming.send(message.id, fence)
    assert rows.figures().held == 0, "the agent is at the first message of each chat"
    rows.incoming.end(first, IncomingState.ANSWERED)
    assert rows.figures().held == 1, "and now at none of the first chat"
    clock.turn(61)
    assert rows.figures().held == 0, "nobody has seen the socket for a minute"
    rows.sockets.held("connector")
    assert rows.figures().held == 1
    rows.sockets.release(ada.id, fence)
    assert rows.figures().held == 0


def test_messages_that_an_agent_had_and_did_not_answer_count_for_minutes(rows: Rows, clock: TurnedClock) -> None:
    ada, bob, cyd = (rows.agent(user) for user in ("ada", "bob", "cyd"))
    fence = rows.sockets.take(ada.id, "connector")
    lost = rows.incoming.send(rows.hears(ada, "ada-0"), fence)
    assert lost
    for tries, outcome in ((1, SendAgain()), (3, GiveUp("not taken"))):
        clock.turn(61)
        from_transcript = reconcile(replace(lost, tries=tries), EMPTY, clock())
        assert from_transcript == outcome
    rows.incoming.end(lost.id, IncomingState.DEAD, "not taken")
    rows.incoming.end(rows.hears(bob, "bob-0"), IncomingState.DEAD, "suspended")
    rows.incoming.end(rows.hears(cyd, "cyd-0"), IncomingState.ANSWERED)
    rows.incoming.end(rows.hears(cyd, "cyd-0"), IncomingState.ANSWERED)
    figures = rows.figures()
    assert (figures.unanswered, figures.answered) == (1, 1)
    clock.turn(301)
    figures = rows.figures()
    assert (figures.unanswered, figures.answered) == (0, 0)


def test_answers_that_wait_are_counted_by_the_agents_users(rows: Rows, clock: TurnedClock) -> None:
    ada, bob = rows.agent("ada", accounts=3), rows.agent("bob")
    for number in range(3):
        rows.writes(ada, f"ada-{number}")
    rows.outgoing.add(Draft("platform/telegram/1", TELEGRAM, "stranger", ("canary words",)))
    clock.turn(301)
    rows.try_once(rows.writes(bob, "bob-0"), Sent("17"))
    assert of_telegram(rows) == MessengerUsers("telegram", linked=2, undelivered=1, delivered=1)
    clock.turn(301)
    assert of_telegram(rows).delivered == 0


def test_a_refused_token_is_told_of_at_once_and_until_the_answer_is_there(rows: Rows, clock: TurnedClock) -> None:
    ada = rows.agent("ada")
    outgoing = rows.writes(ada, "ada-0")
    for delivery, refused in (
        (Limited(5), 0),
        (Away("HTTP 502"), 0),
        (Away("Unauthorized", is_of_token=True), 1),
        (Away("HTTP 502"), 0),
        (Away("Unauthorized", is_of_token=True), 1),
        (Sent("17"), 0),
    ):
        rows.try_once(outgoing, delivery)
        assert of_telegram(rows).refused == refused, delivery
        clock.turn(61)


def test_an_answer_of_which_the_messenger_says_nothing_counts_for_minutes(rows: Rows, clock: TurnedClock) -> None:
    ada = rows.agent("ada")
    outgoing = rows.writes(ada, "ada-0")
    rows.try_once(outgoing, Uncertain("ReadTimeout"))
    assert (of_telegram(rows).uncertain, of_telegram(rows).delivered) == (1, 0)
    rows.try_once(replace(outgoing, state=OutgoingState.UNCERTAIN), Uncertain("ReadTimeout"))
    assert (of_telegram(rows).uncertain, of_telegram(rows).delivered) == (1, 0)
    clock.turn(301)
    assert of_telegram(rows).uncertain == 0


def test_answers_for_silent_users_are_not_undelivered(rows: Rows, clock: TurnedClock) -> None:
    ada = rows.agent("ada")
    outgoing = rows.writes(ada, "ada-0")
    rows.outgoing.sending(outgoing.id)
    rows.outgoing.wait(outgoing, "outside of the 24 hours")
    clock.turn(3600)
    assert (of_telegram(rows).waiting, of_telegram(rows).undelivered) == (1, 0)


def test_a_bots_session_is_told_of_where_somebody_has_linked_an_account(rows: Rows, clock: TurnedClock) -> None:
    sessions, ada = BotSessions(rows.database), rows.agent("ada")
    sessions.note(Messenger.DISCORD)
    assert rows.figures().sessions == {}, "nobody uses it"
    rows.accounts.link(rows.accounts.add_code(ada.user_id), Messenger.DISCORD, "1", "1", "Ada")
    assert rows.figures().sessions == {"discord": True}
    clock.turn(181)
    assert rows.figures().sessions == {"discord": False}
    sessions.note(Messenger.DISCORD)
    assert rows.figures().sessions == {"discord": True}
    assert {
        dict(labels).get("messenger") for name, labels in messaging_series(rows.figures(), ()) if "session" in name
    } == {"discord"}


def test_blocked_accounts_count_for_a_day(rows: Rows, clock: TurnedClock) -> None:
    rows.agent("ada", accounts=2)
    rows.agent("bob")
    rows.accounts.mark_blocked(TELEGRAM, "ada-0", is_blocked=True)
    rows.accounts.mark_blocked(TELEGRAM, "bob-0", is_blocked=True)
    assert (of_telegram(rows).linked, of_telegram(rows).blocked) == (1, 2)
    clock.turn(24 * 3600 + 1)
    assert of_telegram(rows).blocked == 0


def test_running_agents_of_linked_users_should_have_a_socket(rows: Rows, clock: TurnedClock) -> None:
    ada, bob, cyd, dee = (rows.agent(user, accounts=user != "dee") for user in ("ada", "bob", "cyd", "dee"))
    rows.sockets.take(ada.id, "connector")
    rows.sockets.release(bob.id, rows.sockets.take(bob.id, "connector"))
    assert rows.figures().sockets == {ada.id: True, bob.id: False, cyd.id: False}
    assert set(rows.figures().without_socket) == {bob.id, cyd.id}
    with rows.database.writing() as connection:
        is_it = hermes_instances.c.id == cyd.id
        connection.execute(hermes_instances.update().where(is_it).values(status=InstanceStatus.SUSPENDED))
    rows.sockets.release(dee.id, rows.sockets.take(dee.id, "connector"))
    assert rows.figures().sockets == {ada.id: True, bob.id: False, dee.id: False}
    clock.turn(61)
    assert rows.figures().sockets[ada.id] is False, "its process has not seen it for a minute"


def test_sockets_are_told_of_where_there_is_a_connector(rows: Rows, clock: TurnedClock) -> None:
    ada = rows.agent("ada")

    def told(*, agents_dial: bool) -> dict[str, float]:
        fleet = rows.registry.fleet.expected(reason="t")
        series = FleetFigures(rows.registry, agents_dial=agents_dial).read(fleet).series
        return {
            dict(labels)["instance_id"]: value
            for (name, labels), value in series.items()
            if name == "hermesops_instance_socket"
        }

    assert told(agents_dial=False) == {}, "no connector, as far as anybody knows"
    assert told(agents_dial=True) == {ada.id: 0.0}
    rows.sockets.take(ada.id, "connector")
    assert told(agents_dial=False) == {ada.id: 1.0}
    clock.turn(25 * 3600)
    assert told(agents_dial=False) == {}


def test_series_have_no_word_that_a_user_chooses(rows: Rows, clock: TurnedClock) -> None:
    ada = rows.agent("ada")
    rows.hears(ada, "ada-0")
    rows.try_once(rows.writes(ada, "ada-0"), Away("canary words of a vendor", is_of_token=True))
    clock.turn(301)
    series = messaging_series(rows.figures(), {ada.id})
    words = {value for _, labels in series for _, value in labels}
    states = {"unrouted", "held", "unanswered", "answered", "linked", "blocked", "delivered", "undelivered", "refused"}
    assert words == {"telegram", ada.id, *states, "uncertain", "waiting"}
