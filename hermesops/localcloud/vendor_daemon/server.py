"""Accepts the broker's connections and sends each request to the part that serves it."""

import base64
import contextlib
import json
import socket
import threading
from collections.abc import Callable

from . import archive, execution, files, group, jobs, processes, search, tunnel
from .config import Config
from .health import Health
from .http import ChunkedAnswer, Hangup, HttpError, Request, read_request, send_json

_BACKLOG = 256
_STACK_BYTES = 256 * 1024
_IDLE_S = 300.0
Route = Callable[[Request], object]


def _same(given: bytes, expected: bytes) -> bool:
    """Compare without telling by the time it takes where they differ; the library's way loads OpenSSL, 4 MB."""
    different = len(given) ^ len(expected)
    for one, other in zip(given, expected, strict=False):
        different |= one ^ other
    return different == 0


class Server:
    """The daemon. One thread a connection: there is one broker and few connections."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._health = Health()
        self._runner = execution.Runner(group.group_root())
        self._routes: dict[tuple[str, str], Route] = {
            ("GET", "/healthz"): lambda _: self._health.report(),
            ("POST", "/toolbox/process/execute"): lambda r: self._execute(jobs.job_of_command(r.json())),
            ("POST", "/toolbox/process/execute/stream"): self._execute_streamed,
            ("POST", "/toolbox/process/code-run"): lambda r: self._execute(jobs.job_of_code(r.json())),
            ("GET", "/toolbox/process/list"): lambda _: {"processes": processes.processes()},
            ("POST", "/toolbox/process/kill"): lambda r: processes.kill(r.json()),
            ("GET", "/toolbox/files"): lambda r: files.listing(r.query),
            ("DELETE", "/toolbox/files"): lambda r: files.delete(r.query),
            ("GET", "/toolbox/files/info"): lambda r: files.info(r.query),
            ("GET", "/toolbox/files/exists"): lambda r: files.exists(r.query),
            ("GET", "/toolbox/files/find"): lambda r: search.find(r.query),
            ("POST", "/toolbox/files/replace"): lambda r: search.replace(r.json()),
            ("POST", "/toolbox/files/bulk-download"): archive.bulk_download,
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
                tunnel.serve(request)
                return False
            answer = self._route(request)(request)
            if answer is not None:
                send_json(request.connection, 200, answer)
        except HttpError as error:
            usable = request.discard_body()
            send_json(request.connection, error.status, {"error": error.message, "code": error.code})
            return usable and request.keep_alive
        return request.discard_body() and request.keep_alive

    def _route(self, request: Request) -> Route:
        route = self._routes.get((request.method, request.path.rstrip("/")))
        if route is None:
            raise HttpError(404, "no_such_call", f"there is no {request.method} {request.path}")
        return route

    def _allowed(self, request: Request) -> bool:
        name = "proxy-authorization" if request.method == "CONNECT" else "authorization"
        return _same(request.headers.get(name, "").encode("latin-1"), f"Bearer {self._config.token}".encode())

    def _execute(self, job: jobs.Job) -> dict[str, object]:
        collected = execution.Collector()
        ended = self._runner.run(job, collected)
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
        job = jobs.job_of_command(request.json())
        answer = ChunkedAnswer(request.connection, "text/event-stream")

        def tell(event: str, value: dict[str, object]) -> None:
            answer.send(f"event: {event}\ndata: {json.dumps(value)}\n\n".encode())

        try:
            ended = self._runner.run(job, lambda name, data: tell(name, {"data": base64.b64encode(data).decode()}))
        except HttpError as error:
            tell("error", {"error": error.message, "code": error.code})
        else:
            if ended.timed_out:
                tell("error", {"error": f"killed after {job.timeout_s:g} s", "code": "timeout"})
            else:
                tell("exit", {"exit_code": ended.exit_code, "duration_ms": ended.duration_ms})
        answer.close()
