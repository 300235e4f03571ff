"""The platform's public door: a real nginx with the role's file, before two processes that say what they were asked."""

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from hermesops.api.server import Server
from hermesops.base.waiting import Pending, cancel, until
from tests.support.real import edge
from tests.support.real.monitoring.platform_host import programs
from tests.support.releases.role_files import rendered
from tests.support.suite.prerequisites import require

pytestmark = pytest.mark.turns(8)

ORIGIN = "agents.test"
SOCKET = "/api/hermes/chat/socket"
FEW = {"hermes_platform_edge_requests_per_second": 1, "hermes_platform_edge_burst": 3}


@dataclass
class Process:
    """A process of the API.

    Attributes:
        is_ours: Whether it knows the door's name alone, as the API does.
        go: Lets a stream's next event go.
    """

    name: str
    path: Path
    is_ours: bool = True
    go: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    readers: int = 0

    async def answer(self, request: Request) -> Response:
        body = await request.body()
        if request.headers["host"] == "prometheus":
            return Response("another host was asked", 421 if self.is_ours else 404)
        return JSONResponse({"process": self.name, "headers": dict(request.headers), "bytes": len(body)})

    async def stream(self, request: Request) -> Response:
        del request
        return StreamingResponse(self._events(), media_type="text/event-stream")

    async def echo(self, connection: WebSocket) -> None:
        await connection.accept()
        while True:
            await connection.send_text(f"{self.name}: {await connection.receive_text()}")

    async def _events(self) -> AsyncIterator[bytes]:
        self.readers += 1
        try:
            for number in range(3):
                yield f"id: {number}\n\n".encode()
                await self.go.acquire()
        finally:
            self.readers -= 1

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        routes = [
            Route("/events", self.stream),
            Route("/console/events", self.stream),
            WebSocketRoute(SOCKET, self.echo),
            WebSocketRoute("/other", self.echo),
            Route("/{path:path}", self.answer, methods=["GET", "POST"]),
        ]
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path))
        listener.listen()
        listener.setblocking(False)
        serving = asyncio.ensure_future(Server(Starlette(routes=routes), listener).serve_until_cancelled())
        try:
            yield
        finally:
            await cancel(serving)
            self.path.unlink()


@pytest.fixture
def root() -> Path:
    folder = programs()
    require(folder, "Debian's programs")
    assert folder
    return folder


@pytest.fixture
def processes(tmp_path: Path) -> list[Process]:
    return [Process(name, tmp_path / f"{name}.sock") for name in ("one", "two")]


@contextlib.asynccontextmanager
async def opened(
    folder: Path, root: Path, processes: list[Process], variables: dict[str, object] | None = None
) -> AsyncIterator[tuple[edge.Edge, httpx.AsyncClient]]:
    """The door, and a client of it."""
    with edge.running(folder, root, [process.path for process in processes], variables) as door:
        headers = {"host": ORIGIN}
        async with httpx.AsyncClient(
            base_url=door.url, verify=door.context(), headers=headers, timeout=30, trust_env=False
        ) as http:
            yield door, http


async def both(stack: contextlib.AsyncExitStack, processes: list[Process]) -> None:
    for process in processes:
        await stack.enter_async_context(process.serving())


async def test_the_chats_socket_passes_and_no_other_path_becomes_one(
    tmp_path: Path, root: Path, processes: list[Process]
) -> None:
    async def echoed(connection: ClientConnection) -> str:
        await connection.send("hello")
        return str(await connection.recv())

    async with contextlib.AsyncExitStack() as stack:
        await both(stack, processes)
        door, http = await stack.enter_async_context(opened(tmp_path, root, processes))

        def connecting(path: str) -> connect:
            url, context = f"wss://{ORIGIN}{path}", door.context()
            return connect(url, host=edge.HOST, port=door.port, ssl=context, server_hostname=edge.HOST)

        async with connecting(f"{SOCKET}?after=") as connection:
            assert (await echoed(connection)).partition(": ")[2] == "hello"
        with pytest.raises(InvalidStatus):
            await stack.enter_async_context(connecting("/other"))
        answer = await http.get("/other", headers={"upgrade": "websocket", "connection": "upgrade"})
        assert "upgrade" not in answer.json()["headers"], "no process behind the door is asked to become a socket"


