"""The sender of a messenger: a limit of all chats counts for a part that has begun and is not sent yet."""

import time
from unittest.mock import patch

import pytest

from hermesops.base.bell import Bell
from hermesops.model.messaging.message import Outgoing, OutgoingState
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.accounts import MessengerAccounts
from hermesops.store.message_rows.agent_files import AgentFiles
from hermesops.store.message_rows.outgoing import Draft, OutgoingMessages
from hermesops.store.registry.database import Database
from hermesops.users.messaging.outbound.bots import SLACK_PACE
from hermesops.users.messaging.outbound.budget import Budget
from hermesops.users.messaging.outbound.delivery import Delivery, Sent
from hermesops.users.messaging.outbound.sender import Sender
from tests.support.real.stores.registries import KEYS, TurnedClock

pytestmark = pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)


async def test_a_part_is_not_sent_once_its_messenger_takes_nothing(database: Database, clock: TurnedClock) -> None:
    outgoing, budget, sent = OutgoingMessages(database, KEYS), Budget(SLACK_PACE), list[int]()

    async def send(part: Outgoing) -> Delivery:
        sent.append(part.id)
        return Sent("1")

    accounts, files = MessengerAccounts(database, KEYS), AgentFiles(database, KEYS)
    sender = Sender(Messenger.SLACK, outgoing, accounts, budget, send, Bell(), files)
    outgoing.add(Draft("origin", Messenger.SLACK, "D1", ("hello",)))
    (part,) = outgoing.due(Messenger.SLACK)
    begin = OutgoingMessages.sending

    def begin_while_another_part_comes_back(rows: OutgoingMessages, id_: int) -> bool:
        budget.hold(time.monotonic() + 9)
        return begin(rows, id_)

    with patch.object(OutgoingMessages, "sending", begin_while_another_part_comes_back):
        await sender._send(part)
    assert sent == []
    assert outgoing.due(Messenger.SLACK) == ()
    clock.turn(10)
    assert [each.state for each in outgoing.due(Messenger.SLACK)] == [OutgoingState.QUEUED]
