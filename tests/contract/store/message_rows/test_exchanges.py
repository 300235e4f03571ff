"""Answers of agents since a moment, as gates of rollouts count them, from rows of either database."""

from datetime import timedelta

from hermesops.model.fleet.instance import Instance
from hermesops.model.messaging.exchange import Exchange
from hermesops.model.messaging.message import IncomingKind, IncomingState, Update
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from tests.support.real.stores.registries import KEYS, TurnedClock, placed

TIMEOUT = timedelta(minutes=3)


def sent(incoming: IncomingMessages, instance: Instance, name: str, *, is_command: bool = False) -> int:
    """A message of another chat that was written to an agent's socket."""
    incoming.add(Update(Messenger.TELEGRAM, name, IncomingKind.MESSAGE, name, name, "canary words"))
    [message] = [each for each in incoming.received() if each.vendor_id == name]
    incoming.queue(message.id, instance.user_id, instance.id, is_command=is_command)
    assert incoming.send(message.id, 1)
    return message.id


def test_messages_count_once_they_are_answered_or_have_had_time(
    registry: Registry, database: Database, clock: TurnedClock, ada: Instance
) -> None:
    incoming, bob, began = IncomingMessages(database, KEYS), placed(registry, "bob"), clock()

    def counts() -> dict[str, Exchange]:
        exchanges = registry.messages.exchanges({ada.id: began, bob.id: began}, timeout=TIMEOUT)
        return {user: exchanges[agent.id] for user, agent in (("ada", ada), ("bob", bob)) if agent.id in exchanges}

    assert counts() == {}
    before = sent(incoming, ada, "before")
    incoming.end(before, IncomingState.ANSWERED)
    clock.turn(1)
    began = clock()
    clock.turn(1)
    incoming.end(sent(incoming, ada, "answered"), IncomingState.ANSWERED)
    sent(incoming, ada, "at work")
    incoming.end(sent(incoming, ada, "lost"), IncomingState.DEAD, "no answer")
    incoming.end(sent(incoming, ada, "suspended"), IncomingState.DEAD, "suspended")
    assert counts() == {"ada": Exchange(2, 1)}, "of after the change, and not the one that the agent is at"
    sent(incoming, bob, "bob")
    clock.turn(180)
    assert counts() == {"ada": Exchange(3, 1), "bob": Exchange(1, 0)}
    assert registry.messages.exchanges({}, timeout=TIMEOUT) == {}
