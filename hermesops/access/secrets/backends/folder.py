"""Backends that keep an environment's secrets: their interface, and the two on this computer."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from hermesops.base.private_file import make_secret, read_secret, replace_secret
from hermesops.errors import RefusedError


class SecretBackend(Protocol):
    """Keeps secrets by name. A name is lower-case words with dots between them."""

    @property
    def title(self) -> str:
        """What a person calls it."""

    def names(self) -> frozenset[str]:
        """Which secrets it holds.

        Raises:
            RefusedError: It denies access.
            UnavailableError: It does not answer.
        """

    def read(self, name: str) -> str | None:
        """A secret's text without white space around it; ``None`` when there is none of that name."""

    def write(self, name: str, text: str) -> None:
        """Replace a secret, whole or not at all.

        Raises:
            RefusedError: It is read-only.
        """

    def make(self, name: str, text: str) -> str:
        """Keep a secret unless there is one; the one that is kept, also when two processes do it at once."""

    def changed_at(self, name: str) -> datetime | None:
        """When it was written; ``None`` when that is not known."""

    def path(self, name: str) -> Path | None:
        """The file that holds this secret and nothing else; ``None`` where there is no such file."""


class FolderBackend:
    """A folder of files of mode 0600, one for each secret."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def title(self) -> str:
        """The folder."""
        return str(self._folder)

    def names(self) -> frozenset[str]:
        """The files."""
        files = self._folder.iterdir() if self._folder.is_dir() else ()
        return frozenset(file.name for file in files if file.is_file() and not file.name.startswith("."))

    def read(self, name: str) -> str | None:
        """The text of a file that others may not read."""
        file = self._folder / name
        return read_secret(file, what=f"secret {name}") if file.exists() else None

    def write(self, name: str, text: str) -> None:
        """Replace the file."""
        replace_secret(self._folder / name, text)

    def make(self, name: str, text: str) -> str:
        """Make the file; of two at once, one wins."""
        make_secret(self._folder / name, text)
        return read_secret(self._folder / name, what=f"secret {name}")

    def changed_at(self, name: str) -> datetime | None:
        """When the file was written."""
        file = self._folder / name
        return datetime.fromtimestamp(file.stat().st_mtime, UTC) if file.exists() else None

    def path(self, name: str) -> Path | None:
        """The file, whether it is there or not."""
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
        """Those that are set."""
        return frozenset(name.lower().replace("_", ".") for name in self._variables)

    def read(self, name: str) -> str | None:
        """The variable's text."""
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
        """The variable's text; refused as in ``write`` when it is not set."""
        held = self.read(name)
        if held is None:
            self.write(name, text)
        return held or ""

    def changed_at(self, name: str) -> datetime | None:  # noqa: ARG002 - the Protocol's signature
        """Not known."""
        return None

    def path(self, name: str) -> Path | None:  # noqa: ARG002 - the Protocol's signature
        """It is no file."""
        return None


def _spelled(name: str) -> str:
    return name.upper().replace(".", "_").replace("-", "_")
