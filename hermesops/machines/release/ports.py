"""What releases need of other packages: a place for files, a key that signs, a check of signatures, downloads."""

from pathlib import Path
from typing import Protocol


class Store(Protocol):
    """Where releases are kept: files by name, in a folder or bucket; see ``engine.embedded.state.storage``."""

    @property
    def url(self) -> str:
        """The place, for people."""

    def read(self, name: str, *, at_most: int | None = None) -> bytes | None:
        """What is kept under a name, or so many bytes of it; ``None`` for nothing."""

    def write(self, name: str, content: bytes) -> None:
        """Store an object atomically; replaces an existing one."""

    def list(self, folder: str) -> list[str]:
        """Names of the files directly in a folder."""

    def link(self, name: str, *, life_s: int) -> str:
        """A URL from which anybody can download it for a while; empty where the store has none."""


class Signs(Protocol):
    """Signs; see ``identity.signatures``."""

    def sign(self, data: bytes, *, namespace: str) -> str:
        """The armored signature of some bytes."""


class Checks(Protocol):
    """Checks signatures against allowed signers that are given as text."""

    def __call__(self, data: bytes, signature: str, *, signers: str, namespace: str) -> str:
        """The identity that the allowed signers give to the key.

        Raises:
            RefusedError: It is malformed, of other data, or not by one of them.
        """


class Downloads(Protocol):
    """Fetches locked packages; see ``hermesops.machines.image.download.Pip``."""

    def wheels(self, requirements: Path, folder: Path, *, python: str) -> None:
        """Put wheels for x86_64 Linux and that Python into a folder."""

    def source(self, requirements: Path, folder: Path) -> None:
        """Put source archives into a folder."""
