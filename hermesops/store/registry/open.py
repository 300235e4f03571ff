"""The registry, and how it is opened: with tables of this code's revision, and the key that opens its secrets."""

from collections.abc import Callable
from datetime import datetime

from hermesops.errors import RefusedError
from hermesops.store.registry.audit.anchor import Anchor
from hermesops.store.registry.audit.entries import AuditRepository
from hermesops.store.registry.audit.log import AuditLog, Warn, no_warning
from hermesops.store.registry.database import Clock, Database
from hermesops.store.registry.encryption.reseal import PROOF, SealingRepository
from hermesops.store.registry.encryption.sealing import NoKey, Sealer, place
from hermesops.store.registry.maintenance.backup import Copies
from hermesops.store.registry.maintenance.consistency import ConsistencyRepository
from hermesops.store.registry.maintenance.log_archive import archive_words
from hermesops.store.registry.maintenance.write_guard import WriteGuard, refuse_loss, refuse_moved
from hermesops.store.registry.meta import read_meta
from hermesops.store.registry.repositories.backups import BackupRepository
from hermesops.store.registry.repositories.base import WriteContext, insert_if_absent
from hermesops.store.registry.repositories.billing.events import BillingRepository
from hermesops.store.registry.repositories.billing.subscriptions import SubscriptionRepository
from hermesops.store.registry.repositories.callers import CallerRepository
from hermesops.store.registry.repositories.cells import CellRepository
from hermesops.store.registry.repositories.credentials.certificates import CertificateRepository, RelayCallerRepository
from hermesops.store.registry.repositories.credentials.connections import ConnectionRepository
from hermesops.store.registry.repositories.credentials.model_tokens import ModelTokenRepository
from hermesops.store.registry.repositories.credentials.model_usage import ModelUsageRepository
from hermesops.store.registry.repositories.credentials.proxy_tokens import ProxyTokenRepository
from hermesops.store.registry.repositories.images import ImageRepository
from hermesops.store.registry.repositories.instances.fleet import FleetRepository
from hermesops.store.registry.repositories.instances.instance import InstanceRepository, InstanceSecretRepository
from hermesops.store.registry.repositories.instances.policies import InstancePolicyRepository
from hermesops.store.registry.repositories.jobs import JobRepository
from hermesops.store.registry.repositories.leases import EpochRepository, LeaseRepository
from hermesops.store.registry.repositories.machines.break_glass import BreakGlassRepository
from hermesops.store.registry.repositories.machines.data_keys import DataKeyRepository
from hermesops.store.registry.repositories.machines.observations import (
    HealthSampleRepository,
    MachineObservationRepository,
)
from hermesops.store.registry.repositories.machines.unassigned_machines import UnassignedMachineRepository
from hermesops.store.registry.repositories.message_figures import MessageFiguresRepository
from hermesops.store.registry.repositories.messages import MessageRepository
from hermesops.store.registry.repositories.metering import MeteringRepository
from hermesops.store.registry.repositories.operations import OperationRepository
from hermesops.store.registry.repositories.operator_links import OperatorLinkRepository
from hermesops.store.registry.repositories.operator_requests import OperatorRequestRepository
from hermesops.store.registry.repositories.rollouts.freezes import FreezeRepository
from hermesops.store.registry.repositories.rollouts.releases import ReleaseRepository
from hermesops.store.registry.repositories.rollouts.rollout import RolloutEventRepository, RolloutRepository
from hermesops.store.registry.repositories.rollouts.targets import RolloutTargetRepository
from hermesops.store.registry.repositories.user_requests import UserRequestRepository
from hermesops.store.registry.repositories.users import UserRepository
from hermesops.store.registry.repositories.users_half import UsersHalfRepository
from hermesops.store.registry.schema import role_grants, schema_version
from hermesops.store.registry.schema.tables import meta
from hermesops.store.registry.transactions.assign_machine import AssignmentTransactions
from hermesops.store.registry.transactions.change_settings import SettingsTransactions
from hermesops.store.registry.transactions.place_instance import PlacementTransactions
from hermesops.store.registry.transactions.purge import PurgeTransactions
from hermesops.store.registry.transactions.recover_instance import RecoveryTransactions
from hermesops.store.registry.transactions.recovery_records import RecoveryRecordTransactions
from hermesops.store.registry.transactions.terminate import TerminationTransactions

_PROVEN = "this key opens this registry"

_READER_S = 30.0
"""Seconds of a statement of a process that only reads: its pages are read anew every few seconds."""


