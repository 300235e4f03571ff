"""The object store of a simulated world: its users and their keys, in a folder; what they would open is in the world.

The platform's code for backups goes its usual way, from the key that is issued to the one that is retired, without a
server and without root. Nothing listens, so whatever asks it as S3 does is told that there is none.
"""

import secrets
from pathlib import Path
from shutil import rmtree

from hermesops.backup.repository import Bucket, Repository
from hermesops.backup.store.object_store import ObjectStore
from hermesops.errors import Hint, UnavailableError
from hermesops.model.backup import Credential
from hermesops.private_file import make_private_folder, replace_secret

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
        made = Credential(secrets.token_hex(10).upper(), secrets.token_urlsafe(32))
        replace_secret(self._users / user / made.access_key, made.secret_key)
        return made

    def retire(self, user: str, *, keep: str = "") -> None:
        """End every key of a user but one."""
        for key in self.keys_of(user) - {keep}:
            (self._users / user / key).unlink(missing_ok=True)

    def revoke(self, user: str) -> None:
        """End a user with all its keys; absent is success."""
        rmtree(self._users / user, ignore_errors=True)

    def erase(self, repository: Repository) -> None:
        """Do nothing: what would be in it is in the world, which forgets it with the copies."""

    def keys_of(self, user: str) -> set[str]:
        """The access keys of a user that count; none where there is no such user."""
        folder = self._users / user
        return {file.name for file in folder.iterdir()} if folder.is_dir() else set()
