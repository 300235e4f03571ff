"""Backends that keep an environment's secrets: their interface, and the two on this computer."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from hermesops.base.files.private_file import make_secret, read_secret, replace_secret
from hermesops.errors import RefusedError


class SecretBackend(Protocol):
    """Keeps secrets by name. A name is lower-case words with dots between them."""

    @property
    def title(self) -> str:
        """Name of the backend for people."""

    def names(self) -> frozenset[str]:
        """Return the names of the stored secrets.

        Raises:
            RefusedError: The backend denies access.
            UnavailableError: The backend does not answer.
        """

    def read(self, name: str) -> str | None:
        """Return a secret's text without white space around it; ``None`` for an unknown name."""

    def write(self, name: str, text: str) -> None:
        """Replace a secret, whole or not at all.

        Raises:
            RefusedError: The backend is read-only.
        """

    def make(self, name: str, text: str) -> str:
        """Store a secret unless it exists; returns the stored text, also when two processes do it at once."""

    def changed_at(self, name: str) -> datetime | None:
        """Return the time of the last write; ``None`` if it is not known."""

    def path(self, name: str) -> Path | None:
        """Return the file that contains only this secret; ``None`` if there is no such file."""


class FolderBackend:
    """A folder of files of mode 0600, one for each secret."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def title(self) -> str:
        """Name of the backend for people: its folder."""
        return str(self._folder)

    def names(self) -> frozenset[str]:
        """Return the names of the folder's files, hidden ones left out."""
        files = self._folder.iterdir() if self._folder.is_dir() else ()
        return frozenset(file.name for file in files if file.is_file() and not file.name.startswith("."))

    def read(self, name: str) -> str | None:
        """Return the text of a secret's file; refused if others may read it."""
        file = self._folder / name
        return read_secret(file, what=f"secret {name}") if file.exists() else None

    def write(self, name: str, text: str) -> None:
        """Replace the file of a secret, whole or not at all."""
        replace_secret(self._folder / name, text)

    def make(self, name: str, text: str) -> str:
        """Create the file unless it exists; of two processes at once, one wins."""
        make_secret(self._folder / name, text)
        return read_secret(self._folder / name, what=f"secret {name}")

    def changed_at(self, name: str) -> datetime | None:
        """Return the time of the file's last write."""
        file = self._folder / name
        return datetime.fromtimestamp(file.stat().st_mtime, UTC) if file.exists() else None

    def path(self, name: str) -> Path | None:
        """Return the file of a secret, whether it exists or not."""
        return self._folder / name


class EnvironmentBackend:
    """The process's environment variables, as pipelines set them; read-only.

    ``variables`` has texts by name as a variable spells it: ``API_KEY`` is ``api.key``. ``prefix`` is theirs, for
    hints.
    """

    title = "environment"

    def __init__(self, variables: Mapping[str, str], *, prefix: str) -> None:
        self._variables = variables
        self._prefix = prefix

    def names(self) -> frozenset[str]:
        """Return the names of the variables that are set."""
        return frozenset(name.lower().replace("_", ".") for name in self._variables)

    def read(self, name: str) -> str | None:
        """Return the text of a secret's variable."""
        return self._variables.get(_spelled(name), "").strip() or None

    def write(self, name: str, text: str) -> None:  # noqa: ARG002 - the Protocol's signature
        """Refuse: a variable of this process would be gone with it.

        Raises:
            RefusedError: Always; nothing changed.
        """
        raise RefusedError(
            f"{name} is in the variable {self._prefix}{_spelled(name)}, which no command can change",
            hint="set it where this process's environment comes from",
        )

    def make(self, name: str, text: str) -> str:
        """Return the variable's text; refused as in ``write`` if it is not set."""
        stored = self.read(name)
        if stored is None:
            self.write(name, text)
        return stored or ""

    def changed_at(self, name: str) -> datetime | None:  # noqa: ARG002 - the Protocol's signature
        """Return ``None``: a variable has no known time."""
        return None

    def path(self, name: str) -> Path | None:  # noqa: ARG002 - the Protocol's signature
        """Return ``None``: no file contains a variable."""
        return None


def _spelled(name: str) -> str:
    return name.upper().replace(".", "_").replace("-", "_")
