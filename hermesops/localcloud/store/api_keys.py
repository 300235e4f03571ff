"""The account's API keys: who gets in. Only hashes are remembered.

The world's own key, in ``api.key``, is one of them; it is listed with the others and cannot be deleted, since the
world's operator would lock themselves out.
"""

import hashlib
import hmac
import secrets
from uuid import uuid4

from hermesops.localcloud.store.clock import EPOCH, now
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import ApiKeyRow

OWN_ID = "00000000-0000-4000-8000-000000000002"
"""Id of the world's own key."""

_PREFIX_LENGTH = 12
_NOTED_EVERY_S = 60.0


class Keys:
    """API keys.

    Args:
        store: Keeps them.
        own: The world's own key.
    """

    def __init__(self, store: Store, own: str) -> None:
        self._store = store
        self._own = own

    def rows(self) -> list[ApiKeyRow]:
        """All of them, the world's own first."""
        own = ApiKeyRow(OWN_ID, "local world", self._own[:_PREFIX_LENGTH], "", EPOCH)
        return [own, *self._store.find(ApiKeyRow)]

    def make(self, name: str) -> tuple[ApiKeyRow, str]:
        """A new key; the clear text exists in the answer only."""
        key = f"sk_live_{secrets.token_urlsafe(32)}"
        row = ApiKeyRow(str(uuid4()), name, key[:_PREFIX_LENGTH], _hash(key), now())
        self._store.add(row)
        return row, key

    def remove(self, key_id: str) -> bool:
        """Shut a key out from now on; says whether there was one."""
        found = self._store.get(ApiKeyRow, key_id) is not None
        self._store.remove(ApiKeyRow, key_id)
        return found

    def open(self, authorization: str) -> bool:
        """Whether an ``Authorization`` header carries a key that is good now."""
        kind, _, key = authorization.partition(" ")
        if kind != "Bearer":
            return False
        if hmac.compare_digest(key.encode("latin-1", "replace"), self._own.encode()):
            return True
        found = self._store.find(ApiKeyRow, sha256=_hash(key))
        if not found:
            return False
        if (found[0].last_used or "") < now(plus_s=-_NOTED_EVERY_S):  # not written at each call: reads stay reads
            self._store.update(ApiKeyRow, found[0].id, last_used=now())
        return True


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
