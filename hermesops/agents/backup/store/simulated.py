"""The object store of a simulated world: its users, their keys, and its objects, in folders; copies are in the world.

The platform's code for backups goes its usual way, from the key that is issued to the one that is retired, without a
server and without root. Nothing listens, so whatever asks it as S3 does is told that there is none.
"""

import secrets
from contextlib import suppress
from pathlib import Path
from shutil import rmtree

from hermesops.agents.backup.store.object_store import ObjectStore
from hermesops.agents.backup.store.repository import Bucket, Repository
from hermesops.base.files.private_file import make_private_folder, replace_secret
from hermesops.base.network.aws_client import AbsentError
from hermesops.errors import Hint, UnavailableError
from hermesops.localcloud.world.files import WorldFiles
from hermesops.model.recovery.backup import Credential

_NOWHERE = "http://object-store.invalid"
"""An address that never is one (RFC 2606), should anything ask."""


class SimulatedStore(ObjectStore):
    """A bucket that has no server.

    Args:
        world: The world's folder.
    """

    def __init__(self, world: Path, bucket: str) -> None:
        super().__init__(Bucket(bucket, "us-east-1", _NOWHERE, _NOWHERE), None, is_local=True)
        self._world = world
        self._users = world / "object-store-users"
        self._objects = WorldFiles(world).object_store

    def prepare(self) -> None:
        """Make the folder of its users.

        Raises:
            UnavailableError: The world is gone.
        """
        self.answers()
        make_private_folder(self._users)

    def answers(self) -> None:
        """Return while there is a world.

        Raises:
            UnavailableError: There is none.
        """
        if not self._world.is_dir():
            raise UnavailableError(f"there is no world in {self._world}", hint=Hint(("local", "up")))

    def credential(self) -> Credential:
        """A credential that opens nothing: the platform reads copies in the world itself."""
        return Credential("SIMULATED", "opens nothing")

    def issue(self, user: str, repository: Repository, *, keep: str = "") -> Credential:
        """Give a user a new key, and end every other one but ``keep``."""
        del repository
        make_private_folder(self._users / user)
        self.retire(user, keep=keep)
        credential = Credential(secrets.token_hex(10).upper(), secrets.token_urlsafe(32))
        replace_secret(self._users / user / credential.access_key, credential.secret_key)
        return credential

    def retire(self, user: str, *, keep: str = "") -> None:
        """End every key of a user but one."""
        for key in self.keys_of(user) - {keep}:
            (self._users / user / key).unlink(missing_ok=True)

    def revoke(self, user: str) -> None:
        """End a user with all its keys; absent is success."""
        rmtree(self._users / user, ignore_errors=True)

    def erase(self, repository: Repository) -> None:
        """Do nothing: the world holds the contents, and deletes them with the copies."""

    def put(self, name: str, content: bytes) -> None:
        """Write an object, the one of that name included."""
        file = self._file(name)
        make_private_folder(file.parent)
        replace_secret(file, content.decode())

    def get(self, name: str) -> bytes:
        """An object's content.

        Raises:
            AbsentError: There is none of that name.
        """
        try:
            return self._file(name).read_bytes()
        except FileNotFoundError:
            raise AbsentError(f"there is no object {name}") from None

    def names(self, prefix: str) -> list[str]:
        """List the names of objects that begin with a prefix, the oldest first."""
        objects = []
        for path in self._objects.rglob("*"):
            with suppress(FileNotFoundError):  # it was removed, or a draft took its name, since it was listed
                if path.is_file() and not _is_draft(path):
                    objects.append((path.stat().st_mtime_ns, str(path.relative_to(self._objects))))
        return [name for _, name in sorted(objects) if name.startswith(prefix)]

    def remove(self, name: str) -> None:
        """Delete an object; absent is success."""
        self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self._objects / name

    def keys_of(self, user: str) -> set[str]:
        """The access keys of a user that count; none where there is no such user."""
        folder = self._users / user
        return {file.name for file in folder.iterdir() if not _is_draft(file)} if folder.is_dir() else set()


def _is_draft(file: Path) -> bool:
    """Whether a file is one that ``replace_secret`` has not finished."""
    return file.name.startswith(".")
