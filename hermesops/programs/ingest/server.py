"""The gate's HTTP server: nginx connects over a private socket, and each request is forwarded to Prometheus separately.

So Prometheus's refusal of one sender's series affects no other sender. A request of a sender beyond its limits is
refused before its body is read; requests of other senders continue meanwhile.
"""

import http.client
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer

from hermesops.programs.ingest.exposition import series_of
from hermesops.programs.ingest.log_share import LogShares
from hermesops.programs.ingest.nginx import Nginx
from hermesops.programs.ingest.remote_write import Decompress, MalformedError, RawSeries, compress, series_in
from hermesops.programs.ingest.senders import Counts, Identity, Sender, Senders

_BODY_BYTES = 1 << 20
_BECOMES_BYTES = 4 << 20
_PROMETHEUS_S = 10.0
_CLIENT_S = 10.0
_AT_ONCE = 16
_WAITS_S = 10.0
_PIECE_BYTES = 64 << 10
_ERROR_CHARS = 300

SWITCH_S = 0.0005
"""Seconds after which one request's work makes way for another's: Python's own 5 ms are as long as a whole write."""
_HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}


@dataclass(frozen=True)
class Prometheus:
    """A client of the Prometheus on this host."""

    host: str
    port: int

    def write(self, series: bytes) -> tuple[int, str]:
        """Send encoded series; return the status and text of the answer.

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
    """Figures of the host's services beside the gate.

    Args:
        revocations: File of revoked certificates; ``None`` where none is fetched.
    """

    nginx: Nginx
    revocations: Path | None

    def lines(self) -> Iterator[str]:
        """Render Prometheus lines; unknown figures are left out."""
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
    """Accepts series from senders and forwards them under the sender's identity."""

    def __init__(
        self,
        senders: Senders,
        write: Callable[[bytes], tuple[int, str]],
        decompress: Decompress,
        host: HostFigures,
        logs: LogShares,
    ) -> None:
        self.logs = logs
        self._senders = senders
        self._write = write
        self._decompress = decompress
        self._host = host
        self._lock = threading.Lock()
        """Of what all senders share; nobody reads or waits while holding it."""
        self._room = threading.BoundedSemaphore(_AT_ONCE)
        self._answers: Counter[int] = Counter()
        self._refused: Counter[str] = Counter()

    def take(self, path: str, identity: Identity, read: Callable[[], bytes]) -> tuple[int, str]:
        """Forward the series of a request; return the status and message of the answer.

        Senders repeat a request after 5xx; some also repeat it after 429.

        Args:
            read: Reads the body; not called for a refused sender.
        """
        if not (identity.machine if path == "/write" else path == "/import" and identity.source):
            return HTTPStatus.FORBIDDEN, "this certificate does not permit this path"
        with self._lock:
            sender = self._senders.sender(identity, time.time())
            if refusal := sender.enter(time.time()):
                self._refused[refusal] += 1
                self._answers[HTTPStatus.TOO_MANY_REQUESTS] += 1
                return HTTPStatus.TOO_MANY_REQUESTS, f"more {refusal} than one sender may"
        counts, began_s = Counts(), time.thread_time()
        status, message = 0, ""
        try:
            status, message = self._taken(path, identity, sender, read, counts)
        finally:
            with self._lock:
                sender.leave(counts.read, time.thread_time() - began_s)
                self._senders.counts.add(counts)
                if status:
                    self._answers[status] += 1
        return status, message

    def _taken(
        self, path: str, identity: Identity, sender: Sender, read: Callable[[], bytes], counts: Counts
    ) -> tuple[int, str]:
        if not self._room.acquire(timeout=_WAITS_S):
            return HTTPStatus.SERVICE_UNAVAILABLE, "busy"
        try:
            written = sender.rewrite(identity, self._series(path, read()), time.time(), counts)
            return self._pass_on(written) if written else (HTTPStatus.NO_CONTENT, "")
        except (MalformedError, UnicodeDecodeError) as error:
            return HTTPStatus.BAD_REQUEST, str(error)
        finally:
            self._room.release()

    def _series(self, path: str, body: bytes) -> Iterable[RawSeries]:
        if path == "/write":
            return series_in(self._decompress(body, _BECOMES_BYTES))
        return series_of(body.decode(), int(time.time() * 1000))

    def _pass_on(self, written: bytes) -> tuple[int, str]:
        try:
            status, message = self._write(written)
        except (OSError, http.client.HTTPException) as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, f"Prometheus does not answer: {error}"
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR and "invalid sample" in message:
            status = HTTPStatus.BAD_REQUEST  # Prometheus 2.42 says 500 of what will never be right
        return status, message

    def metrics(self) -> str:
        """Render the gate's own figures as Prometheus lines."""
        with self._lock:
            counts, senders = self._senders.counts, self._senders.all()
            lines = [
                f"hermes_platform_ingest_samples_total {counts.written}",
                f"hermes_platform_ingest_logs_refused_total {self.logs.refused}",
                *(f'hermes_platform_ingest_dropped_total{{why="{why}"}} {n}' for why, n in counts.dropped.items()),
                *(f'hermes_platform_ingest_refused_total{{why="{why}"}} {n}' for why, n in self._refused.items()),
                *(f'hermes_platform_ingest_answers_total{{status="{s}"}} {n}' for s, n in self._answers.items()),
            ]
        series = [sender.series for sender in senders]
        lines += [
            f"hermes_platform_ingest_senders {len(series)}",
            f"hermes_platform_ingest_series {sum(series)}",
            f"hermes_platform_ingest_sender_series_max {max(series, default=0)}",
            *(
                f"hermes_platform_ingest_sender_refused_total{{{sender.identity.who}}} {sender.refused}"
                for sender in senders
                if sender.refused
            ),
        ]
        return "\n".join([*lines, *self._host.lines(), ""])

    def heartbeats(self) -> str:
        """Render the latest heartbeat of each machine as Prometheus lines."""
        with self._lock:
            senders = self._senders.all()
        now_s = time.time()
        return "".join(f"{line}\n" for sender in senders for line in sender.heartbeat.lines(now_s))


