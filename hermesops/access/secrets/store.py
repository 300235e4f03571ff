"""The secrets of an environment: each in the file that a setting names, else in the environment's backend.

It must not know the uses of secrets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hermesops.access.secrets.backends.folder import FolderBackend, SecretBackend
from hermesops.access.secrets.catalog import SecretSpec
from hermesops.access.secrets.temp_files import TempFiles
from hermesops.base.files.private_file import read_secret, replace_secret
from hermesops.errors import Hint, RefusedError


@dataclass(frozen=True)
class SecretState:
    """Place and time of a secret, without its text.

    Attributes:
        where: The backend, or the file that a setting names.
        changed_at: Time of the last write; ``None`` if it is not known, or if there is no secret.
    """

    needed: SecretSpec
    where: str
    is_there: bool
    changed_at: datetime | None


class Secrets:
    """An environment's secrets.

    ``files`` are those that settings name, by the secret's name; ``home`` is the backend of all others.
    """

    def __init__(self, files: Mapping[str, Path], home: SecretBackend, lent: TempFiles | None = None) -> None:
        self._files = files
        self.home = home
        self._lent = lent or TempFiles()

    def held(self, needed: SecretSpec) -> SecretState:
        """Return a secret's place and time, without its text.

        Raises:
            RefusedError: Its backend denies access.
            UnavailableError: Its backend does not answer.
        """
        file = self._files.get(needed.name)
        if file is None:
            is_there = needed.name in self.home.names()
            changed_at = self.home.changed_at(needed.name) if is_there else None
            return SecretState(needed, self.home.title, is_there, changed_at)
        changed_at = datetime.fromtimestamp(file.stat().st_mtime, UTC) if file.exists() else None
        return SecretState(needed, str(file), file.exists(), changed_at)

    def where(self, needed: SecretSpec) -> str:
        """Return a secret's backend, or the file that a setting names; for people."""
        file = self._files.get(needed.name) or self.home.path(needed.name)
        return str(file or self.home.title)

    def find(self, needed: SecretSpec) -> str | None:
        """Return a secret's text; ``None`` if its backend has none.

        Raises:
            RefusedError: The file that a setting names is missing, or either may not be read.
        """
        file = self._files.get(needed.name)
        return self.home.read(needed.name) if file is None else read_secret(file, what=needed.name)

    def read(self, needed: SecretSpec) -> str:
        """Return a secret's text.

        Raises:
            RefusedError: There is none, or it may not be read.
        """
        text = self.find(needed)
        if text is None:
            raise RefusedError(
                f"the secret {needed.name}, which {needed.purpose}, is not in {self.home.title}",
                hint=Hint(("secrets", "set", needed.name, "--from", "FILE"), f"; or the setting {needed.setting}"),
            )
        return text

    def made(self, needed: SecretSpec, text: str) -> str:
        """Return a secret's text, after storing ``text`` if there was none; of two processes at once, one wins."""
        return self.home.make(needed.name, text) if needed.name not in self._files else self.read(needed)

    def write(self, needed: SecretSpec, text: str) -> None:
        """Replace it where it is.

        Raises:
            RefusedError: Its backend is read-only.
        """
        file = self._files.get(needed.name)
        if file is None:
            self.home.write(needed.name, text)
        else:
            replace_secret(file, text)

    def file(self, needed: SecretSpec) -> Path:
        """A file with its text, for programs that need one: its own, or a temporary one while this process lives."""
        file = self._files.get(needed.name) or self.home.path(needed.name)
        return file or self.lend(needed, self.read(needed))

    def lend(self, needed: SecretSpec, text: str) -> Path:
        """A temporary file with this text, until this process ends."""
        return self._lent.lend(needed.name, text)


def home_of(setting: str, *, keys: Path, identity: Path | None, variables: SecretBackend) -> SecretBackend:
    """The backend that a setting names.

    The setting reads ``age:FILE``, which ``identity`` opens, ``aws:PREFIX``, ``environment``, or nothing for the folder
    ``keys``.

    Raises:
        RefusedError: It names none.
    """
    kind, _, rest = setting.partition(":")
    if not setting:
        return FolderBackend(keys)
    if setting == "environment":
        return variables
    if kind == "age" and rest:
        from hermesops.access.secrets.backends.age import AgeBackend  # noqa: PLC0415 - only one backend is needed

        return AgeBackend(Path(rest).expanduser(), identity)
    if kind == "aws" and rest:
        from hermesops.access.secrets.backends.aws import AwsBackend  # noqa: PLC0415 - as above

        return AwsBackend(rest)
    raise RefusedError(
        f"secrets.home {setting!r} names no backend", hint="age:FILE, aws:PREFIX, environment, or nothing for keys/"
    )
