"""Recovery records of a registry of tests, in any object store."""

from collections.abc import Awaitable, Callable

from hermesops.access.secrets.keyring.key_ring import KeyRing
from hermesops.agents.backup.recovery_records import RecoveryRecords, StoredRecords
from hermesops.agents.backup.store.object_store import ObjectStore
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import KEYS


def records_of(
    registry: Registry, store: Callable[[], Awaitable[ObjectStore]], *, keys: KeyRing = KEYS
) -> RecoveryRecords:
    """Those of environment ``test``."""
    return RecoveryRecords(registry, StoredRecords(store, "test"), lambda: keys)
