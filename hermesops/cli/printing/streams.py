"""The standard streams, also closed or broken ones. ``--version`` imports this, so it must stay light."""

import errno
import io
import os
import sys

TYPE_CHECKING = False  # type checkers take it for true; ``typing`` takes longer to import than this module
if TYPE_CHECKING:
    from typing import TextIO

    from _typeshed import ReadableBuffer


class StdoutLostError(OSError):
    """Stdout takes no more, though its reader has not gone."""


class _Narration(io.FileIO):
    """Stderr. Narration that cannot be written is dropped: a full disk or a lost terminal must not stop the work."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write it, or drop it; later pieces are tried again."""
        try:
            return super().write(data) or memoryview(data).nbytes
        except OSError:
            return memoryview(data).nbytes


class _Results(io.FileIO):
    """Stdout. After the first failure everything is dropped, or Python would report another error as it ends."""

    lost: OSError | None = None

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write some of it.

        Raises:
            BrokenPipeError: Nobody reads it any more.
            StdoutLostError: It cannot be written.
        """
        if self.lost:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except BrokenPipeError as error:
            self.lost = error
            raise
        except OSError as error:
            self.lost = StdoutLostError(error.errno, error.strerror)
            raise self.lost from error


def open_all() -> None:
    """Have stderr and stdout written as this module says, also where the caller closed one of the standard streams.

    A stream that the caller closed (``>&-``, some CI and cron) gets a place that takes everything. Otherwise Python has
    no such stream, and the next file or connection would get its number and our output.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004 - 0, 1 and 2 are the standard streams
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - open as long as the process
    sys.stdout = _text(_Results(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Narration(2, "w", closefd=False), sys.stderr)


def close() -> str:
    """Flush stdout; why it could not be written, or nothing: a reader that has gone needs no result."""
    try:
        sys.stdout.flush()
    except OSError:
        sys.stdout.flush()  # what it still holds is dropped now
    raw = getattr(sys.stdout.buffer, "raw", None)
    lost = raw.lost if isinstance(raw, _Results) else None
    return os.strerror(lost.errno or errno.EIO) if lost and not isinstance(lost, BrokenPipeError) else ""


def _text(raw: io.FileIO, before: "TextIO | None") -> io.TextIOWrapper:
    """A text stream with the encoding that Python chose for the one before it."""
    if before is None:
        return io.TextIOWrapper(io.BufferedWriter(raw), line_buffering=raw.isatty())
    return io.TextIOWrapper(
        io.BufferedWriter(raw), before.encoding, before.errors, line_buffering=getattr(before, "line_buffering", False)
    )
