"""The standard streams, whatever the caller did to them. Light: ``--version`` imports this."""

import os
import sys


def open_closed() -> None:
    """Give a standard stream that the caller closed (``>&-``, some CI and cron) a place that takes everything.

    Otherwise Python has no such stream, and the next file or connection would get its number and our output.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004 - 0, 1 and 2 are the standard streams
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - lives as long as the process
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - as above
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115 - as above


def let_go() -> None:
    """Write what is still held back. What nobody reads any more is forgotten, or Python would complain as it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            send_nowhere(stream.fileno())


def send_nowhere(descriptor: int) -> None:
    """Forget what the stream of a file descriptor still holds, and all that will be written to it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
