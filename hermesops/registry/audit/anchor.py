"""Heads of the audit's chain, kept outside the database: a file that is only ever appended to.

One line each: moment, epoch, id, hash. Put it where whoever can write the database cannot, and a removed tail or a
chain that was computed anew shows. Torn lines of a power cut are skipped and counted.
"""

import fcntl
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from hermesops.disk import sync_folder
from hermesops.errors import RefusedError
from hermesops.model.audit import AuditHead

_LINE_BYTES = 200
"""More than any line has."""


class Anchor:
    """One file of heads; several processes may append to it.

    Args:
        path: The file; made with the first head.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, head: AuditHead) -> None:
        """Add a head, on the disk when this returns.

        Raises:
            OSError: It could not be written; the file is as it was, or ends in a torn line.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
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
                found = [head for head in map(_parsed, file) if head]
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RefusedError(f"the audit's anchor {self.path} cannot be read: {error.strerror}") from error
        return found[-1] if found else None

    def highest_epoch(self) -> int:
        """The newest epoch that any head is of; 0 when there is none."""
        return max((head.epoch for head in self.heads()), default=0)


def _parsed(line: bytes) -> AuditHead | None:
    words = line.decode(errors="replace").split()
    try:
        _, epoch, number, digest = words
        return AuditHead(int(epoch), int(number), digest) if len(digest) == 64 and line.endswith(b"\n") else None  # noqa: PLR2004 - SHA-256 in hexadecimal
    except ValueError:
        return None
