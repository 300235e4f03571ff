"""Heads of the audit's chain, kept outside the database in a file that is only appended to.

Each line has time, epoch, id and hash. If the file's permissions exclude writers of the database, it
reveals a removed tail or a recomputed chain. Lines torn by a power cut are skipped.
"""

import fcntl
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from hermesops.base.files.disk import sync_folder
from hermesops.base.files.private_file import make_private_folder
from hermesops.errors import RefusedError
from hermesops.model.access.audit import AuditHead

_LINE_BYTES = 200
"""More than any line has."""


class Anchor:
    """One file of heads, created with the first head; several processes may append to it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, head: AuditHead) -> None:
        """Append a head, synced to the disk.

        Raises:
            OSError: It could not be written; the file is unchanged or ends in a torn line.
        """
        make_private_folder(self.path.parent)
        is_new = not self.path.exists()
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            at = datetime.now(UTC).isoformat(timespec="seconds")
            line = f"{at} {head.epoch} {head.id} {head.hash}\n".encode()
            os.write(descriptor, b"\n" + line if torn else line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            sync_folder(self.path.parent)

    def take_over(self, other: "Anchor") -> int:
        """Append the heads of another anchor that this one lacks, so that they go on to bind the rows; how many.

        Raises:
            OSError: It could not be written.
            RefusedError: One of them may not be read.
        """
        if other.path.exists() and self.path.exists() and other.path.samefile(self.path):
            return 0
        known, count = set(self.heads()), 0
        for head in other.heads():
            if head not in known:
                self.append(head)
                count += 1
        return count

    def heads(self) -> Iterator[AuditHead]:
        """Every head, oldest first; none when there is no file.

        Raises:
            RefusedError: The file may not be read.
        """
        try:
            with self.path.open("rb") as file:
                yield from filter(None, map(_parsed, file))
        except FileNotFoundError:
            return
        except OSError as error:
            raise RefusedError(f"the audit's anchor {self.path} cannot be read: {error.strerror}") from error

    def last(self) -> AuditHead | None:
        """The head appended last, without reading the whole file."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 3 * _LINE_BYTES))
                heads = [head for head in map(_parsed, file) if head]
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RefusedError(f"the audit's anchor {self.path} cannot be read: {error.strerror}") from error
        return heads[-1] if heads else None

    def highest_epoch(self) -> int:
        """The newest epoch of any head; 0 when there is none."""
        return max((head.epoch for head in self.heads()), default=0)


def _parsed(line: bytes) -> AuditHead | None:
    words = line.decode(errors="replace").split()
    try:
        _, epoch, number, digest = words
        return AuditHead(int(epoch), int(number), digest) if len(digest) == 64 and line.endswith(b"\n") else None  # noqa: PLR2004 - SHA-256 in hexadecimal
    except ValueError:
        return None
