"""Callers as operators list and revoke them, without anything that users named or agents said."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hermesops.errors import Hint, RefusedError, UsageError, require_reason
from hermesops.model.chat.caller import CallerRecord
from hermesops.model.fleet.user import parse_user
from hermesops.model.ids import UserId
from hermesops.model.unknown_name import unknown_name
from hermesops.store.registry import Registry

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MOST = 10_000


@dataclass(frozen=True)
class CallingAgents:
    """Agents of others that may call users' agents."""

    registry: Registry

    def list(self, *, user: str = "", undelivered: bool = False, limit: int = 50) -> Sequence[CallerRecord]:
        """Callers, the newest first.

        Args:
            user: Only of this user, by id or alias.
            undelivered: Only those whose notifications are not delivered now.

        Raises:
            UsageError: There is no such user.
        """
        user_id = self._user_id(user) if user else None
        records = self.registry.callers.list(user_id=user_id, limit=_MOST if undelivered else limit)
        return [record for record in records if record.undelivered or not undelivered][:limit]

    def revoke(self, text: str, *, reason: str) -> CallerRecord:
        """End a caller's key; its next request is refused. What it began goes on.

        Args:
            text: The caller's id.

        Raises:
            UsageError: There is no such caller, or no reason.
            RefusedError: It is revoked already.
        """
        require_reason(reason, "user", "caller", "revoke", text)
        caller = self.get(text)
        if not self.registry.callers.revoke(caller.id, why=reason):
            raise _revoked_already(caller)
        return self.get(caller.id)

    def preview_revocation(self, text: str) -> CallerRecord:
        """The caller that a revocation would end.

        Raises:
            UsageError: There is no such caller.
            RefusedError: It is revoked already.
        """
        caller = self.get(text)
        if caller.revoked_at is not None:
            raise _revoked_already(caller)
        return caller

    def get(self, text: str) -> CallerRecord:
        """A caller by its id.

        Raises:
            UsageError: There is no such caller.
        """
        caller_id = text.strip().lower()
        if not _ID.fullmatch(caller_id):
            raise UsageError("CALLER is an id", hint=Hint(("user", "caller", "list"), "shows them"), field="caller")
        record = self.registry.callers.get(caller_id)
        if record is None:
            raise unknown_name("caller", text)
        return record

    def _user_id(self, text: str) -> UserId:
        named = parse_user(text)
        return self.registry.users.resolve(text).id if named.alias else named.id


def _revoked_already(caller: CallerRecord) -> RefusedError:
    return RefusedError(f"caller {caller.id} is revoked already", hint=Hint(("user", "caller", "list")))
