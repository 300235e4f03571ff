"""Rows of ``messenger_accounts`` and ``link_codes``: which messenger's account is whose, and the codes that say so."""

import secrets
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.model.ids import InstanceId, UserId
from hermesops.model.messaging.message import LinkedAccount
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.registry.database import Database
from hermesops.store.registry.encryption.sealing import Sealer, place
from hermesops.store.registry.repositories.base import insert_or_update
from hermesops.store.registry.schema.messaging_tables import link_codes, messenger_accounts
from hermesops.store.registry.schema.tables import LIVING, hermes_instances

CODE_LIFE = timedelta(minutes=10)
MOST_CODES = 5
"""Codes of one user that are valid at once; a new one ends the oldest."""

_COLUMNS = messenger_accounts.c
_CODES = link_codes.c
_LETTERS = "ABCDEFGHJKMNPQRSTVWXYZ23456789"
_LENGTH = 16
"""Letters of a code: of some 78 bits, which nobody tries out in ten minutes."""


class MessengerAccounts:
    """Accounts of messengers that are linked to users, and codes that link them.

    Args:
        messages: The key ring that seals names.
    """

    def __init__(self, database: Database, messages: Sealer) -> None:
        self._database = database
        self._messages = messages

    def now(self) -> datetime:
        """The database's time, by which codes end."""
        with self._database.reading() as connection:
            return self._database.now(connection)

    def add_code(self, user_id: UserId) -> str:
        """Make a code that links one account to a user within ten minutes, once. Its digest alone is kept."""
        code = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
        with self._database.writing() as connection:
            now = self._database.now(connection)
            valid = sa.select(_CODES.code_hash).where(_CODES.user_id == user_id).order_by(_CODES.created_at.desc())
            kept = list(connection.scalars(valid.limit(MOST_CODES - 1)))
            ended = sa.or_(_CODES.expires_at < now, sa.and_(_CODES.user_id == user_id, _CODES.code_hash.not_in(kept)))
            connection.execute(link_codes.delete().where(ended))
            values = {"code_hash": digest(code), "user_id": user_id, "created_at": now, "expires_at": now + CODE_LIFE}
            connection.execute(link_codes.insert().values(values))
        return code

    def link(self, code: str, messenger: Messenger, account: str, vendor_chat: str, display: str) -> UserId | None:
        """Use a code up and link an account, and its chat, to the code's user; the newest link of an account counts.

        Returns:
            ``None`` for a code that is not valid, or was used.
        """
        sealed = self._messages.seal(display, place=_place(messenger, account))
        with self._database.writing() as connection:
            now = self._database.now(connection)
            is_valid = sa.and_(_CODES.code_hash == digest(code), _CODES.used_at.is_(None), _CODES.expires_at > now)
            using = link_codes.update().where(is_valid).values(used_at=now).returning(_CODES.user_id)
            user_id = connection.execute(using).scalar_one_or_none()
            if user_id is None:
                return None
            chat = sa.and_(_COLUMNS.messenger == messenger.value, _COLUMNS.vendor_chat == vendor_chat)
            connection.execute(messenger_accounts.delete().where(chat, _COLUMNS.account != account))
            values = {
                "messenger": messenger.value,
                "account": account,
                "user_id": user_id,
                "vendor_chat": vendor_chat,
                "display": sealed,
                "linked_at": now,
                "blocked_at": None,
            }
            insert_or_update(connection, messenger_accounts, values)
        return UserId(user_id)

    def unlink(self, user_id: UserId, messenger: Messenger) -> int:
        """Delete the links of a user's accounts of a messenger; returns their number."""
        with self._database.writing() as connection:
            is_it = sa.and_(_COLUMNS.user_id == user_id, _COLUMNS.messenger == messenger.value)
            return connection.execute(messenger_accounts.delete().where(is_it)).rowcount

    def mark_blocked(self, messenger: Messenger, account: str, *, is_blocked: bool) -> None:
        """Record that the account's user has blocked the bot, or does not any more."""
        with self._database.writing() as connection:
            is_it = sa.and_(_COLUMNS.messenger == messenger.value, _COLUMNS.account == account)
            blocked_at = self._database.now(connection) if is_blocked else None
            connection.execute(messenger_accounts.update().where(is_it).values(blocked_at=blocked_at))

    def get(self, messenger: Messenger, account: str) -> LinkedAccount | None:
        """The link of an account; ``None`` for a stranger's."""
        return self._one(sa.and_(_COLUMNS.messenger == messenger.value, _COLUMNS.account == account))

    def of_chat(self, messenger: Messenger, vendor_chat: str) -> LinkedAccount | None:
        """The link of the account whose chat with the bot this is."""
        return self._one(sa.and_(_COLUMNS.messenger == messenger.value, _COLUMNS.vendor_chat == vendor_chat))

    def of_user(self, user_id: UserId) -> tuple[LinkedAccount, ...]:
        """The links of a user's accounts, by messenger."""
        query = sa.select(messenger_accounts).where(_COLUMNS.user_id == user_id).order_by(_COLUMNS.messenger)
        with self._database.reading() as connection:
            return tuple(map(self._account, connection.execute(query)))

    def home_of(self, instance_id: InstanceId) -> LinkedAccount | None:
        """The account that an agent's user has linked last and not blocked."""
        query = sa.select(messenger_accounts).join(hermes_instances, hermes_instances.c.user_id == _COLUMNS.user_id)
        query = query.where(hermes_instances.c.id == instance_id, LIVING, _COLUMNS.blocked_at.is_(None))
        with self._database.reading() as connection:
            row = connection.execute(query.order_by(_COLUMNS.linked_at.desc()).limit(1)).one_or_none()
        return self._account(row) if row else None

    def _one(self, is_it: sa.ColumnElement[bool]) -> LinkedAccount | None:
        with self._database.reading() as connection:
            row = connection.execute(sa.select(messenger_accounts).where(is_it)).one_or_none()
        return self._account(row) if row else None

    def _account(self, row: sa.Row[Any]) -> LinkedAccount:
        messenger = Messenger(row.messenger)
        return LinkedAccount(
            messenger=messenger,
            account=row.account,
            vendor_chat=row.vendor_chat,
            user_id=UserId(row.user_id),
            linked_at=row.linked_at,
            display=self._display(row.display, messenger, row.account),
            blocked_at=row.blocked_at,
        )

    def _display(self, sealed: str, messenger: Messenger, account: str) -> str:
        """An account's name; empty where its key is gone, as a link holds without one."""
        try:
            return self._messages.unseal(sealed, place=_place(messenger, account))
        except RefusedError:
            return ""


def digest(code: str) -> str:
    """The digest of a code as it is kept. Pure."""
    return sha256(code.strip().upper().encode()).hexdigest()


def _place(messenger: Messenger, account: str) -> str:
    return place(messenger_accounts.name, "display", f"{messenger.value}/{account}")
