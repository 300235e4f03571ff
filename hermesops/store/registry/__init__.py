"""Stores users, instances, cells, images, operations, leases and the audit log, in SQLite or PostgreSQL."""

from hermesops.store.registry.encryption.sealing import Sealer
from hermesops.store.registry.open import Registry, open_registry

__all__ = ["Registry", "Sealer", "open_registry"]
