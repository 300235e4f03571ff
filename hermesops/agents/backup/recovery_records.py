"""Recovery records in the object store: facts of each instance that outlive the registry; see decision 0070.

A record is sealed with the registry's key, which is kept outside the registry, and bound to its instance. Its name has
a digest of its content, so that a look at the names tells which records are out of date. No machine may read or write
there: its policy ends at its own repository.
"""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.agents.backup.store.object_store import ObjectStore
from hermesops.base.fan_out import Limits, fan_out, problems
from hermesops.base.network.aws_client import AbsentError, call
from hermesops.errors import HermesError, RefusedError
from hermesops.model.ids import InstanceId
from hermesops.model.recovery.record import RecoveryRecord
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.registry import Registry
from hermesops.store.registry.transactions.recovery_records import TakenBack, opened_record, place_of_record

if TYPE_CHECKING:  # cryptography loads for 0.1 s
    from hermesops.access.secrets.keyring.key_ring import KeyRing

_FOLDER = "recovery"
_RECORD = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/([0-9a-z-]{1,80})")
_LARGEST = 4 << 20
"""Bytes of a record: settings, and some hundred bytes for each backup."""

_LIMITS = Limits(at_once=8, slow_after_s=10.0, within_s=120.0)


@dataclass(frozen=True)
class Found:
    """The records in a store.

    Attributes:
        records: By instance.
        unread: Reasons why records of other instances could not be read.
    """

    records: Mapping[InstanceId, RecoveryRecord]
    unread: Mapping[InstanceId, str]


@dataclass(frozen=True)
class StoredRecords:
    """The records of one environment as objects of a bucket.

    Args:
        store: Finds the object store, which may have to be started.
        environment: Its name begins every object's.
    """

    store: Callable[[], Awaitable[ObjectStore]]
    environment: str

    async def names(self, instance_id: str = "") -> dict[InstanceId, list[str]]:
        """The names of records, the newest last; of one instance or of all."""
        store = await self.store()
        await call(store.prepare)
        start = f"{self.environment}/{_FOLDER}/"
        names: dict[InstanceId, list[str]] = {}
        for key in await call(store.names, f"{start}{instance_id}{'/' if instance_id else ''}"):
            if named := _RECORD.fullmatch(key.removeprefix(start)):
                names.setdefault(InstanceId(named[1]), []).append(named[2])
        return names

    async def read(self, instance_id: InstanceId, name: str, sealer: "KeyRing") -> RecoveryRecord:
        """Read a record and open it with the key of the registry.

        Raises:
            AbsentError: It is gone.
            RefusedError: The key does not open it, or it is another instance's.
            UnavailableError: The object store does not answer.
        """
        content = await call((await self.store()).get, self._key(instance_id, name))
        if len(content) > _LARGEST:
            raise RefusedError(f"the recovery record of instance {instance_id} has more than {_LARGEST} bytes")
        unsealed = sealer.unseal(content.decode(errors="replace"), place=place_of_record(instance_id))
        return opened_record(unsealed, instance_id)

    async def write(self, instance_id: InstanceId, name: str, text: str) -> None:
        """Write the sealed text of a record under a name into the object store.

        Raises:
            UnavailableError: The object store does not answer.
        """
        await call((await self.store()).put, self._key(instance_id, name), text.encode())

    async def remove(self, instance_id: InstanceId, names: Iterable[str]) -> None:
        """Delete the named records of an instance from the object store; absent ones count as deleted.

        Raises:
            UnavailableError: The object store does not answer.
        """
        store = await self.store()
        for name in names:
            await call(store.remove, self._key(instance_id, name))

    async def all(self, sealer: "KeyRing") -> Found:
        """The newest record of each instance.

        Raises:
            UnavailableError: The object store does not answer.
        """
        names = await self.names()
        owners = list(names)

        async def newest(owner: InstanceId) -> RecoveryRecord:
            return await self.read(owner, names[owner][-1], sealer)

        answers = dict(zip(owners, await fan_out(owners, newest, _LIMITS), strict=True))
        return Found(
            {owner: answer for owner, answer in answers.items() if not isinstance(answer, HermesError)},
            {owner: answer.message for owner, answer in answers.items() if isinstance(answer, HermesError)},
        )

    async def has_repository(self, instance_id: InstanceId) -> bool:
        """Whether an instance was ever backed up."""
        store = await self.store()
        return bool(await call(store.names, f"{self.environment}/{instance_id}/config"))

    def _key(self, instance_id: InstanceId, name: str) -> str:
        return f"{self.environment}/{_FOLDER}/{instance_id}/{name}"


@dataclass(frozen=True)
class RecoveryRecords:
    """Keeps records equal to the registry, and restores lost rows from them."""

    registry: Registry
    stored: StoredRecords
    sealer: Callable[[], "KeyRing"]

    async def save(self, instance_id: InstanceId) -> TakenBack:
        """Write the registry's facts of an instance into its record; returns facts that the registry lacked.

        A record that says something else is read before it is replaced: it may be all that is left. It may be killed
        anywhere, and repeated.

        Raises:
            RefusedError: The record there does not open, or has another password.
            UnavailableError: The object store does not answer.
        """
        names = (await self.stored.names(instance_id)).get(instance_id, [])
        record = self.registry.recovery_records.sealed(instance_id)
        expected = [record.name] if record else []
        if names == expected:
            return TakenBack()
        if taken := await self._take_back(instance_id, names):
            record = self.registry.recovery_records.sealed(instance_id)
        if record and record.name not in names:
            await self.stored.write(instance_id, record.name, record.text)
        await self.stored.remove(instance_id, (name for name in names if not record or name != record.name))
        return taken

    async def take_back(self, instance_id: InstanceId) -> TakenBack:
        """Write missing facts of an instance's record into the registry; nothing where there is no record.

        Raises:
            RefusedError: The record does not open, or has another password than the registry.
            UnavailableError: The object store does not answer.
        """
        return await self._take_back(instance_id, (await self.stored.names(instance_id)).get(instance_id, []))

    async def save_all(self) -> dict[str, str]:
        """``save`` for every instance that is due; by user why it failed, empty if it did not.

        Raises:
            UnavailableError: The object store does not answer.
        """
        names = await self.stored.names()
        due = await in_db_thread(self.registry.recovery_records.due, names)

        async def save_if_due(instance_id: InstanceId) -> None:
            record = await in_db_thread(self.registry.recovery_records.sealed, instance_id)
            if names.get(instance_id, []) != ([record.name] if record else []):
                await self.save(instance_id)

        # A user's ended instances have the same title.
        titles = Counter(due.values())
        named = {title if titles[title] == 1 else f"{title} ({id_})": id_ for id_, title in due.items()}
        return await problems(named, save_if_due, _LIMITS)

    async def _take_back(self, instance_id: InstanceId, names: list[str]) -> TakenBack:
        for name in reversed(names):
            try:
                record = await self.stored.read(instance_id, name, self.sealer())
            except AbsentError:  # another process replaced it
                continue
            return self.registry.recovery_records.take_back(record)
        return TakenBack()

    async def remove(self, instance_id: InstanceId) -> None:
        """Delete the records of an instance whose repository was erased; safe to call twice."""
        await self.stored.remove(instance_id, (await self.stored.names(instance_id)).get(instance_id, []))
