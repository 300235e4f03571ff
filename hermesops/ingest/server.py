"""The HTTP of the gate: nginx asks on a socket that only it can open, and Prometheus is asked for each request alone.

So what Prometheus refuses of one sender's series is refused to that sender and to no other.
"""

import http.client
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer

from hermesops.ingest.exposition import series_of
from hermesops.ingest.nginx import Nginx
from hermesops.ingest.remote_write import Decompress, MalformedError, RawSeries, compress, series_in
from hermesops.ingest.senders import Identity, Senders

_BODY_BYTES = 1 << 20
_BECOMES_BYTES = 4 << 20
_PROMETHEUS_S = 10.0
_CLIENT_S = 10.0
_AT_ONCE = 16
_ERROR_CHARS = 300
_HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}


@dataclass(frozen=True)
class Prometheus:
    """This host's Prometheus."""

    host: str
    port: int

    def write(self, series: bytes) -> tuple[int, str]:
        """Write encoded series; its status, and what it said.

        Raises:
            OSError, http.client.HTTPException: It did not answer.
        """
        connection = http.client.HTTPConnection(self.host, self.port, timeout=_PROMETHEUS_S)
        try:
            connection.request("POST", "/api/v1/write", compress(series), _HEADERS)
            answer = connection.getresponse()
            return answer.status, answer.read(_ERROR_CHARS).decode(errors="replace").strip()
        finally:
            connection.close()


@dataclass(frozen=True)
class HostFigures:
    """What this host tells of its services beside the gate.

    Args:
        revocations: The list of what was revoked; ``None`` where nobody is asked for one.
    """

    nginx: Nginx
    revocations: Path | None

    def lines(self) -> Iterator[str]:
        """As Prometheus reads them. What is not known is left out."""
        if self.revocations is not None:
            with suppress(OSError):  # a host that never got any says so by lacking it
                yield f"hermes_platform_revocations_timestamp_seconds {self.revocations.stat().st_mtime:.0f}"
        try:
            ends_s = self.nginx.not_after_s()
        except (OSError, ValueError):
            yield "hermes_platform_nginx_up 0"
        else:
            yield "hermes_platform_nginx_up 1"
            yield f"hermes_platform_certificate_not_after_timestamp_seconds {ends_s}"


class Gate:
    """Takes what senders write, and gives it on under their identity."""

    def __init__(
        self, senders: Senders, write: Callable[[bytes], tuple[int, str]], decompress: Decompress, host: HostFigures
    ) -> None:
        self._senders = senders
        self._write = write
        self._decompress = decompress
        self._host = host
        self._lock = threading.Lock()
        self._answers: dict[int, int] = {}

    def take(self, path: str, identity: Identity, body: bytes) -> tuple[int, str]:
        """Write what a sender sent; the status and the message that it gets.

        A sender repeats what it gets 5xx for, and nothing else.
        """
        now_s = time.time()
        try:
            if path == "/write" and identity.machine:
                series: Iterable[RawSeries] = series_in(self._decompress(body, _BECOMES_BYTES))
            elif path == "/import" and identity.source:
                series = series_of(body.decode(), int(now_s * 1000))
            else:
                return HTTPStatus.FORBIDDEN, "not for this certificate"
            with self._lock:
                sender = self._senders.sender(identity, now_s)
                written = sender.rewrite(series, now_s, self._senders.counts)
        except (MalformedError, UnicodeDecodeError) as error:
            return self._counted(HTTPStatus.BAD_REQUEST, str(error))
        if not written:
            return self._counted(HTTPStatus.NO_CONTENT, "")
        try:
            status, said = self._write(written)
        except (OSError, http.client.HTTPException) as error:
            return self._counted(HTTPStatus.SERVICE_UNAVAILABLE, f"Prometheus does not answer: {error}")
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR and "invalid sample" in said:
            status = HTTPStatus.BAD_REQUEST  # Prometheus 2.42 says 500 of what will never be right
        return self._counted(status, said)

    def _counted(self, status: int, said: str) -> tuple[int, str]:
        with self._lock:
            self._answers[status] = self._answers.get(status, 0) + 1
        return status, said

    def metrics(self) -> str:
        """Its own figures, as Prometheus reads them."""
        with self._lock:
            counts, series = self._senders.counts, list(self._senders.series().values())
            lines = [
                f"hermes_platform_ingest_samples_total {counts.written}",
                f"hermes_platform_ingest_senders {len(series)}",
                f"hermes_platform_ingest_series {sum(series)}",
                f"hermes_platform_ingest_sender_series_max {max(series, default=0)}",
                *(f'hermes_platform_ingest_dropped_total{{why="{why}"}} {n}' for why, n in counts.dropped.items()),
                *(f'hermes_platform_ingest_answers_total{{status="{s}"}} {n}' for s, n in self._answers.items()),
            ]
        return "\n".join([*lines, *self._host.lines(), ""])


class _Handler(BaseHTTPRequestHandler):
    """One request of nginx's."""

    server: "GateServer"
    timeout = _CLIENT_S

    def do_POST(self) -> None:
        try:
            size = int(self.headers.get("Content-Length") or -1)
        except ValueError:
            size = -1
        if not 0 <= size <= _BODY_BYTES:
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "no length, or too long")
            return
        if not self.server.room.acquire(timeout=_CLIENT_S):
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "busy")
            return
        try:
            told = self.headers.get
            identity = Identity(
                told("X-Hermes-Machine", ""),
                told("X-Hermes-Instance", ""),
                told("X-Hermes-Cell", ""),
                told("X-Hermes-Source", ""),
            )
            self._answer(*self.server.gate.take(self.path.partition("?")[0], identity, self.rfile.read(size)))
        finally:
            self.server.room.release()

    def _answer(self, status: int, said: str) -> None:
        body = said.encode()
        self.send_response(status)
        if body:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if body:
            self.wfile.write(body)

    def address_string(self) -> str:
        """nginx, as a socket of files has no addresses."""
        return "nginx"

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Say nothing: nginx logs."""


class GateServer(ThreadingMixIn, UnixStreamServer):
    """Serves nginx on a socket in the file system."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, socket: Path, gate: Gate) -> None:
        socket.unlink(missing_ok=True)
        super().__init__(str(socket), _Handler)
        socket.chmod(0o660)
        self.gate = gate
        self.room = threading.BoundedSemaphore(_AT_ONCE)

    def handle_error(self, _request: object, _client_address: object) -> None:
        """Say in one line what went wrong with a request; nginx hung up, mostly."""
        sys.stderr.write(f"a request failed: {sys.exc_info()[1]!r}\n")


class MetricsServer(ThreadingHTTPServer):
    """Serves the gate's own figures on loopback."""

    daemon_threads = True

    def __init__(self, port: int, gate: Gate) -> None:
        super().__init__(("127.0.0.1", port), _MetricsHandler)
        self.gate = gate


class _MetricsHandler(BaseHTTPRequestHandler):
    server: MetricsServer
    timeout = _CLIENT_S

    def do_GET(self) -> None:
        body = self.server.gate.metrics().encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Say nothing."""
