"""The object store that keeps backups: a bucket that settings name, or the local world's own."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from hermesops.backup.repository import Bucket
from hermesops.backup.store.object_store import ObjectStore
from hermesops.errors import UsageError
from hermesops.secrets.catalog import BACKUP_KEY
from hermesops.secrets.store import Secrets
from hermesops.settings import Environment

_LOCAL_BUCKET = "backups"


class BackupStore:
    """Finds the object store once.

    Args:
        local_store: Starts the local world's object store, which is built on first need; tells where it is.
    """

    def __init__(
        self, env: Environment, secrets: Secrets, local_store: Callable[[], Awaitable[Mapping[str, str]]]
    ) -> None:
        self._env = env
        self._secrets = secrets
        self._local_store = local_store
        self._found: ObjectStore | None = None
        self._finding = asyncio.Lock()

    @property
    def exists(self) -> bool:
        """Whether there is one."""
        return self._is_local or bool(self._env.settings.backup.bucket)

    async def find(self) -> ObjectStore:
        """The object store.

        Raises:
            UsageError: None is set.
            UnavailableError: The local world is down, or its object store could not be built.
        """
        async with self._finding:
            if self._found is None:
                self._found = await self._of_local_world() if self._is_local else self._of_settings()
            return self._found

    @property
    def _is_local(self) -> bool:
        return self._env.is_local and not self._env.settings.backup.bucket

    async def _of_local_world(self) -> ObjectStore:
        where = await self._local_store()
        bucket = Bucket(_LOCAL_BUCKET, where["region"], where["endpoint"], where["iam_endpoint"])
        return ObjectStore(bucket, Path(where["key_file"]), is_local=True)

    def _of_settings(self) -> ObjectStore:
        settings = self._env.settings
        if not settings.backup.bucket:
            raise UsageError(
                f"environment {self._env.name} has no backup.bucket: its agents are backed up nowhere",
                hint="hermesops settings show; runbooks/everyday.md says what the bucket needs",
            )
        ca = settings.backup.ca_file.read_text() if settings.backup.ca_file else ""
        bucket = Bucket(
            settings.backup.bucket, settings.backup.region, settings.backup.endpoint, settings.backup.iam_endpoint, ca
        )
        return ObjectStore(bucket, self._key_file)

    @property
    def _key_file(self) -> Path | None:
        """The platform's key to the bucket; ``None`` where AWS programs find one by themselves."""
        given = self._env.settings.backup.key_file
        return given or (self._secrets.file(BACKUP_KEY) if self._secrets.find(BACKUP_KEY) else None)