class _Handler(BaseHTTPRequestHandler):
    """Handles one HTTP request from nginx."""

    server: "GateServer"
    timeout = _CLIENT_S

    def do_POST(self) -> None:
        try:
            size = int(self.headers.get("Content-Length") or -1)
        except ValueError:
            size = -1
        if not 0 <= size <= _BODY_BYTES:
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "Content-Length is missing or too large")
            return
        left = size

        def read() -> bytes:
            nonlocal left
            left = 0
            return self.rfile.read(size)

        header = self.headers.get
        identity = Identity(
            header("X-Hermes-Machine", ""),
            header("X-Hermes-Instance", ""),
            header("X-Hermes-Cell", ""),
            header("X-Hermes-Source", ""),
        )
        answer = self.server.gate.take(self.path.partition("?")[0], identity, read)
        while left > 0 and (piece := self.rfile.read(min(left, _PIECE_BYTES))):
            left -= len(piece)  # nginx would take an answer before the end for a failure
        self._answer(*answer)

    def do_GET(self) -> None:
        if self.path != "/logs":
            self._answer(HTTPStatus.NOT_FOUND, "")
            return
        header = self.headers.get
        self._answer(self.server.gate.logs.admit(header("X-Hermes-Machine", ""), header("X-Body-Bytes", "")), "")

    def _answer(self, status: int, message: str) -> None:
        body = message.encode()
        self.send_response(status)
        if body:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if body:
            self.wfile.write(body)

    def address_string(self) -> str:
        """Always ``nginx``, as Unix sockets have no addresses."""
        return "nginx"

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Log nothing, as nginx writes an access log."""


class GateServer(ThreadingMixIn, UnixStreamServer):
    """Serves nginx on a socket in the file system."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, socket: Path, gate: Gate) -> None:
        socket.unlink(missing_ok=True)
        super().__init__(str(socket), _Handler)
        socket.chmod(0o660)
        self.gate = gate

    def handle_error(self, _request: object, _client_address: object) -> None:
        """Log a failed request in one line; mostly nginx hung up."""
        sys.stderr.write(f"a request failed: {sys.exc_info()[1]!r}\n")


class MetricsServer(ThreadingHTTPServer):
    """Serves the gate's own figures and the heartbeats on loopback."""

    daemon_threads = True

    def __init__(self, port: int, gate: Gate) -> None:
        super().__init__(("127.0.0.1", port), _MetricsHandler)
        self.gate = gate


class _MetricsHandler(BaseHTTPRequestHandler):
    server: MetricsServer
    timeout = _CLIENT_S

    def do_GET(self) -> None:
        gate = self.server.gate
        figures = {"/metrics": gate.metrics, "/heartbeats": gate.heartbeats}.get(self.path)
        if figures is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        body = figures().encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Log nothing, as Prometheus asks every few seconds."""
