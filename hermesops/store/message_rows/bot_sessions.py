"""Rows of ``bot_sessions``: which bots' sessions were alive, and when last."""

from hermesops.model.messaging.messenger import Messenger
from hermesops.store.registry.database import Database
from hermesops.store.registry.repositories.base import insert_if_absent
from hermesops.store.registry.schema.messaging_tables import bot_sessions


class BotSessions:
    """Sessions of bots."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, messenger: Messenger) -> None:
        """Record that a messenger answers the bot's session now."""
        with self._database.writing() as connection:
            values = {"messenger": messenger.value, "seen_at": self._database.now(connection)}
            if not insert_if_absent(connection, bot_sessions, values):
                is_it = bot_sessions.c.messenger == messenger.value
                connection.execute(bot_sessions.update().where(is_it).values(seen_at=values["seen_at"]))
