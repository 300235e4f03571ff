"""What we know of users, instances, cells, images, operations, leases, and who changed what; SQLite or PostgreSQL."""

from hermesops.registry.registry import Registry, open_registry
from hermesops.registry.sealing import Sealer

__all__ = ["Registry", "Sealer", "open_registry"]
