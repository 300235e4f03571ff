"""Brings files and names to the disk, so that a power cut takes neither back; and says why a disk takes no write."""

import contextlib
import errno
import os
import secrets
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from hermesops.errors import Hint, NotWrittenError

_WORDS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota of this user is used up",
    errno.EROFS: "the file system is read-only",
    errno.EIO: "the disk reports an error",
    errno.EFBIG: "the file would be larger than this process may write (ulimit -f)",
}
"""Refusals of a disk, not of permissions: whoever runs the command, the disk has to be seen to."""

_TRIAL_BYTES = 1 << 20
_WANTED_MB = 100
"""Room that is asked for where a disk is full, for registry, copies and logs; of a small disk, half of it."""

_SQLITE = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")


def sync_file(file: Path) -> None:
    """Bring a file's content to the disk."""
    _sync(file, os.O_RDONLY)


def sync_folder(folder: Path) -> None:
    """Bring names made and changed in a folder to the disk."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def is_refusal(error: BaseException | None) -> bool:
    """Whether a disk refused a write, as opposed to a missing permission or a bug."""
    return isinstance(error, OSError) and error.errno in _WORDS


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Write below ``path`` in the block.

    Raises:
        NotWrittenError: The disk refused it. Other errors pass as they are.
    """
    try:
        yield
    except OSError as error:
        if is_refusal(error):
            raise not_written(path, error) from error
        raise


def not_written(path: Path | str, error: OSError) -> NotWrittenError:
    """The error for a path that a disk refused to write, with the reason, the free space and a hint."""
    existing = _nearest(Path(path))
    why = _WORDS.get(error.errno or 0) or error.strerror or str(error)
    figures = f" ({free(existing)})" if error.errno in {errno.ENOSPC, errno.EDQUOT} else ""
    return NotWrittenError(f"{path} cannot be written: {why}{figures}", hint=_hint(existing, error.errno))


def refused_write(error: OSError, folders: Iterable[Path] = ()) -> NotWrittenError:
    """The error for a write that a disk refused; of an error without a file's name, a trial finds the disk.

    Args:
        folders: Where it may have been.
    """
    if error.filename:
        return not_written(str(error.filename), error)
    import tempfile  # noqa: PLC0415 - some milliseconds, which a command that ends well saves

    for folder in (*folders, Path(tempfile.gettempdir())):
        if refusal := try_to_write(folder):
            return not_written(folder, refusal)
    return NotWrittenError(
        f"a file cannot be written: {_WORDS[error.errno or 0]}", hint=Hint(("doctor",), "tries disks")
    )


def sqlite_not_written(file: Path | str, error: BaseException | None) -> NotWrittenError | None:
    """The error for a statement of SQLite's that a disk refused; ``None`` for any other error.

    SQLite does not hand on what the operating system said, so it is asked again.
    """
    code = getattr(error, "sqlite_errorname", "") or ""
    if not code.startswith(_SQLITE):
        return None
    refusal = try_to_write(Path(file).parent)
    if refusal is None and code.startswith("SQLITE_FULL"):
        refusal = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return not_written(file, refusal) if refusal else None


def try_to_write(folder: Path) -> OSError | None:
    """Write a megabyte into a folder, or the nearest one above it, and remove it; the error that this raised."""
    trial = _nearest(folder) / f".hermesops-trial-{secrets.token_hex(6)}"
    try:
        with trial.open("xb", buffering=0) as file:
            data = memoryview(bytes(_TRIAL_BYTES))
            while data:
                data = data[file.write(data) :]
            os.fsync(file.fileno())
    except OSError as error:
        return error if is_refusal(error) else None
    finally:
        with contextlib.suppress(OSError):
            trial.unlink()
    return None


def free(path: Path) -> str:
    """Free space on the disk of a path, for people: ``1.2 of 40.0 GB free``."""
    figures = os.statvfs(_nearest(path))
    if figures.f_bavail and figures.f_files and not figures.f_favail:
        return "no more files can be made there"
    unit, name = (1e9, "GB") if figures.f_blocks * figures.f_frsize >= 1e9 else (1e6, "MB")  # noqa: PLR2004 - as named
    available, size = figures.f_bavail * figures.f_frsize, figures.f_blocks * figures.f_frsize
    return f"{available / unit:.1f} of {size / unit:.1f} {name} free"


def device(path: Path) -> int:
    """A number for the disk of a path."""
    return _nearest(path).stat().st_dev


def _hint(path: Path, number: int | None) -> str:
    figures = os.statvfs(path)
    wanted_mb = max(1, min(_WANTED_MB, figures.f_blocks * figures.f_frsize // 2_000_000))
    where = shlex.quote(str(next(folder for folder in (path, *path.parents) if folder.is_mount())))
    again = "then run the same command again"
    match number:
        case errno.ENOSPC:
            return (
                f"make room on the disk at {where}, {wanted_mb} MB or more (du -xh {where} | sort -h | tail), {again}"
            )
        case errno.EDQUOT:
            return f"remove files of this user on the disk at {where}, or have the quota raised, {again}"
        case errno.EROFS:
            return f"have {where} mounted writable (findmnt {where}), {again}"
        case errno.EFBIG:
            return f"ulimit -f unlimited, {again}"
        case errno.EIO:
            return f"dmesg shows details about the disk at {where}; repair it, {again}"
    return f"see that {path} may be written, {again}"


def _nearest(path: Path) -> Path:
    """The path, or its nearest existing parent."""
    return next(candidate for candidate in (path.absolute(), *path.absolute().parents) if candidate.exists())


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
