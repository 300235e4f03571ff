"""An end to a conversation over a socket: timeouts of a socket count anew with every byte that comes."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def hung_up_after(connection: socket.socket, seconds: float) -> Iterator[threading.Event]:
    """Shut a connection down once the time is over, so that whoever reads from it is told that it ended.

    Yields:
        An event that is set once the time was over.
    """
    is_over = threading.Event()

    def hang_up() -> None:
        is_over.set()
        with suppress(OSError):  # it is over already
            connection.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield is_over
    finally:
        timer.cancel()
