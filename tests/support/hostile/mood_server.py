"""A service on loopback that answers everything in one mood of ``http_service``, or with one content."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingTCPServer

from tests.support.hostile.http_service import run_mood

Write = Callable[[bytes], object]


@contextmanager
def served(answer: Callable[[Write], object]) -> Iterator[int]:
    """Serve; the port."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            answer(self.wfile.write)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        serving = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        serving.start()
        yield server.server_address[1]
        server.shutdown()


@contextmanager
def served_mood(mood: str) -> Iterator[int]:
    """Serve a mood; the port."""
    with served(lambda write: run_mood(mood, write)) as port:
        yield port


@contextmanager
def served_content(content: bytes, *, head: str = "HTTP/1.1 200 OK\r\nConnection: close\r\n") -> Iterator[int]:
    """Serve the same content to everybody; the port."""
    with served(lambda write: write(f"{head}\r\n".encode() + content)) as port:
        yield port
