"""Files of state in a folder of this computer, written so that a power cut leaves the old one or the new one."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from hermesops.errors import RefusedError, UnavailableError

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EXDEV, errno.ENOSYS})


class FolderPlace:
    """A folder; see ``Place``.

    Args:
        folder: What the CLI would be given as ``file://folder``; made when missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    @property
    def url(self) -> str:
        """As the CLI is told."""
        return f"file://{self._folder}"

    def at(self, name: str) -> str:
        """The file's path."""
        return str(self._folder / name)

    def make(self) -> None:
        """Make the folder."""
        with _writing(self._folder):
            _make(self._folder)

    def read(self, name: str, *, at_most: int | None = None) -> bytes | None:
        """The file's content."""
        file = self._folder / name
        try:
            with file.open("rb") as opened:
                return opened.read() if at_most is None else opened.read(at_most)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            kind = RefusedError if isinstance(error, PermissionError | IsADirectoryError) else UnavailableError
            raise kind(f"{file}: cannot be read: {error.strerror}", hint="mend that, then run it again") from error

    def write(self, name: str, content: bytes) -> None:
        """Write beside, bring to the disk, rename, and bring the rename to the disk."""
        file = self._folder / name
        spare = file.with_name(file.name + ".new")
        with _writing(file):
            _make(file.parent)
            descriptor = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as out:
                out.write(content)
                out.flush()
                os.fsync(descriptor)
            os.replace(spare, file)  # noqa: PTH105  the calls whose order matters stand here in one manner
            _sync(file.parent)

    def keep(self, name: str, also: str) -> None:
        """Link the content under the second name; files are only ever replaced, so a link is a copy."""
        file, copy = self._folder / name, self._folder / also
        spare = copy.with_name(copy.name + ".new")
        with _writing(copy):
            _make(copy.parent)
            spare.unlink(missing_ok=True)
            try:
                os.link(file, spare)
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
            else:
                os.replace(spare, copy)  # noqa: PTH105  as above
                return
        self.write(also, self.read(name) or b"")

    def list(self, folder: str) -> list[str]:
        """Names of the files in a folder."""
        try:
            return sorted(f"{folder}/{file.name}" for file in (self._folder / folder).iterdir() if not file.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise UnavailableError(f"{self._folder / folder}: cannot be listed: {error.strerror}") from error

    def delete(self, name: str) -> None:
        """Unlink the file."""
        file = self._folder / name
        with _writing(file):
            file.unlink(missing_ok=True)

    def link(self, name: str, *, life_s: int) -> str:  # noqa: ARG002 - as in every place
        """Nowhere: nobody serves a folder."""
        return ""


def _make(folder: Path) -> None:
    """Make a folder with those above it; each is on the disk before something is put into it."""
    if folder.is_dir():
        return
    _make(folder.parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)  # noqa: PTH102  as above
    _sync(folder.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _writing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnavailableError(
            f"{file}: cannot be written: {error.strerror}",
            hint="make room or mend the folder's permissions, then run the same command again",
        ) from error
