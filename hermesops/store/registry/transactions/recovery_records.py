"""Recovery records: seals facts of an instance that must survive the registry, and restores them; decision 0070."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from hermesops.errors import Hint, RefusedError
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName, UserId, instance_subject
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.record import RecoveryRecord, VolumeKey
from hermesops.model.recovery.recovered import Recovered
from hermesops.store.registry.encryption.sealing import place, read_key
from hermesops.store.registry.repositories.backups import BackupRepository
from hermesops.store.registry.repositories.base import Repository, WriteContext, insert_if_absent
from hermesops.store.registry.repositories.instances.instance import ALL, InstanceSecretRepository, instance_of
from hermesops.store.registry.schema.tables import backup_repositories, backups, data_keys, hermes_instances
from hermesops.store.registry.transactions.recover_instance import give_alias

_VOLUME_OF = sa.and_(
    data_keys.c.key.is_not(None),
    # A claimed machine's volume bears the instance's id from the machine's next boot on.
    sa.or_(
        data_keys.c.instance_id == hermes_instances.c.id,
        sa.and_(data_keys.c.instance_id.is_(None), data_keys.c.machine_id == hermes_instances.c.vm_id),
    ),
)
"""Whether a volume's key is there, and the volume an instance's."""


@dataclass(frozen=True)
class SealedRecord:
    """A record as it is kept.

    Attributes:
        name: Equal for equal records that the same key seals.
        text: Only the registry's key opens it.
    """

    name: str
    text: str = field(repr=False)


@dataclass(frozen=True)
class TakenBack:
    """Facts of a record that the registry lacked."""

    password: bool = False
    volumes: int = 0
    backups: int = 0
    alias: bool = False

    def __bool__(self) -> bool:
        return bool(self.password or self.volumes or self.backups or self.alias)


class RecoveryRecordTransactions(Repository):
    """Conversion of recovery records from rows and into rows."""

    def __init__(self, context: WriteContext) -> None:
        super().__init__(context)
        self._secrets = InstanceSecretRepository(context)
        self._backups = BackupRepository(context)

    def due(self, recorded: Collection[str] = ()) -> dict[InstanceId, str]:
        """The instances with a machine, and terminated ones with a repository, a volume or a record; their titles."""
        is_placed = sa.and_(
            hermes_instances.c.status != InstanceStatus.TERMINATED, hermes_instances.c.vm_id.is_not(None)
        )
        has_repository = sa.exists().where(backup_repositories.c.instance_id == hermes_instances.c.id)
        has_volume = sa.exists().where(_VOLUME_OF)
        query = ALL.add_columns(sa.or_(is_placed, has_repository, has_volume).label("is_due")).order_by(
            hermes_instances.c.id
        )
        instances = [(instance_of(row), row.is_due) for row in self._rows(query)]
        return {instance.id: instance.title for instance, is_due in instances if is_due or instance.id in recorded}

    def sealed(self, instance_id: InstanceId) -> SealedRecord | None:
        """The record of an instance, sealed with the registry's present key; ``None`` for one that left nothing.

        Raises:
            UsageError: There is no such instance.
            RefusedError: This computer does not have the present key.
        """
        record = self._record(instance_id)
        if record.instance.status is InstanceStatus.TERMINATED and not (record.password or record.volumes):
            return None
        text = record.to_text()
        sealer, where = self._context.sealer, place_of_record(instance_id)
        with self._database.reading() as connection:
            key = read_key(connection) or sealer.current
        if key not in sealer.key_ids:
            sealer.reload()
        if key not in sealer.key_ids:
            hint = Hint(("secrets", "check", "registry.key"))
            raise RefusedError(f"there is no key {key} in {sealer.source}", hint=hint)
        return SealedRecord(f"{key}-{sealer.mark(text, place=where, key=key)}", sealer.seal(text, place=where, key=key))

    def take_back(self, record: RecoveryRecord) -> TakenBack:
        """Write facts of a record that the registry lacks into its rows; repeating it changes nothing.

        The key of a volume wins over another one of the registry's: a volume is made once, with the first key.

        Raises:
            RefusedError: The registry has another password of the repository.
        """
        instance = record.instance
        instance_id = instance.id
        with self._database.writing() as connection:
            taken = TakenBack(
                password=self._take_password(connection, instance_id, record.password),
                volumes=sum(self._take_volume(connection, instance_id, volume) for volume in record.volumes),
                backups=_take_backups(connection, instance_id, record.backups),
                alias=bool(instance.user_alias) and give_alias(connection, instance.user_id, instance.user_alias),
            )
            if taken:
                after = {name: value for name, value in vars(taken).items() if value}
                self._note(connection, "recovery_record_taken_back", instance_subject(instance_id), after=after)
        return taken

    def _record(self, instance_id: InstanceId) -> RecoveryRecord:
        row = self._row(ALL.where(hermes_instances.c.id == instance_id))
        if row is None:
            raise RefusedError(f"there is no instance {instance_id}")
        keys = self._backups.repository_keys(instance_id)
        query = sa.select(data_keys).join(hermes_instances, _VOLUME_OF).where(hermes_instances.c.id == instance_id)
        unseal = self._context.sealer.unseal
        return RecoveryRecord(
            self._described(row),
            keys.password if keys else "",
            tuple(
                VolumeKey(row.volume_id, MachineId(row.machine_id), unseal(row.key, place=_volume(row.volume_id)))
                for row in self._rows(query.order_by(data_keys.c.volume_id))
            ),
            self._backups.list(instance_id),
        )

    def _described(self, row: sa.Row[Any]) -> Recovered:
        instance = instance_of(row)
        return Recovered(
            id=instance.id,
            user_id=UserId(instance.user_id),
            user_alias=instance.user_alias,
            plan=instance.plan,
            status=instance.status,
            cell=CellName(row.cell),
            epoch=instance.epoch,
            machine_id=MachineId(instance.machine_id or ""),
            machine_name=MachineName(instance.machine_name),
            server_type=row.server_type,
            region=row.region,
            image_id=ImageId(row.image_id) if row.image_id else None,
            created_at=instance.created_at,
            settings=self._secrets.settings(instance.id),
            api_server_key=self._secrets.api_server_key(instance.id),
            model_token_generation=row.model_token_generation,
        )

    def _take_password(self, connection: sa.Connection, instance_id: InstanceId, password: str) -> bool:
        if not password:
            return False
        where = place("backup_repositories", "password", instance_id)
        values = {"instance_id": instance_id, "password": self._seal_in(connection, password, where)}
        if insert_if_absent(connection, backup_repositories, values):
            return True
        query = sa.select(backup_repositories.c.password).where(backup_repositories.c.instance_id == instance_id)
        if self._context.sealer.unseal(connection.execute(query).scalar_one(), place=where) != password:
            raise RefusedError(
                f"the recovery record of instance {instance_id} has another password than the registry",
                hint=Hint("which one opens its repository?", ("backup", "check", instance_id), "tries the registry's"),
            )
        return False

    def _take_volume(self, connection: sa.Connection, instance_id: InstanceId, volume: VolumeKey) -> bool:
        where = _volume(volume.volume_id)
        sealed = self._seal_in(connection, volume.key, where)
        values = {
            "volume_id": volume.volume_id,
            "machine_id": volume.machine_id,
            "instance_id": instance_id,
            "key": sealed,
            "created_at": self._database.now(connection),
        }
        if insert_if_absent(connection, data_keys, values):
            return True
        is_it = data_keys.c.volume_id == volume.volume_id
        stored_key = connection.execute(sa.select(data_keys.c.key).where(is_it)).scalar_one()
        if stored_key is None or self._context.sealer.unseal(stored_key, place=where) == volume.key:
            return False
        connection.execute(data_keys.update().where(is_it).values(key=sealed))
        return True


def _take_backups(connection: sa.Connection, instance_id: InstanceId, recorded: tuple[Backup, ...]) -> int:
    """Insert rows of backups that are newer than the registry knows; older ones were forgotten on purpose."""
    query = sa.select(sa.func.max(backups.c.at, type_=backups.c.at.type)).where(backups.c.instance_id == instance_id)
    newest = connection.execute(query).scalar()
    missing = [backup for backup in recorded if newest is None or backup.at > newest]
    rows = [vars(backup) | {"state": backup.state.to_json()} for backup in missing]
    return sum(insert_if_absent(connection, backups, row) for row in rows)


def opened_record(unsealed: str, instance_id: InstanceId) -> RecoveryRecord:
    """Parse a record that was unsealed for an instance.

    Raises:
        RefusedError: It is of another form, or of another instance.
    """
    try:
        record = RecoveryRecord.from_text(unsealed)
    except ValueError as error:
        raise RefusedError(f"the recovery record of instance {instance_id} is malformed: {error}") from None
    if record.instance.id != instance_id:
        raise RefusedError(f"the recovery record of instance {instance_id} is another's")
    return record


def place_of_record(instance_id: InstanceId) -> str:
    """Return the field name that a record is sealed for: a record copied to another instance's name does not open."""
    return place("recovery_records", "text", instance_id)


def _volume(volume_id: str) -> str:
    return place("data_keys", "key", volume_id)
