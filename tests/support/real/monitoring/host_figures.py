"""What the platform's host says when Prometheus asks for figures: its exporter's, and a model router's."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ROUTER = "/router"
"""Path of the router's figures; the exporter's are at ``/metrics``."""

_SIZE = 1e11


@dataclass
class HostFigures:
    """What is said now; a test changes it.

    Attributes:
        used: Share of the host's disk.
        database: Lines of PostgreSQL's figures, without their prefix; empty where the host has none.
        router: Asked for the router's figures.
    """

    used: float = 0.3
    database: tuple[str, ...] = ()
    router: Callable[[], str] = field(default=str)

    def text(self, path: str) -> str:
        """What is answered on a path."""
        if path == ROUTER:
            return self.router()
        disk = '{device="/dev/vda1",fstype="ext4",mountpoint="/"}'
        lines = [
            f"node_filesystem_size_bytes{disk} {_SIZE:g}",
            f"node_filesystem_avail_bytes{disk} {_SIZE * (1 - self.used):.0f}",
            *(f"hermes_platform_postgresql_{line}" for line in self.database),
        ]
        return "\n".join([*lines, ""])


@contextmanager
def answering(port: int) -> Iterator[HostFigures]:
    """Answer on a port of the loopback, in the place of the host's exporter."""
    figures = HostFigures()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = figures.text(self.path).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield figures
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)
