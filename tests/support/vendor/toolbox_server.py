"""A JustAVPS of one machine, which is this computer: the toolbox's documented behaviour, and oddities on request.

Commands run here as the user of the tests: for harmless commands only. Files live where they are put.
"""
# ruff: noqa: ASYNC230, ASYNC240 - the files are small and on this computer

import asyncio
import base64
import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

API_KEY = "sk_live_for_tests_only"
MACHINE = "0b9f3a52-5d1c-4f0e-9c1b-2f6f1f4c7a10"
ROOT_KEY_CANARY = "CANARYROOTKEYCANARYROOTKEY"


@dataclass
class Oddities:
    """What the server gets wrong next.

    Attributes:
        refuse: Status codes to answer the next calls with, first come first served.
    """

    refuse: list[int] = field(default_factory=list)


class ToolboxServer:
    """The server's behaviour and what was asked of it."""

    def __init__(self) -> None:
        self.oddities = Oddities()
        self.calls: list[str] = []
        self._commands: list[asyncio.subprocess.Process] = []
        base = "/api/v1/machines/{id}"
        self.app = Starlette(
            routes=[
                Route(base, self.machine),
                Route(f"{base}/toolbox/process/execute", self.execute, methods=["POST"]),
                Route(f"{base}/toolbox/process/execute/stream", self.stream, methods=["POST"]),
                Route(f"{base}/toolbox/files/upload", self.upload, methods=["POST"]),
                Route(f"{base}/toolbox/files/download", self.download),
                Route(f"{base}/toolbox/files/exists", self.exists),
                Route(f"{base}/toolbox/files", self.delete, methods=["DELETE"]),
            ]
        )

    def _oddity(self, request: Request) -> Response | None:
        self.calls.append(f"{request.method} {request.url.path.rsplit('/', 1)[-1]}")
        if request.headers.get("authorization") != f"Bearer {API_KEY}":
            return JSONResponse({"error": True, "message": "Invalid API key", "status": 401}, 401)
        if self.oddities.refuse:
            status = self.oddities.refuse.pop(0)
            return JSONResponse({"error": True, "message": "as was asked for", "status": status}, status)
        if request.path_params["id"] != MACHINE:
            return JSONResponse({"error": True, "message": "machine not found", "status": 404}, 404)
        return None

    async def machine(self, request: Request) -> Response:
        return self._oddity(request) or JSONResponse(
            {"id": MACHINE, "status": "ready", "ssh_key": {"private_key": ROOT_KEY_CANARY}}
        )

    async def execute(self, request: Request) -> Response:
        if odd := self._oddity(request):
            return odd
        request_body = await request.json()
        process = await self._start(request_body)
        try:
            out, err = await asyncio.wait_for(process.communicate(), request_body.get("timeout", 60))
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await process.communicate()
            return _daemon_says(408, "timeout", "killed")
        shown = {"stdout": out.decode(errors="replace"), "stderr": err.decode(errors="replace")}
        return JSONResponse({"exit_code": process.returncode, "duration_ms": 1, **shown})

    async def stream(self, request: Request) -> Response:
        if odd := self._oddity(request):
            return odd
        process = await self._start(await request.json())

        async def events() -> AsyncIterator[str]:
            for name, pipe in (("stdout", process.stdout), ("stderr", process.stderr)):
                while pipe and (data := await pipe.read(4096)):
                    yield f"event: {name}\ndata: {json.dumps({'data': base64.b64encode(data).decode()})}\n\n"
            yield f"event: exit\ndata: {json.dumps({'exit_code': await process.wait()})}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    async def upload(self, request: Request) -> Response:
        if odd := self._oddity(request):
            return odd
        path = Path(request.query_params["path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            async for piece in request.stream():
                file.write(piece)
        path.chmod(int(request.query_params.get("mode", "644"), 8))
        return JSONResponse({"path": str(path)})

    async def download(self, request: Request) -> Response:
        path = Path(request.query_params["path"])
        missing = None if path.exists() else _daemon_says(404, "not_found", f"{path} does not exist")
        return self._oddity(request) or missing or FileResponse(path)

    async def exists(self, request: Request) -> Response:
        return self._oddity(request) or JSONResponse({"exists": Path(request.query_params["path"]).exists()})

    async def delete(self, request: Request) -> Response:
        if odd := self._oddity(request):
            return odd
        path = Path(request.query_params["path"])
        if not path.exists():
            return _daemon_says(404, "not_found", f"{path} does not exist")
        if path.is_dir():
            for child in path.iterdir():
                child.unlink()
            path.rmdir()
        else:
            path.unlink()
        return JSONResponse({"deleted": True, "path": str(path)})

    async def _start(self, order: dict[str, Any]) -> asyncio.subprocess.Process:
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8", **order.get("env", {})}
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            str(order["command"]),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=str(order.get("cwd") or "/"),
            env=env,
            start_new_session=True,
        )
        self._commands.append(process)
        return process

    def kill_commands(self) -> None:
        """End what still runs, with all it started."""
        for process in self._commands:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def _daemon_says(status: int, code: str, error: str) -> JSONResponse:
    return JSONResponse({"error": error, "code": code}, status)


@contextlib.contextmanager
def serving(server: ToolboxServer) -> Iterator[str]:
    """Serve on a free loopback port in a thread; yields the base URL, with ``/api/v1``."""
    listener = socket.create_server(("127.0.0.1", 0))
    http = uvicorn.Server(uvicorn.Config(server.app, log_config=None, lifespan="off", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=http.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/api/v1"
    finally:
        server.kill_commands()
        http.should_exit = True
        thread.join(timeout=10)
        listener.close()