async def test_a_session_stays_at_one_process_and_moves_where_that_one_is_gone(
    tmp_path: Path, root: Path, processes: list[Process]
) -> None:
    async def asked(http: httpx.AsyncClient, session: str) -> str:
        answer = await http.get("/x", headers={"cookie": f"theme=dark; __Host-hermes={session}"})
        return str(answer.json()["process"])

    async with contextlib.AsyncExitStack() as stack:
        first, two = processes
        await stack.enter_async_context(first.serving())
        async with two.serving(), opened(tmp_path, root, processes) as (_, http):
            places = {session: {await asked(http, session) for _ in range(4)} for session in map(str, range(16))}
            assert all(len(place) == 1 for place in places.values())
            assert {name for place in places.values() for name in place} == {"one", "two"}
            tokens = {
                (await http.get("/x", headers={"authorization": f"Bearer {token}"})).json()["process"]
                for token in map(str, range(16))
            }
            assert tokens == {"one", "two"}
        async with opened(tmp_path, root, processes) as (_, http):
            assert {await asked(http, session) for session in places} == {"one"}


async def test_nobody_behind_is_told_as_the_apis_own_refusals_are(
    tmp_path: Path, root: Path, processes: list[Process]
) -> None:
    async with opened(tmp_path, root, processes) as (_, http):
        answer = await http.get("/api/hermes/me")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["retry-after"] == "5"


async def test_many_requests_of_one_address_are_refused_and_another_address_is_served(
    tmp_path: Path, root: Path, processes: list[Process]
) -> None:
    """The addresses are those that a load balancer names; nobody else's word counts."""
    async with contextlib.AsyncExitStack() as stack:
        await both(stack, processes)
        proxied = {**FEW, "hermes_platform_edge_proxies": ["127.0.0.0/8"]}
        _, http = await stack.enter_async_context(opened(tmp_path, root, processes, proxied))

        async def statuses(address: str, count: int = 8) -> list[int]:
            headers = {"x-forwarded-for": address}
            return [(await http.get("/x", headers=headers)).status_code for _ in range(count)]

        of_one = await statuses("203.0.113.7")
        assert set(of_one) == {200, 429}
        assert of_one[:4] == [200] * 4
        assert 429 in await statuses("1.2.3.4, 203.0.113.7"), (
            "the address that the balancer saw counts, not a forged one"
        )
        assert await statuses("203.0.113.8", 4) == [200] * 4
        assert await statuses("2001:db8:1:1::5", 4) == [200] * 4
        assert 429 in await statuses("2001:db8:1:1:ffff::7", 4), "of the same network of 64 bits"
        assert await statuses("2001:db8:1:2::5", 4) == [200] * 4
        assert await statuses("2001:db8::5", 4) == [200] * 4
        assert 429 in await statuses("2001:db8::7", 4), "of the same network, written with :: in it"
        answers = [await http.get("/x", headers={"x-forwarded-for": "203.0.113.7"}) for _ in range(8)]
        refused = next(answer for answer in answers if answer.status_code == HTTPStatus.TOO_MANY_REQUESTS)
        assert (refused.json()["code"], refused.headers["retry-after"]) == ("too-many-requests", "5")


async def test_checks_of_a_load_balancer_are_answered_by_the_apis_own_name_and_nothing_else_is(
    tmp_path: Path, root: Path, processes: list[Process]
) -> None:
    """They ask for the host's address; the API refuses whoever asks for another name than its own."""
    async with contextlib.AsyncExitStack() as stack:
        await both(stack, processes)
        given = {"hermes_platform_edge_health_host": ORIGIN, "hermes_platform_edge_keepalive_seconds": 180}
        _, http = await stack.enter_async_context(opened(tmp_path, root, processes, given))

        async def host_behind(path: str, host: str) -> str:
            answer = await http.get(path, headers={"host": host})
            return str(answer.json()["headers"]["host"])

        assert await host_behind("/health", "10.60.0.5:8449") == ORIGIN
        assert await host_behind("/health/x", "10.60.0.5:8449") == "10.60.0.5:8449"
        assert await host_behind("/api/hermes/me", "evil.test") == "evil.test"


