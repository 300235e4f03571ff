"""Parts that a messenger takes after its user's next message, on either database, in any order of what is recorded."""

from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest

from hermesops.model.fleet.instance import Instance
from hermesops.model.messaging.message import IncomingKind, Outgoing, OutgoingState, Update
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.accounts import MessengerAccounts
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.store.message_rows.outgoing import KEPT, Draft, OutgoingMessages
from hermesops.store.registry.database import Database
from tests.support.real.stores.registries import KEYS, TurnedClock

WHATSAPP, DIGEST, NUMBER = Messenger.WHATSAPP, "d" * 40, "15550001111"


@pytest.fixture
def incoming(database: Database) -> IncomingMessages:
    return IncomingMessages(database, KEYS)


@pytest.fixture
def outgoing(database: Database) -> OutgoingMessages:
    return OutgoingMessages(database, KEYS)


def write(incoming: IncomingMessages, clock: TurnedClock, id_: str, *, late: float = 0.0, number: str = NUMBER) -> None:
    """Have a person write. ``late``: seconds after which it is known here."""
    written_at = clock.timestamp - timedelta(seconds=late)
    update = Update(
        *(WHATSAPP, id_, IncomingKind.MESSAGE, DIGEST, DIGEST), text="x", address=number, written_at=written_at
    )
    assert incoming.add(update)


def sending(outgoing: OutgoingMessages) -> Outgoing:
    """A part that is being sent."""
    outgoing.add(Draft("origin", WHATSAPP, DIGEST, ("hello",)))
    (part,) = outgoing.due(WHATSAPP)
    assert outgoing.sending(part.id)
    return part


@pytest.mark.parametrize(
    "order", [("look", "report", "record"), ("look", "record", "report"), ("record", "look", "report")]
)
def test_a_report_that_a_part_failed_holds_whenever_it_comes(
    incoming: IncomingMessages, outgoing: OutgoingMessages, clock: TurnedClock, order: Sequence[str]
) -> None:
    write(incoming, clock, "wamid.1")
    clock.turn(1)
    part = sending(outgoing)
    looked: list[Outgoing] = []

    def look() -> None:
        taken = outgoing.taken(part.id, WHATSAPP, "wamid.out")
        assert taken is not None
        looked.append(taken)

    steps: dict[str, Callable[[], object]] = {
        "look": look,
        "report": lambda: outgoing.fail(looked[0], OutgoingState.WAITING, timedelta(), "closed"),
        "record": lambda: outgoing.end(part.id, OutgoingState.SENT, vendor_id="wamid.out"),
    }
    for step in order:
        steps[step]()
    assert outgoing.due(WHATSAPP) == (), "it waits for another message"
    clock.turn(1)
    write(incoming, clock, "wamid.2")
    assert [(each.text, each.address, each.is_open) for each in outgoing.due(WHATSAPP)] == [("hello", NUMBER, True)]
    assert outgoing.sending(part.id)
    outgoing.end(part.id, OutgoingState.SENT, vendor_id="wamid.again")
    assert outgoing.taken(part.id, WHATSAPP, "wamid.out") is None, "a late report of the first attempt"
    assert outgoing.taken(part.id, Messenger.TELEGRAM, "wamid.again") is None


def test_a_window_ends_a_day_after_the_message_was_written_and_not_after_it_came(
    incoming: IncomingMessages, outgoing: OutgoingMessages, clock: TurnedClock
) -> None:
    write(incoming, clock, "wamid.1", late=86_000)
    outgoing.add(Draft("origin", WHATSAPP, DIGEST, ("hello",)))
    assert [part.is_open for part in outgoing.due(WHATSAPP)] == [True]
    clock.turn(400)
    assert [part.is_open for part in outgoing.due(WHATSAPP)] == [False]
    (part,) = outgoing.due(WHATSAPP)
    outgoing.sending(part.id)
    outgoing.wait(part, "closed")
    clock.turn(1)
    write(incoming, clock, "wamid.0", late=90_000, number="15550002222")
    assert outgoing.due(WHATSAPP) == (), "an older message opens nothing"
    write(incoming, clock, "wamid.2")
    assert [part.address for part in outgoing.due(WHATSAPP)] == [NUMBER]


def test_a_part_waits_for_thirty_days_and_addresses_of_strangers_are_kept_no_longer(
    database: Database, incoming: IncomingMessages, outgoing: OutgoingMessages, ada: Instance, clock: TurnedClock
) -> None:
    accounts = MessengerAccounts(database, KEYS)
    write(incoming, clock, "wamid.1")
    assert accounts.link(accounts.add_code(ada.user_id), WHATSAPP, DIGEST, DIGEST, "Ada")
    part = sending(outgoing)
    outgoing.wait(part, "closed")
    clock.turn(KEPT.total_seconds() + 1)
    outgoing.forget()
    assert outgoing.due(WHATSAPP) == ()
    outgoing.add(Draft("another", WHATSAPP, DIGEST, ("hi",)))
    assert [each.address for each in outgoing.due(WHATSAPP)] == [NUMBER], "a linked account's address stays"
    accounts.unlink(ada.user_id, WHATSAPP)
    outgoing.forget()
    assert [each.address for each in outgoing.due(WHATSAPP)] == [""]
