"""The daemon of all simulated machines: one listener on loopback, where the bearer selects the machine.

At the far end of its tunnels is the agent's API. A turn of ``/v1/chat/completions`` is one question to the model router
with the instance's own token: no memory, no tools. Nothing of it is kept; of runs with a session, ``agent.chat`` keeps
what is said until this process ends. Nothing is logged. What a request does is decided in ``toolbox`` and ``agent``.
"""

import asyncio
import base64
import contextlib
import functools
import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

import httpx

from hermesops.base.network.http import own_client
from hermesops.base.waiting import pause
from hermesops.localcloud.drivers.sim.agent.chat import Chats
from hermesops.localcloud.drivers.sim.agent.hostility import agent_port
from hermesops.localcloud.drivers.sim.daemon import toolbox
from hermesops.localcloud.drivers.sim.daemon.http_peer import HangupError, Peer, Request
from hermesops.localcloud.drivers.sim.daemon.shell import Done
from hermesops.localcloud.drivers.sim.guest import Guest
from hermesops.localcloud.drivers.sim.machines import LOOPBACK, SimMachines
from hermesops.localcloud.proxy.broker import DaemonStream
from hermesops.localcloud.proxy.upgrade import splice
from hermesops.localcloud.vendor_daemon.http import HttpError

_TIMEOUT = httpx.Timeout(connect=5, read=600, write=60, pool=None)


_LOCAL = {"127.0.0.1", "localhost"}
_BACKLOG = 1024


class Agent:
    """Answers the API requests to the agents of all machines."""

    def __init__(self, machines: SimMachines) -> None:
        self._machines = machines
        self._http: httpx.AsyncClient | None = None
        self._chats: Chats | None = None

    async def close(self) -> None:
        """Close the connections to the router."""
        if self._chats:
            await self._chats.close()
            self._chats = None
        if self._http:
            await self._http.aclose()
            self._http = None

    async def serve(self, machine_id: str, peer: Peer) -> None:
        """Answer requests on one connection until it ends."""
        while True:
            request = await peer.request()
            guest = self._machines.guest(machine_id)
            if (request.method, request.path) == ("POST", "/v1/chat/completions"):
                goes_on = await self._turn(guest, request, peer)
            elif guest.gateway.knows(request.bearer()) and (events := self._events(machine_id, guest, request)):
                goes_on = await peer.stream(events)
            else:
                goes_on = await peer.answer(*self._answered(machine_id, guest, request))
            if not goes_on:
                return

    def _answered(self, machine_id: str, guest: Guest, request: Request) -> tuple[int, dict[str, Any]]:
        body = _object(request.body)
        if guest.gateway.knows(request.bearer()):
            chats = self._of_chats()
            if answer := chats.answer(machine_id, guest.gateway, request.method, request.path, body):
                return answer
        ask = functools.partial(guest.api.answer, request.method, request.path, request.bearer(), body)
        status, content = self._machines.work(guest, ask)
        if request.path == "/health/detailed" and "readiness" in content:
            active = self._of_chats().active(machine_id, guest.gateway)
            content["readiness"]["checks"]["background_queues"] = {"status": "ok", "active_api_runs": active}
        return status, content

    def _events(self, machine_id: str, guest: Guest, request: Request) -> AsyncIterator[bytes] | None:
        return self._of_chats().events(machine_id, guest.gateway, request.method, request.path)

    def _of_chats(self) -> Chats:
        self._http = self._http or own_client(timeout=_TIMEOUT)
        self._chats = self._chats or Chats(self._http)
        return self._chats

    async def _turn(self, guest: Guest, request: Request, peer: Peer) -> bool:
        gateway, body = guest.gateway, _object(request.body)
        if not gateway.knows(request.bearer()):
            return await peer.answer(HTTPStatus.UNAUTHORIZED, _error("Invalid API key", "invalid_api_key"))
        if gateway.is_draining:
            return await peer.answer(HTTPStatus.SERVICE_UNAVAILABLE, _error("draining", "gateway_draining"))
        if not gateway.symptoms.takes_turns:
            return await peer.answer(HTTPStatus.INTERNAL_SERVER_ERROR, _error("no turns", "internal_error"))
        self._http = self._http or own_client(timeout=_TIMEOUT)
        model = gateway.model
        question = {"model": model.model, "messages": body.get("messages", []), "stream": bool(body.get("stream"))}
        to_router = self._http.build_request(
            "POST",
            f"{model.base_url}/chat/completions",
            json=question,
            headers={"authorization": f"Bearer {model.token}"},
        )
        try:
            answer = await self._http.send(to_router, stream=True)
        except httpx.HTTPError:
            return await peer.answer(HTTPStatus.BAD_GATEWAY, _error("the model does not answer", "model_unreachable"))
        try:
            if answer.status_code != HTTPStatus.OK:
                message = f"the model's router answered {answer.status_code}"
                return await peer.answer(HTTPStatus.BAD_GATEWAY, _error(message, "model_error"))
            if question["stream"]:
                return await peer.stream(answer.aiter_bytes())
            return await peer.answer(HTTPStatus.OK, json.loads(await answer.aread()))
        finally:
            await answer.aclose()


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _error(message: str, code: str) -> dict[str, Any]:
    return {"error": {"message": message, "code": code}}