async def test_an_address_of_the_clients_own_making_changes_nothing(
    tmp_path: Path, root: Path, processes: list[Process]
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        await both(stack, processes)
        _, http = await stack.enter_async_context(opened(tmp_path, root, processes, dict(FEW)))
        forged = [
            {"x-forwarded-for": f"203.0.113.{n}", "forwarded": "for=1.1.1.1", "x-real-ip": "9.9.9.9"} for n in range(8)
        ]
        answers = [await http.get("/x", headers=headers) for headers in forged]
        assert 429 in [answer.status_code for answer in answers]
        headers: dict[str, Any] = answers[0].json()["headers"]
        assert (headers["host"], headers["x-real-ip"]) == (ORIGIN, "127.0.0.1")
        assert not {"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "forwarded"} & headers.keys()
        assert answers[0].headers["strict-transport-security"] == "max-age=31536000"


async def test_streams_of_one_address_are_bounded_and_come_as_they_are_sent(
    tmp_path: Path, root: Path, processes: list[Process]
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        await both(stack, processes)
        _, http = await stack.enter_async_context(
            opened(tmp_path, root, processes, {"hermes_platform_edge_connections": 2})
        )
        async with asyncio.timeout(30), http.stream("GET", "/events") as first, http.stream("GET", "/events"):
            pieces = first.aiter_bytes()
            assert await anext(pieces) == b"id: 0\n\n"
            assert (await http.get("/x")).status_code == 429
            for process in processes:
                process.go.release()
                process.go.release()
            assert (await anext(pieces)).startswith(b"id: 1\n\n")

        async def check() -> bool | Pending[bool]:
            readers = sum(process.readers for process in processes)
            return Pending(f"{readers} readers") if readers else True

        await until(check, what="the streams behind to end with their readers", timeout_s=30, every_s=0.05)


async def test_bodies_are_bounded_and_uploads_may_be_larger(
    tmp_path: Path, root: Path, processes: list[Process]
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        await both(stack, processes)
        _, http = await stack.enter_async_context(opened(tmp_path, root, processes))
        large, upload = b"x" * ((1 << 20) + 1), b"x" * (10 << 20)
        assert (await http.post("/api/hermes/chat", content=large[1:])).json()["bytes"] == 1 << 20
        refused = await http.post("/api/hermes/chat", content=large)
        assert (refused.status_code, refused.json()["code"]) == (413, "too-large")
        assert (await http.post("/api/hermes/chat/files", content=upload)).json()["bytes"] == len(upload)
        assert (await http.post("/api/hermes/chat/files/", content=upload)).status_code == 413
        assert (await http.post("/api/hermes/chat/files", content=upload + large)).status_code == 413
        call = b"x" * (8 << 20)
        assert (await http.post("/a2a/agent/message:send", content=call)).json()["bytes"] == len(call)
        assert (await http.post("/a2a/agent/message:send", content=call + b"x")).status_code == 413


async def test_older_tls_and_clear_text_get_nothing(tmp_path: Path, root: Path, processes: list[Process]) -> None:
    async with contextlib.AsyncExitStack() as stack:
        await both(stack, processes)
        door, _ = await stack.enter_async_context(opened(tmp_path, root, processes))
        older = door.context()
        older.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection(edge.HOST, door.port, ssl=older, server_hostname=edge.HOST)
        async with httpx.AsyncClient(timeout=30, trust_env=False) as http:
            assert (await http.get(f"http://{edge.HOST}:{door.port}/x")).status_code == 400


async def test_prometheus_hears_of_the_door_and_of_each_process_by_an_answer_that_no_user_waits_for(
    tmp_path: Path, root: Path, processes: list[Process]
) -> None:
    first, second = processes
    paths = ("/edge", "/api-1", "/api-2", "/connections", "/console")
    connections = Process("connections", tmp_path / "connections.sock")
    async with opened(tmp_path, root, processes) as (door, http), connections.serving():

        async def statuses() -> list[int]:
            url = f"http://{edge.HOST}:{door.asked_port}"
            async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as prometheus:
                answers = [await prometheus.get(path) for path in paths]
                texts = {answer.text for answer in answers if answer.status_code == 200}
                assert texts == {"hermes_platform_answers 1\n"}
                assert {answer.headers["content-type"] for answer in answers if answer.status_code == 200} == {
                    "text/plain"
                }
                assert (await prometheus.get("/api/hermes/me")).status_code == 404, "no way for users"
            return [answer.status_code for answer in answers]

        assert await statuses() == [200, 502, 502, 200, 502]
        async with first.serving():
            assert await statuses() == [200, 200, 502, 200, 502]
            async with second.serving():
                assert await statuses() == [200, 200, 200, 200, 502]
            assert (await http.get("/x")).json()["process"] == "one"
            first.is_ours = False
            assert await statuses() == [200, 404, 502, 200, 502], "what is no refusal of the API is no answer"


CONSOLE = "console.test"


async def test_the_console_is_found_by_its_own_name_alone_and_users_by_every_other(
    tmp_path: Path, root: Path, processes: list[Process]
) -> None:
    console = Process("console", tmp_path / "console.sock")
    async with contextlib.AsyncExitStack() as stack:
        await both(stack, processes)
        await stack.enter_async_context(console.serving())
        given: dict[str, object] = {"hermes_platform_edge_console_host": CONSOLE}
        _, http = await stack.enter_async_context(opened(tmp_path, root, processes, given))

        async def process_of(path: str, host: str) -> str:
            answer = await http.get(path, headers={"host": host})
            return str(answer.json()["process"]) if answer.status_code == 200 else str(answer.status_code)

        for path in ("/console/", "/console/instances", "/console/sign-in", "/console/sign-in/callback?code=x"):
            assert await process_of(path, CONSOLE) == "console", path
            assert await process_of(path, ORIGIN) in {"one", "two"}, path
            assert await process_of(path, f"{CONSOLE}.evil.test") in {"one", "two"}, path
        for path in ("/api/hermes/me", "/webhooks/telegram", "/hermes-max/chat", "/health", "/console/../api"):
            assert await process_of(path, CONSOLE) == "404", path
        for path in ("/", "/console"):
            assert (await http.get(path, headers={"host": CONSOLE})).headers["location"] == "/console/"
        headers = {"host": CONSOLE, "authorization": "Bearer x", "x-forwarded-for": "1.2.3.4", "upgrade": "websocket"}
        behind = (await http.get("/console/", headers=headers)).json()["headers"]
        assert behind["host"] == CONSOLE
        assert not {"authorization", "x-forwarded-for", "upgrade"} & behind.keys()
        large = await http.post("/console/x", headers={"host": CONSOLE}, content=b"x" * 32_769)
        assert large.status_code == 413
        statuses = [(await http.get("/console/sign-in", headers={"host": CONSOLE})).status_code for _ in range(20)]
        assert (statuses[0], statuses[-1]) == (200, 429)
        assert await process_of("/console/", CONSOLE) == "console", "a limit of sign-ins alone"


async def test_other_networks_do_not_reach_the_console(tmp_path: Path, root: Path, processes: list[Process]) -> None:
    console = Process("console", tmp_path / "console.sock")
    async with contextlib.AsyncExitStack() as stack:
        await both(stack, processes)
        await stack.enter_async_context(console.serving())
        given: dict[str, object] = {
            "hermes_platform_edge_console_host": CONSOLE,
            "hermes_platform_edge_console_networks": ["203.0.113.0/24"],
            "hermes_platform_edge_proxies": ["127.0.0.0/8"],
        }
        _, http = await stack.enter_async_context(opened(tmp_path, root, processes, given))

        async def status(host: str, address: str) -> int:
            return (await http.get("/console/", headers={"host": host, "x-forwarded-for": address})).status_code

        assert await status(CONSOLE, "203.0.113.7") == 200
        assert await status(CONSOLE, "198.51.100.7") == 403
        assert await status(CONSOLE, "203.0.113.7, 198.51.100.7") == 403, "a forged address opens nothing"
        for spelled in (CONSOLE.upper(), f"{CONSOLE}.", f"{CONSOLE}:8449"):
            assert await status(spelled, "198.51.100.7") == 403, spelled
        assert await status(ORIGIN, "198.51.100.7") == 200


async def test_a_stream_of_the_console_comes_as_it_is_sent(
    tmp_path: Path, root: Path, processes: list[Process]
) -> None:
    console = Process("console", tmp_path / "console.sock")
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(console.serving())
        given: dict[str, object] = {"hermes_platform_edge_console_host": CONSOLE}
        _, http = await stack.enter_async_context(opened(tmp_path, root, processes, given))
        headers = {"host": CONSOLE}
        async with asyncio.timeout(30), http.stream("GET", "/console/events", headers=headers) as stream:
            pieces = stream.aiter_bytes()
            assert await anext(pieces) == b"id: 0\n\n"
            console.go.release()
            assert await anext(pieces) == b"id: 1\n\n"


@pytest.mark.parametrize(
    "sent",
    [
        "GET /x HTTP/1.1\r\nHost: agents.test\r\nTransfer-Encoding: gzip\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: agents.test\r\nContent-Length: x\r\n\r\n",
        "GET /x HTTP/1.1\r\n\r\n",
        "no request\r\n\r\n",
        f"GET /{'x' * 9000} HTTP/1.1\r\nHost: agents.test\r\n\r\n",
        f"GET /x HTTP/1.1\r\nHost: agents.test\r\nX: {'x' * 9000}\r\n\r\n",
    ],
    ids=["coding", "length", "no host", "first line", "long address", "long header"],
)
async def test_what_is_no_request_is_refused_as_a_problem(
    tmp_path: Path, root: Path, processes: list[Process], sent: str
) -> None:
    async with opened(tmp_path, root, processes) as (door, _), asyncio.timeout(30):
        reader, writer = await asyncio.open_connection(
            edge.HOST, door.port, ssl=door.context(), server_hostname=edge.HOST
        )
        writer.write(sent.encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
    assert b"application/problem+json" in head
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["code"] == "bad-request"


def test_its_problems_are_json() -> None:
    text = rendered(edge.ROLE, "edge-nginx.conf.j2")
    bodies = [line.split("'")[1] for line in text.splitlines() if "return " in line and "'" in line]
    assert {json.loads(body)["status"] for body in bodies} == {400, 413, 429, 503}
