"""Recovery records of a registry of tests, in any object store."""

from collections.abc import Awaitable, Callable

from hermesops.backup.recovery_records import RecoveryRecords, StoredRecords
from hermesops.backup.store.object_store import ObjectStore
from hermesops.keyring.key_ring import KeyRing
from hermesops.registry import Registry
from tests.support.real.registries import KEYS


def records_of(
    registry: Registry, store: Callable[[], Awaitable[ObjectStore]], *, keys: KeyRing = KEYS
) -> RecoveryRecords:
    """Those of environment ``test``."""
    return RecoveryRecords(registry, StoredRecords(store, "test"), lambda: keys)