class Daemon:
    """The listener; ``port`` is known once it is open."""

    def __init__(self, machines: SimMachines) -> None:
        self._machines = machines
        self._agent = Agent(machines)
        self._server: asyncio.Server | None = None
        self.port = 0

    async def open(self) -> None:
        """Accept connections from now on, on a free port."""
        self._server = await asyncio.start_server(self._serve, str(LOOPBACK), 0, backlog=_BACKLOG)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Close the listener and every connection."""
        if self._server:
            self._server.close()
        for machine_id in list(self._machines.connections):
            self._machines.cut(machine_id)
        await self._agent.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer, met = Peer(reader, writer), ""
        try:
            while True:
                request = await peer.request()
                is_tunnel = request.method == "CONNECT"
                machine_id = self._machines.running(
                    request.bearer("proxy-authorization" if is_tunnel else "authorization")
                )
                if machine_id is None:
                    await peer.answer(401, {"error": "the bearer is missing or wrong", "code": "unauthorized"})
                    return
                met = machine_id
                await self._machines.ask_hostile_agent(machine_id)
                self._machines.connections[met].add(writer)
                if is_tunnel:
                    await self._tunnel(machine_id, request, peer, reader, writer)
                    return
                if not await self._answer(machine_id, request, peer):
                    return
        except HangupError:
            pass
        finally:
            if met and (left := self._machines.connections.get(met)):
                left.discard(writer)
                if not left:
                    self._machines.connections.pop(met, None)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, machine_id: str, request: Request, peer: Peer) -> bool:
        guest = self._machines.guest(machine_id)
        is_stream = (request.method, request.path) == ("POST", "/toolbox/process/execute/stream")
        status = 200
        content: object = None
        serve = toolbox.execute if is_stream else toolbox.answer
        try:
            content = self._machines.work(guest, lambda: serve(guest, request))
        except HttpError as refusal:
            status, content = refusal.status, {"error": refusal.message, "code": refusal.code}
        if guest.slept_s:
            await pause(guest.slept_s)
        if is_stream and isinstance(content, Done):
            return await peer.stream(_events(content))
        return await peer.answer(status, content)

    async def _tunnel(
        self,
        machine_id: str,
        request: Request,
        peer: Peer,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        host, _, port = request.target.rpartition(":")
        if host not in _LOCAL or not port.isdecimal():
            message = {"error": "only ports of 127.0.0.1 can be reached", "code": "forbidden"}
            await peer.answer(HTTPStatus.FORBIDDEN, message)
        elif not self._machines.guest(machine_id).gateway.admits(int(port)):
            message = {"error": f"nothing answers on port {port}", "code": "connection_refused"}
            await peer.answer(HTTPStatus.BAD_GATEWAY, message)
        elif elsewhere := agent_port(self._machines.guest(machine_id).disk, "proxy"):
            await peer.accept()
            await _splice(reader, writer, peer.early, elsewhere)
        else:
            await peer.accept()
            await self._agent.serve(machine_id, Peer(reader, writer, peer.early))


async def _splice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, early: bytes, port: int) -> None:
    """Pass a connection on to a port of this computer, until either side ends."""
    try:
        other = DaemonStream(*await asyncio.open_connection(str(LOOPBACK), port))
    except OSError:
        return
    try:
        await other.write(early)
        await splice(reader, writer, other)
    finally:
        await other.aclose()


async def _events(done: Done) -> AsyncIterator[bytes]:
    for name, text in (("stdout", done.out), ("stderr", done.err)):
        if text:
            yield _event(name, {"data": base64.b64encode(text.encode()).decode()})
    yield _event("exit", {"exit_code": done.code, "duration_ms": 1})


def _event(name: str, value: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(value)}\n\n".encode()
