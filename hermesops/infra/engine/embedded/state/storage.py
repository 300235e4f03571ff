"""Storage of whole files by name, as Pulumi's file backend does: a folder or a bucket, same names in both."""

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from hermesops.base.files.disk import is_refusal, not_written
from hermesops.errors import RefusedError, UnavailableError, UsageError

if TYPE_CHECKING:
    from hermesops.infra.engine.embedded.state.bucket import BucketAccess

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EXDEV, errno.ENOSYS})


class Storage(Protocol):
    """Keeps whole files by name; names are relative and use ``/``."""

    @property
    def url(self) -> str:
        """The storage as the CLI's ``PULUMI_BACKEND_URL`` spells it."""

    def at(self, name: str) -> str:
        """Return the place of a file, for people."""

    def make(self) -> None:
        """Make the folder; a bucket is made by whoever answers for its permissions and its price."""

    def read(self, name: str, *, at_most: int | None = None) -> bytes | None:
        """Return the content; None if there is no such file.

        ``at_most`` is the number of bytes to read.

        Raises:
            UnavailableError: It cannot be read now.
            RefusedError, UsageError: It cannot be read later either: no permission, no such bucket.
        """

    def write(self, name: str, content: bytes) -> None:
        """Replace a file whole. When this returns a power cut cannot take it back; until then the old one is there."""

    def keep(self, name: str, also: str) -> None:
        """Give a file's present content a second name that later writes to the first do not touch.

        Does nothing where there is no such file.
        """

    def list(self, folder: str) -> list[str]:
        """Names of the files directly in a folder, in order; none where there is no such folder."""

    def delete(self, name: str) -> None:
        """Remove a file; one that is gone already is success."""

    def link(self, name: str, *, life_s: int) -> str:
        """Return a URL with which anybody can download a file; empty for a folder, which is not served.

        The file need not exist. The URL is good for ``life_s`` seconds.
        """


@dataclass(frozen=True)
class Folder:
    """A folder of a storage, by its name."""

    storage: Storage
    name: str

    def files(self, ending: str) -> list[str]:
        """Names of the files in it with that ending, in order."""
        return [file for file in self.storage.list(self.name) if file.endswith(ending)]


def open_storage(
    where: str | Path, *, setting: str = "pulumi.backend", access: "BucketAccess | None" = None
) -> Storage:
    """Open a folder, or a backend URL of Pulumi's: ``file://…`` or ``s3://…``. Connects to nothing.

    ``setting`` says where, for errors; ``access`` opens a bucket, unless AWS programs find a way by themselves.

    Raises:
        UsageError: It is of another kind, or says something that is not understood.
    """
    if isinstance(where, Path) or "://" not in where:
        return FolderStorage(Path(where))
    scheme = urlsplit(where).scheme
    if scheme == "file":
        return FolderStorage(Path(where.removeprefix("file://")).expanduser())
    if scheme == "s3":
        from hermesops.infra.engine.embedded.state.bucket import (  # noqa: PLC0415  loads urllib3
            DEFAULT_ACCESS,
            BucketStorage,
            parse_bucket,
        )

        return BucketStorage(where, parse_bucket(where, setting), setting, access or DEFAULT_ACCESS)
    raise UsageError(
        f"files cannot be kept in {scheme}://: a folder or an s3:// bucket can hold it",
        hint=f"set {setting} to a folder or to s3://BUCKET/FOLDER?region=REGION",
    )


class FolderStorage:
    """A folder of this computer, written so that a power cut leaves the old file or the new one.

    Args:
        folder: The folder, ``file://folder`` for the CLI; made if missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    @property
    def url(self) -> str:
        """URL of the folder, as ``file:///home/ada/state``."""
        return f"file://{self._folder}"

    def at(self, name: str) -> str:
        """Return the path of a file."""
        return str(self._folder / name)

    def make(self) -> None:
        """Create the folder if it is missing."""
        with _writing(self._folder):
            _make(self._folder)

    def read(self, name: str, *, at_most: int | None = None) -> bytes | None:
        """Read a file, up to ``at_most`` bytes; None if it does not exist."""
        file = self._folder / name
        try:
            with file.open("rb") as opened:
                return opened.read() if at_most is None else opened.read(at_most)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            kind = RefusedError if isinstance(error, PermissionError | IsADirectoryError) else UnavailableError
            raise kind(
                f"{file}: cannot be read: {error.strerror}", hint="fix that, then run the same command again"
            ) from error

    def write(self, name: str, content: bytes) -> None:
        """Write beside, bring to the disk, rename, and bring the rename to the disk."""
        file = self._folder / name
        fresh = file.with_name(file.name + ".new")
        with _writing(file):
            _make(file.parent)
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as out:
                out.write(content)
                out.flush()
                os.fsync(descriptor)
            os.replace(fresh, file)  # noqa: PTH105  the calls whose order matters stand here in one manner
            _sync(file.parent)

    def keep(self, name: str, also: str) -> None:
        """Link the content under the second name; files are only ever replaced, so a link is a copy."""
        file, copy = self._folder / name, self._folder / also
        fresh = copy.with_name(copy.name + ".new")
        with _writing(copy):
            _make(copy.parent)
            fresh.unlink(missing_ok=True)
            try:
                os.link(file, fresh)
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
            else:
                os.replace(fresh, copy)  # noqa: PTH105  as above
                return
        self.write(also, self.read(name) or b"")

    def list(self, folder: str) -> list[str]:
        """Return the names of the files directly in a folder, sorted."""
        try:
            return sorted(f"{folder}/{file.name}" for file in (self._folder / folder).iterdir() if not file.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise UnavailableError(f"{self._folder / folder}: cannot be listed: {error.strerror}") from error

    def delete(self, name: str) -> None:
        """Remove a file; one that is gone already is success."""
        file = self._folder / name
        with _writing(file):
            file.unlink(missing_ok=True)

    def link(self, name: str, *, life_s: int) -> str:  # noqa: ARG002 - as in every storage
        """Return an empty text: a folder is not served."""
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
        if is_refusal(error):
            raise not_written(file, error) from error
        raise UnavailableError(
            f"{file}: cannot be written: {error.strerror}",
            hint="correct the folder's permissions, then run the same command again",
        ) from error
