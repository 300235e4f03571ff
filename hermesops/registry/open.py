"""Opens the registry: tables of the right revision, and a key that opens what is in them."""

from collections.abc import Callable

import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.registry.audit.anchor import Anchor
from hermesops.registry.audit.entries import AuditRows
from hermesops.registry.audit.log import AuditLog
from hermesops.registry.database import Clock, Database
from hermesops.registry.encryption.reseal import PROOF, ResealingRows
from hermesops.registry.encryption.sealing import Sealer, place
from hermesops.registry.maintenance.backup import Copies
from hermesops.registry.maintenance.consistency import ConsistencyRows
from hermesops.registry.maintenance.epoch import EpochRows
from hermesops.registry.maintenance.recover import RecoveryRows
from hermesops.registry.maintenance.write_guard import WriteGuard, refuse_loss
from hermesops.registry.ports import Warn, in_silence
from hermesops.registry.repositories.backups.backup import BackupRows
from hermesops.registry.repositories.backups.ended import EndedBackupRows
from hermesops.registry.repositories.backups.storage_pressure import StoragePressureRows
from hermesops.registry.repositories.base import WriteContext, insert_if_absent
from hermesops.registry.repositories.credentials.certificates import CertificateRows
from hermesops.registry.repositories.credentials.connections import ConnectionRows
from hermesops.registry.repositories.credentials.model_tokens import ModelTokenRows
from hermesops.registry.repositories.credentials.proxy_tokens import TokenRows
from hermesops.registry.repositories.credentials.relay_callers import RelayCallerRows
from hermesops.registry.repositories.images import ImageRows
from hermesops.registry.repositories.instances.fleet import FleetRows
from hermesops.registry.repositories.instances.policies import InstancePolicyRows
from hermesops.registry.repositories.jobs import JobRows
from hermesops.registry.repositories.leases import LeaseRows
from hermesops.registry.repositories.machines.data_keys import DataKeyRows
from hermesops.registry.repositories.machines.health_samples import HealthSampleRows
from hermesops.registry.repositories.machines.observations import MachineObservationRows
from hermesops.registry.repositories.rollouts.freezes import FreezeRows
from hermesops.registry.repositories.rollouts.releases import ReleaseRows
from hermesops.registry.repositories.rollouts.rollout import RolloutRows
from hermesops.registry.repositories.users import UserRows
from hermesops.registry.schema import schema_version
from hermesops.registry.schema.tables import meta
from hermesops.registry.transactions.assign_machine import MachineChangeRows
from hermesops.registry.transactions.change_settings import SettingsChangeRows
from hermesops.registry.transactions.change_status import InstanceChangeRows
from hermesops.registry.transactions.purge import PurgeRows

_PROVEN = "this key opens this registry"


class Registry(
    UserRows,
    MachineChangeRows,
    InstanceChangeRows,
    ModelTokenRows,
    SettingsChangeRows,
    PurgeRows,
    FleetRows,
    MachineObservationRows,
    RecoveryRows,
    ConsistencyRows,
    ConnectionRows,
    BackupRows,
    CertificateRows,
    DataKeyRows,
    StoragePressureRows,
    EndedBackupRows,
    JobRows,
    ImageRows,
    LeaseRows,
    TokenRows,
    RelayCallerRows,
    ReleaseRows,
    RolloutRows,
    HealthSampleRows,
    FreezeRows,
    InstancePolicyRows,
    EpochRows,
    ResealingRows,
    AuditRows,
):
    """Everything the registry can say and write; each group of rows has its module.

    Every method is one short transaction. Methods may be called from several threads and processes.
    """

    @property
    def actor(self) -> str:
        """Who acts, as the audit has it."""
        return self._context.audit_log.actor

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()


def open_registry(
    url: str,
    *,
    environment: str,
    actor: str | Callable[[], str],
    sealer: Callable[[bool], Sealer],
    anchor: Anchor | None = None,
    copies: Copies | None = None,
    warn: Warn = in_silence,
    clock: Clock | None = None,
) -> Registry:
    """Open a registry; an SQLite one is made, and brought to this code's revision, on the way.

    PostgreSQL is migrated by ``registry migrate`` only, since others read it too.

    Args:
        url: ``sqlite:///FILE`` or ``postgresql://…``.
        environment: Name of the environment; part of machine names.
        actor: Who acts, for the audit; or what says so, before the first write, and may refuse it.
        sealer: Called once with whether the registry is new, so that a key is made for a new one only: a key made
            for an old one would hide that the right key is missing.
        anchor: Takes the audit's heads, outside the database; ``None`` keeps none.
        copies: Takes copies of an SQLite registry: daily, and before its tables change; ``None`` takes none.
        warn: Takes what went wrong with copies and anchor; the registry goes on.
        clock: For tests.

    Raises:
        RefusedError: The tables are older or newer than this code, or the key does not open this registry.
        UnavailableError: The database does not answer.
        BrokenInvariantError: The database file is damaged, or gone though there was one.
    """
    database = Database(url, clock=clock)
    try:
        refuse_loss(database, anchor, copies)
        schema_version.refuse_newer(database)
        proof = _proof(database)
        keys = sealer(proof is None)
        if database.is_sqlite:
            schema_version.migrate(database, copies.take if copies else None)
        schema_version.require(database)
        _prove(database, keys, proof)
        audit_log = AuditLog(database, actor if callable(actor) else lambda: actor, anchor, warn)
        database.before_write = WriteGuard(database, anchor, copies, warn, lambda: audit_log.actor)
    except BaseException:
        database.close()
        raise
    return Registry(WriteContext(database, environment, audit_log, keys))


def migrate_registry(url: str, *, anchor: Anchor | None = None, copies: Copies | None = None) -> tuple[str, str]:
    """Bring the tables to this code's revision; safe to call twice.

    Args:
        url: As for ``open_registry``, like the others.
        anchor: Tells that there was a registry.
        copies: As ``anchor``; and takes a copy before tables change.

    Returns:
        The revisions before (empty for a new one) and now.
    """
    database = Database(url)
    try:
        refuse_loss(database, anchor, copies)
        found = schema_version.migrate(database, copies.take if copies else None)
        return found or "", schema_version.REVISIONS[-1]
    finally:
        database.close()


def _prove(database: Database, keys: Sealer, proof: str | None) -> None:
    """Leave a proof of the key in a new registry; in another one, open the proof that is there."""
    where = place("meta", "value", PROOF)
    if proof is None:
        with database.writing() as connection:
            insert_if_absent(connection, meta, {"name": PROOF, "value": keys.seal(_PROVEN, place=where)})
        proof = _proof(database) or ""
    if keys.unseal(proof, place=where) != _PROVEN:
        raise RefusedError(f"the registry {database.title} carries a proof of another registry's key")


def _proof(database: Database) -> str | None:
    if schema_version.current(database) is None:
        return None
    with database.reading() as connection:
        return connection.execute(sa.select(meta.c.value).where(meta.c.name == PROOF)).scalar()
