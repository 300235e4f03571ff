"""Accepts the broker's connections, routes each request to its handler and carries tunnels to loopback ports."""

import base64
import contextlib
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import execution, files, system
from .http import ChunkedAnswer, Hangup, HttpError, Request, head, read_request, send_json

PATH = Path("/etc/justavps/daemon.json")


_CONNECT_TIMEOUT_S = 5.0
_PIECE = 128 * 1024
_LOOPBACK = ("127.0.0.1", "localhost")
_BACKLOG = 256
_STACK_BYTES = 256 * 1024
_IDLE_S = 300.0
Route = Callable[[Request], object]


@dataclass(frozen=True)
class Config:
    """The settings of one machine's daemon.

    Attributes:
        address: The machine's own address; the daemon listens nowhere else.
        broker: The only peer whose connections are answered.
        token: Bearer that every request carries.
    """

    address: str
    port: int
    broker: str
    token: str = field(repr=False)

    @classmethod
    def load(cls, path: Path = PATH) -> "Config":
        """Read the file that the vendor wrote before the first boot."""
        raw = json.loads(path.read_text(encoding="utf-8"))
        return cls(address=raw["address"], port=int(raw["port"]), broker=raw["broker"], token=raw["token"])


def tunnel(request: Request) -> None:
    """Answer ``CONNECT 127.0.0.1:PORT`` and splice until both directions have ended.

    Raises:
        HttpError: 403 for anything but loopback, 502 when nothing listens there.
    """
    host, _, port = request.target.rpartition(":")
    if host not in _LOOPBACK or not port.isdecimal():
        raise HttpError(403, "forbidden", "only ports of 127.0.0.1 can be reached")
    try:
        service = socket.create_connection(("127.0.0.1", int(port)), timeout=_CONNECT_TIMEOUT_S)
    except (OSError, OverflowError) as error:
        raise HttpError(502, "connection_refused", f"nothing answers on port {port}") from error
    with service:
        service.settimeout(None)
        service.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request.connection.sendall(head(200, {}))
        # Bytes that followed the request so closely that the buffered reader took them too.
        request.connection.settimeout(0)
        early = request.stream.peek()
        request.connection.settimeout(None)
        if early:
            service.sendall(request.stream.read(len(early)))
        splice(request.connection, service)


def splice(client: socket.socket, service: socket.socket) -> None:
    """Copy both ways; the end of one direction is passed on, the other one continues.

    A thread per direction: with one for both, two sides that send at once would wait for each other for ever.
    """
    back = threading.Thread(target=_copy, args=(service, client), daemon=True)
    back.start()
    _copy(client, service)
    back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(_PIECE):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):  # broken in one direction is broken: wake the other one
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _same(actual: bytes, expected: bytes) -> bool:
    """Compare in constant time; ``hmac.compare_digest`` would load OpenSSL, 4 MB."""
    different = len(actual) ^ len(expected)
    for actual_byte, expected_byte in zip(actual, expected, strict=False):
        different |= actual_byte ^ expected_byte
    return different == 0


def _refuse_unknown_call(request: Request) -> object:
    raise HttpError(404, "no_such_call", f"there is no {request.method} {request.path}")


