"""The registry, its copies and its audit log."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from datetime import datetime

    from hermesops.access.registry_place import RegistryPlace
    from hermesops.agents.backup.registry_copies import RegistryCopies
    from hermesops.app.container import Container
    from hermesops.app.users_container import RowsContainer
    from hermesops.model.check import Contradiction
    from hermesops.store.registry import Registry
    from hermesops.store.registry.audit.reader import AuditLogReader


def registry(container: "Container") -> "Registry":
    """Instances, cells, images, operations, leases, audit."""
    return container.registry_place.open()


def registry_place(container: "Container | RowsContainer") -> "RegistryPlace":
    """Place of the registry, its copies and the audit's anchor."""
    from hermesops.access.registry_place import RegistryPlace

    return RegistryPlace(container.env, container.warn)


def registry_copies(container: "Container") -> "RegistryCopies":
    """The copies of an SQLite registry."""
    from hermesops.agents.backup.registry_copies import RegistryCopies

    return RegistryCopies(container.env.name, container.registry_place, container.vendor)


def audit(container: "Container") -> "AuditLogReader":
    """Reads and verifies the audit log."""
    from hermesops.store.registry.audit.reader import AuditLogReader

    return AuditLogReader(container.registry.audit, container.registry_place.anchor)


def contradictions(container: "Container") -> "tuple[Contradiction, ...]":
    """Contradictions in the registry, breaks of the audit's chain included."""
    from hermesops.store.registry.maintenance.consistency import contradictions_of

    return contradictions_of(container.registry.consistency, container.registry.audit)


def now(container: "Container") -> "datetime":
    """The time of the registry's clock, which all its computers share."""
    return container.registry.now()


def acting_via(container: "Container", face: str) -> "AbstractContextManager[None]":
    """Name the operator and a face in the audit entries of a block.

    Raises as ``Registry.actor`` where the operator is not known.
    """
    from hermesops.store.registry.audit import log

    return log.acting_via(container.registry.actor, face)
