"""A store of releases in a folder."""

import os
import tempfile
from pathlib import Path


class FolderStore:
    """Keeps releases in a folder of this computer.

    Args:
        folder: Which; made when something is written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.title = str(folder)

    def read(self, name: str) -> bytes | None:
        """What is kept under a name; ``None`` for nothing."""
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Keep something, whole or not at all, a power cut included."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".new-", delete=False) as file:
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                os.fchmod(file.fileno(), 0o644)
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
        _sync(path.parent)

    def names(self, folder: str) -> frozenset[str]:
        """The names in a folder, without it; what a killed writer left is none."""
        try:
            names = [path.name for path in (self._folder / folder).iterdir()]
        except FileNotFoundError:
            return frozenset()
        return frozenset(name for name in names if not name.startswith("."))

    def link(self, name: str, *, life_s: int) -> str:  # noqa: ARG002 - as in every store
        """Nowhere: a folder has no address that a machine could ask."""
        return ""


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