class Server:
    """The daemon. One thread a connection: there is one broker and few connections."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._health = system.Health()
        self._groups = execution.group_root()
        self._routes: dict[tuple[str, str], Route] = {
            ("GET", "/healthz"): lambda _: self._health.report(),
            ("POST", "/toolbox/process/execute"): lambda r: self._execute(execution.job_of_command(r.json())),
            ("POST", "/toolbox/process/execute/stream"): self._execute_streamed,
            ("POST", "/toolbox/process/code-run"): lambda r: self._execute(execution.job_of_code(r.json())),
            ("GET", "/toolbox/process/list"): lambda _: {"processes": system.processes()},
            ("POST", "/toolbox/process/kill"): lambda r: system.kill(r.json()),
            ("GET", "/toolbox/files"): lambda r: files.listing(r.query),
            ("DELETE", "/toolbox/files"): lambda r: files.delete(r.query),
            ("GET", "/toolbox/files/info"): lambda r: files.info(r.query),
            ("GET", "/toolbox/files/exists"): lambda r: files.exists(r.query),
            ("GET", "/toolbox/files/find"): lambda r: files.find(r.query),
            ("POST", "/toolbox/files/replace"): lambda r: files.replace(r.json()),
            ("POST", "/toolbox/files/bulk-download"): files.bulk_download,
            ("GET", "/toolbox/files/download"): files.download,
            ("POST", "/toolbox/files/upload"): files.upload,
            ("POST", "/toolbox/files/folder"): lambda r: files.folder(r.asked()),
            ("POST", "/toolbox/files/move"): lambda r: files.move(r.asked()),
            ("POST", "/toolbox/files/permissions"): lambda r: files.permissions(r.asked()),
        }

    def run(self, ready: Callable[[], None]) -> None:
        """Serve until killed; ``ready`` is called once connections are accepted."""
        threading.stack_size(_STACK_BYTES)
        with socket.create_server((self._config.address, self._config.port), backlog=_BACKLOG) as listener:
            ready()
            while True:
                connection, peer = listener.accept()
                if peer[0] != self._config.broker:
                    connection.close()
                    continue
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.settimeout(_IDLE_S)
        stream = connection.makefile("rb")
        with connection, stream, contextlib.suppress(Hangup, OSError):
            while self._answer(read_request(stream, connection)):
                pass

    def _answer(self, request: Request) -> bool:
        """Serve one request; False when the connection is used up."""
        if not self._allowed(request):
            send_json(request.connection, 401, {"error": "the bearer is missing or wrong", "code": "unauthorized"})
            return False
        try:
            if request.method == "CONNECT":
                request.connection.settimeout(None)
                tunnel(request)
                return False
            route = self._routes.get((request.method, request.path.rstrip("/")), _refuse_unknown_call)
            answer = route(request)
            if answer is not None:
                send_json(request.connection, 200, answer)
        except HttpError as error:
            usable = request.discard_body()
            send_json(request.connection, error.status, {"error": error.message, "code": error.code})
            return usable and request.keep_alive
        return request.discard_body() and request.keep_alive

    def _allowed(self, request: Request) -> bool:
        name = "proxy-authorization" if request.method == "CONNECT" else "authorization"
        return _same(request.headers.get(name, "").encode("latin-1"), f"Bearer {self._config.token}".encode())

    def _execute(self, job: execution.Job) -> dict[str, object]:
        collected = execution.Collector()
        ended = execution.run(job, collected, self._groups)
        if ended.timed_out:
            raise HttpError(408, "timeout", f"the command did not end within {job.timeout_s:g} s and was killed")
        answer: dict[str, object] = {
            "exit_code": ended.exit_code,
            "stdout": collected.text("stdout"),
            "stderr": collected.text("stderr"),
            "duration_ms": ended.duration_ms,
        }
        if collected.truncated:
            answer["truncated"] = True
        return answer

    def _execute_streamed(self, request: Request) -> None:
        """Server-sent events ``stdout`` and ``stderr`` (``data`` in base64), at last ``exit`` or ``error``."""
        job = execution.job_of_command(request.json())
        answer = ChunkedAnswer(request.connection, "text/event-stream")

        def send(event: str, value: dict[str, object]) -> None:
            answer.send(f"event: {event}\ndata: {json.dumps(value)}\n\n".encode())

        try:
            ended = execution.run(
                job, lambda name, data: send(name, {"data": base64.b64encode(data).decode()}), self._groups
            )
        except HttpError as error:
            send("error", {"error": error.message, "code": error.code})
        else:
            if ended.timed_out:
                send("error", {"error": f"killed after {job.timeout_s:g} s", "code": "timeout"})
            else:
                send("exit", {"exit_code": ended.exit_code, "duration_ms": ended.duration_ms})
        answer.close()
