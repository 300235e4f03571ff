"""The standard streams, whatever the caller did to them. ``--version`` imports this, so it must stay light."""

import os
import sys


def open_closed() -> None:
    """Give a standard stream that the caller closed (``>&-``, some CI and cron) a place that takes everything.

    Otherwise Python has no such stream, and the next file or connection would get its number and our output.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004 - 0, 1 and 2 are the standard streams
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - open as long as the process
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - as above
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115 - as above


def let_go() -> None:
    """Flush; output that nobody reads any more is dropped, or Python would report an error as it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            send_nowhere(stream.fileno())


def send_nowhere(descriptor: int) -> None:
    """Drop the output that a file descriptor's stream still holds, and all that is written to it later."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
