"""Rows of ``web_sessions``: who is signed in at a page, and with which tokens of the issuer."""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import sqlalchemy as sa

from hermesops.model.ids import UserId
from hermesops.store.registry.database import Database
from hermesops.store.registry.encryption.sealing import Sealer, place
from hermesops.store.registry.schema.user_tables import web_sessions

LIFE = timedelta(days=14)
"""From a sign-in to the next one, whatever the issuer would allow."""

_COLUMNS = web_sessions.c
_SIGN_IN = place(web_sessions.name, "sign-in", "")
_MOST = 20
"""Sessions of a user; a further one ends the oldest."""


@dataclass(frozen=True)
class WebSession:
    """A session of a page.

    Attributes:
        id: Digest of the cookie.
        tokens: The issuer's: ``access``, ``refresh`` (empty for none), ``issuer``.
    """

    id: str
    user_id: UserId
    tokens: Mapping[str, str] = field(repr=False)
    expires_at: datetime


class WebSessions:
    """Sessions of pages.

    Args:
        messages: The key ring that seals tokens.
    """

    def __init__(self, database: Database, messages: Sealer) -> None:
        self._database = database
        self._messages = messages

    def add(self, user_id: UserId, tokens: Mapping[str, str]) -> str:
        """Begin a session; returns its cookie, which is kept nowhere."""
        cookie = secrets.token_urlsafe(32)
        id_ = digest(cookie)
        with self._database.writing() as connection:
            now = self._database.now(connection)
            connection.execute(web_sessions.delete().where(_COLUMNS.expires_at < now))
            newest = sa.select(_COLUMNS.id).where(_COLUMNS.user_id == user_id).order_by(_COLUMNS.created_at.desc())
            older = connection.scalars(newest.offset(_MOST - 1)).all()
            connection.execute(web_sessions.delete().where(_COLUMNS.id.in_(older)))
            values = {
                "id": id_,
                "user_id": user_id,
                "tokens": self._seal(id_, tokens),
                "created_at": now,
                "expires_at": now + LIFE,
            }
            connection.execute(web_sessions.insert().values(values))
        return cookie

    def find(self, cookie: str) -> WebSession | None:
        """The session of a cookie; ``None`` for one that was never given, or has ended."""
        id_ = digest(cookie)
        with self._database.reading() as connection:
            is_it = sa.and_(_COLUMNS.id == id_, _COLUMNS.expires_at > self._database.now(connection))
            row = connection.execute(sa.select(web_sessions).where(is_it)).one_or_none()
        if row is None:
            return None
        tokens = json.loads(self._messages.unseal(row.tokens, place=_place(id_)))
        return WebSession(id_, UserId(row.user_id), tokens, row.expires_at)

    def renew(self, session: WebSession, tokens: Mapping[str, str]) -> None:
        """Replace the tokens of a session by new ones."""
        with self._database.writing() as connection:
            is_it = _COLUMNS.id == session.id
            connection.execute(web_sessions.update().where(is_it).values(tokens=self._seal(session.id, tokens)))

    def end(self, cookie: str) -> None:
        """End the session of a cookie, if there is one."""
        with self._database.writing() as connection:
            connection.execute(web_sessions.delete().where(_COLUMNS.id == digest(cookie)))

    def seal_sign_in(self, text: str) -> str:
        """Seal what a browser keeps while its user signs in; no row has it."""
        return self._messages.seal(text, place=_SIGN_IN)

    def unseal_sign_in(self, sealed: str) -> str:
        """Open what ``seal_sign_in`` sealed.

        Raises:
            RefusedError: It did not seal this.
        """
        return self._messages.unseal(sealed, place=_SIGN_IN)

    def _seal(self, id_: str, tokens: Mapping[str, str]) -> str:
        return self._messages.seal(json.dumps(dict(tokens)), place=_place(id_))


def digest(cookie: str) -> str:
    """The name of a cookie's session. Pure."""
    return hashlib.sha256(cookie.encode()).hexdigest()


def _place(id_: str) -> str:
    return place(web_sessions.name, "tokens", id_)
