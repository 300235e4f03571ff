"""Backups, restores, drills, and records that outlive the registry."""

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermesops.agents.backup.directory import BackupRows
    from hermesops.agents.backup.drills import Drills
    from hermesops.agents.backup.recovery_records import RecoveryRecords, StoredRecords
    from hermesops.agents.backup.restores import Restores
    from hermesops.agents.backup.service import Backups, BackupStore
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.model.operation import Operation


def backup_store(container: "Container") -> "BackupStore":
    """The object store of backups and recovery records; no registry is needed."""
    from hermesops.agents.backup.service import BackupStore
    from hermesops.platform.local.world import object_store_of

    start = partial(object_store_of, container.env, container.report)
    return BackupStore(container.env, container.secrets, partial(container.adapters.local_store, start))


def stored_records(container: "Container") -> "StoredRecords":
    """Records of instances in the object store, which outlive the registry; no registry is needed."""
    from hermesops.agents.backup.recovery_records import StoredRecords

    return StoredRecords(container.backup_store.find, container.env.name)


def recovery_records(container: "Container") -> "RecoveryRecords":
    """Keeps these records equal to the registry."""
    from hermesops.agents.backup.recovery_records import RecoveryRecords

    return RecoveryRecords(container.registry, container.stored_records, container.registry_place.sealer)


def backup_rows(container: "Container") -> "BackupRows":
    """Finds backups of instances in the registry, without asking the object store."""
    from hermesops.agents.backup.directory import BackupRows

    return BackupRows(container.registry)


def backups(connected: "Connected") -> "Backups":
    """Backs up and restores states of instances, encrypted, and prunes old backups."""
    from hermesops.agents.backup.service import Backups

    container = connected.container
    return Backups(
        container.env,
        container.registry,
        container.backup_store,
        container.adapters.proof,
        container.adapters.contents,
        container.adapters.begin_repository,
        connected.instance_client,
        connected.opener,
        partial(_run, connected),
        container.recovery_records,
        container.report,
    )


async def _run(connected: "Connected", operation: "Operation") -> str:
    """Run an operation; the runner is made only then, as it is made of the services."""
    return await connected.operations.run(operation)


def restores(connected: "Connected") -> "Restores":
    """Opens the operations that restore an agent's state from a backup."""
    from hermesops.agents.backup.restores import Restores

    return Restores(connected.backups, connected.instance_requests)


def drills(connected: "Connected") -> "Drills":
    """Backups restored onto other machines, for proof."""
    from hermesops.agents.backup.drills import Drills

    container = connected.container
    return Drills(
        container.env.settings,
        container.registry,
        connected.instance_client,
        connected.backups,
        connected.pools,
        connected.placement,
        container.guards,
        container.cell_stacks,
        container.hold_lease,
        container.report,
    )
