"""A TCP link that counts what goes over it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

_BLOCK = 1 << 20


@dataclass
class Link:
    """One that is up.

    Attributes:
        port: Where it listens on this computer.
        sent: Bytes towards the far end.
        received: Bytes from there.
    """

    port: int
    sent: int = 0
    received: int = 0

    def taken(self) -> tuple[int, int]:
        """What was sent and received since this was asked last."""
        counted = self.sent, self.received
        self.sent = self.received = 0
        return counted


@contextmanager
def counted_link(host: str, port: int, *, listen: tuple[str, int] = ("127.0.0.1", 0)) -> Iterator[Link]:
    """Pass connections on until the block ends."""
    with socket.create_server(listen) as listening:
        link = Link(listening.getsockname()[1])

        def serve() -> None:
            with suppress(OSError):
                while True:
                    near, _ = listening.accept()
                    far = socket.create_connection((host, port))
                    threading.Thread(target=_pass, args=(link, near, far, "sent"), daemon=True).start()
                    threading.Thread(target=_pass, args=(link, far, near, "received"), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield link
        finally:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)


def _pass(link: Link, source: socket.socket, target: socket.socket, count: str) -> None:
    with suppress(OSError):
        while data := source.recv(_BLOCK):
            target.sendall(data)
            setattr(link, count, getattr(link, count) + len(data))  # one thread each, but for idle ones
        target.shutdown(socket.SHUT_WR)
