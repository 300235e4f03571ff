"""Rows of ``messenger_chats``: where bots write to, and until when they may."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.model.messaging.message import Update
from hermesops.model.messaging.messenger import WINDOWS, Messenger
from hermesops.store.registry.encryption.sealing import Sealer, place
from hermesops.store.registry.repositories.base import insert_if_absent
from hermesops.store.registry.schema.messaging_tables import messenger_accounts, messenger_chats, outgoing_messages

KEPT = timedelta(days=30)
"""How long the address of a person is kept who has linked no account and wrote nothing more."""

_COLUMNS = messenger_chats.c
_EARLIER = timedelta(minutes=1)
"""By how much a window ends earlier here: a message takes some time until the messenger looks at it."""

OF_OUTGOING = sa.and_(
    _COLUMNS.messenger == outgoing_messages.c.messenger, _COLUMNS.vendor_chat == outgoing_messages.c.vendor_chat
)
"""Joins the chat of an outgoing message."""


@dataclass(frozen=True)
class Chats:
    """Chats within a transaction of somebody else's.

    Args:
        messages: The key ring that seals addresses.
    """

    messages: Sealer

    def keep(self, connection: sa.Connection, update: Update, now: datetime) -> None:
        """Keep the address of a report's chat and the time of its message; an older message changes nothing."""
        key = {"messenger": update.messenger.value, "vendor_chat": update.vendor_chat}
        sealed = self.messages.seal(update.address, place=_place(update.messenger, update.vendor_chat))
        values = {"address": sealed, "heard_at": min(now, update.written_at or now), "noted_at": now}
        if not insert_if_absent(connection, messenger_chats, {**key, **values}):
            is_it = sa.and_(_COLUMNS.messenger == key["messenger"], _COLUMNS.vendor_chat == key["vendor_chat"])
            is_newer = _COLUMNS.heard_at <= values["heard_at"]
            connection.execute(messenger_chats.update().where(is_it, is_newer).values(values))

    def address(self, sealed: str | None, messenger: Messenger, vendor_chat: str) -> str:
        """An address; empty where there is none, or its key is gone: the next message brings it again."""
        if not sealed:
            return ""
        try:
            return self.messages.unseal(sealed, place=_place(messenger, vendor_chat))
        except RefusedError:
            return ""


def is_open(messenger: Messenger, heard_at: datetime | None, now: datetime) -> bool:
    """Whether a bot may write to a chat. Pure.

    Args:
        heard_at: When its person wrote last; ``None`` where that is not known.
    """
    window = WINDOWS.get(messenger)
    return window is None or (heard_at is not None and now - heard_at < window - _EARLIER)


def opened(now: datetime) -> sa.ColumnElement[bool]:
    """Condition of a part that waited, and whose user has written since: in a chat whose bot may write now."""
    within = (
        sa.and_(_COLUMNS.messenger == messenger.value, _COLUMNS.heard_at > now - window + _EARLIER)
        for messenger, window in WINDOWS.items()
    )
    return sa.and_(sa.or_(*within), _COLUMNS.noted_at > outgoing_messages.c.not_before)


def forget(connection: sa.Connection, now: datetime) -> None:
    """Delete the addresses of people who have linked no account and wrote nothing for thirty days."""
    accounts: Any = messenger_accounts.c
    is_its = sa.and_(accounts.messenger == _COLUMNS.messenger, accounts.vendor_chat == _COLUMNS.vendor_chat)
    is_linked = sa.exists().where(is_its)
    connection.execute(messenger_chats.delete().where(_COLUMNS.heard_at < now - KEPT, ~is_linked))


def _place(messenger: Messenger, vendor_chat: str) -> str:
    return place(messenger_chats.name, "address", f"{messenger.value}/{vendor_chat}")
