"""Which instance asked for which model and when.

It must not hold a word of what was said.
"""

from hermesops.localcloud.store.clock import now
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import ModelRequestRow

_KEPT = 10_000


class ModelLog:
    """The router's memory.

    Args:
        store: Where it is kept.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._written = 0

    def note(self, instance: str, model: str, status: int) -> None:
        """Write down one request."""
        self._store.add(ModelRequestRow(None, instance, model, now(), status))
        self._written += 1
        if self._written % 1000 == 0:
            self._store.keep_newest(ModelRequestRow, _KEPT)

    def requests(self, instance: str = "") -> list[dict[str, object]]:
        """The requests of one instance, or of all, oldest first."""
        rows = self._store.find(ModelRequestRow, **({"instance": instance} if instance else {}))
        return [{"instance": row.instance, "model": row.model, "at": row.at, "status": row.status} for row in rows]