class Registry:
    """All stored data, by subject; each repository has its module.

    Every method of a repository is one short transaction, and may be called from several threads and processes.
    """

    def __init__(self, context: WriteContext) -> None:
        self._context = context
        self._database = context.database
        self.users = UserRepository(context)
        self.users_half = UsersHalfRepository(context)
        self.user_requests = UserRequestRepository(context)
        self.operator_requests = OperatorRequestRepository(context)
        self.operator_links = OperatorLinkRepository(context)
        self.callers = CallerRepository(context)
        self.messages = MessageRepository(context)
        self.message_figures = MessageFiguresRepository(context)
        self.instances = InstanceRepository(context)
        self.instance_secrets = InstanceSecretRepository(context)
        self.policies = InstancePolicyRepository(context)
        self.fleet = FleetRepository(context)
        self.cells = CellRepository(context)
        self.unassigned = UnassignedMachineRepository(context)
        self.observations = MachineObservationRepository(context)
        self.health_samples = HealthSampleRepository(context)
        self.data_keys = DataKeyRepository(context)
        self.break_glass = BreakGlassRepository(context)
        self.images = ImageRepository(context)
        self.operations = OperationRepository(context)
        self.leases = LeaseRepository(context)
        self.jobs = JobRepository(context)
        self.releases = ReleaseRepository(context)
        self.rollouts = RolloutRepository(context)
        self.rollout_targets = RolloutTargetRepository(context)
        self.rollout_events = RolloutEventRepository(context)
        self.freezes = FreezeRepository(context)
        self.backups = BackupRepository(context)
        self.billing = BillingRepository(context)
        self.subscriptions = SubscriptionRepository(context)
        self.metering = MeteringRepository(context)
        self.certificates = CertificateRepository(context)
        self.connections = ConnectionRepository(context)
        self.model_tokens = ModelTokenRepository(context)
        self.model_usage = ModelUsageRepository(context)
        self.proxy_tokens = ProxyTokenRepository(context)
        self.relay_callers = RelayCallerRepository(context)
        self.audit = AuditRepository(context)
        # Changes of several kinds of rows in one transaction.
        self.placements = PlacementTransactions(context)
        self.assignments = AssignmentTransactions(context)
        self.settings_changes = SettingsTransactions(context)
        self.terminations = TerminationTransactions(context)
        self.recovery = RecoveryTransactions(context)
        self.recovery_records = RecoveryRecordTransactions(context)
        self.world = PurgeTransactions(context)
        # The database as a whole.
        self.consistency = ConsistencyRepository(context)
        self.epochs = EpochRepository(context)
        self.sealing = SealingRepository(context)

    @property
    def actor(self) -> str:
        """Name of the actor, as audit entries have it."""
        return self._context.audit_log.actor

    def now(self) -> datetime:
        """The time of the registry's clock, which all its computers share."""
        with self._database.reading() as connection:
            return self._database.now(connection)

    def log_archive(self) -> str:
        """Describe the state of PostgreSQL's log archive, its only backup; empty for SQLite."""
        return archive_words(self._database)

    def close(self) -> None:
        """Close every connection to the database."""
        self._database.close()


def open_registry(
    url: str,
    *,
    environment: str,
    actor: str | Callable[[], str],
    sealer: Callable[[bool], Sealer],
    anchor: Anchor | None = None,
    copies: Copies | None = None,
    warn: Warn = no_warning,
    clock: Clock | None = None,
) -> Registry:
    """Open a registry; an SQLite file is created and migrated if needed.

    PostgreSQL is migrated by ``registry migrate`` only, since others read it too.

    Args:
        url: ``sqlite:///FILE`` or ``postgresql://…``.
        environment: Name of the environment; part of machine names.
        actor: Name of the actor for the audit; or a function that returns it before the first write, and may refuse.
        sealer: Called once with whether the registry is new, so that a key is made for a new one only: a key made
            for an old one would hide that the right key is missing.
        anchor: Stores the audit's heads outside the database; ``None`` stores none.
        copies: Copies an SQLite registry hourly and before migrations; ``None`` makes none.
        warn: Called with problems of copies and anchor.
        clock: Replaces the database's clock in tests.

    Raises:
        RefusedError: The tables are older or newer than this code, or the key is another registry's.
        UnavailableError: The database does not answer.
        BrokenInvariantError: The database file is damaged, or missing though there was one.
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
        if database.is_sqlite:
            database.in_write = refuse_moved
        database.before_write = WriteGuard(database, anchor, copies, warn, lambda: audit_log.actor)
    except BaseException:
        database.close()
        raise
    return Registry(WriteContext(database, environment, audit_log, keys))


def open_for_reading(url: str, *, environment: str) -> Registry:
    """Open a registry for a process that has no key of it: nothing is written, and no secret is opened.

    Args:
        url: As of ``open_registry``; in PostgreSQL of a role that need not read more than it is granted.

    Raises:
        RefusedError: The tables are older or newer than this code.
        UnavailableError: The database does not answer.
    """
    database = Database(url, statement_s=_READER_S)
    try:
        schema_version.require(database)
    except BaseException:
        database.close()
        raise
    database.before_write = _refuse_writing
    return Registry(WriteContext(database, environment, AuditLog(database, _refuse_acting), NoKey()))


def _refuse_writing() -> None:
    raise RefusedError("this process reads the registry and writes nothing to it")


def _refuse_acting() -> str:
    raise RefusedError("this process acts for nobody")


def migrate_registry(url: str, *, anchor: Anchor | None = None, copies: Copies | None = None) -> tuple[str, str]:
    """Migrate the tables to this code's revision, and give roles of services their rights; safe to call twice.

    Parameters are as for ``open_registry``.

    Returns:
        The revisions before (empty for a new one) and now.
    """
    database = Database(url)
    try:
        refuse_loss(database, anchor, copies)
        revision = schema_version.migrate(database, copies.take if copies else None)
        role_grants.grant(database)
        return revision or "", schema_version.REVISIONS[-1]
    finally:
        database.close()


def _prove(database: Database, keys: Sealer, proof: str | None) -> None:
    """Store a proof of the key in a new registry; check the proof of another one."""
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
        return read_meta(connection, PROOF)
