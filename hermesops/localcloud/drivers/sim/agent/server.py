"""The agent's API of simulated machines, at the far end of the daemon's tunnels.

A turn of a chat is one question to the model router with the instance's own token: no memory, no tools. It must not
remember or log what is said.
"""

import json
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any, Protocol, TypeVar

import httpx

from hermesops.localcloud.drivers.sim.daemon.http_peer import Peer, Request
from hermesops.localcloud.drivers.sim.guest import Guest

T = TypeVar("T")
_TIMEOUT = httpx.Timeout(connect=5, read=600, write=60, pool=None)


class Machines(Protocol):
    """Who runs the machines."""

    def guest(self, machine_id: str) -> Guest:
        """A machine, for one request."""

    def work(self, guest: Guest, do: Callable[[], T]) -> T:
        """Do something on a machine in one step."""


class Agent:
    """Answers for every machine's agent.

    Args:
        machines: Runs them.
    """

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._http: httpx.AsyncClient | None = None

    async def close(self) -> None:
        """Close the connections to the router."""
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
            else:
                goes_on = await self._plain(guest, request, peer)
            if not goes_on:
                return

    async def _plain(self, guest: Guest, request: Request, peer: Peer) -> bool:
        api, body = guest.api, _object(request.body)
        told = self._machines.work(guest, lambda: api.answer(request.method, request.path, request.bearer(), body))
        return await peer.answer(*told)

    async def _turn(self, guest: Guest, request: Request, peer: Peer) -> bool:
        gateway, asked = guest.gateway, _object(request.body)
        if not gateway.knows(request.bearer()):
            return await peer.answer(HTTPStatus.UNAUTHORIZED, _error("Invalid API key", "invalid_api_key"))
        if gateway.is_draining:
            return await peer.answer(HTTPStatus.SERVICE_UNAVAILABLE, _error("draining", "gateway_draining"))
        if not gateway.symptoms.takes_turns:
            return await peer.answer(HTTPStatus.INTERNAL_SERVER_ERROR, _error("no turns", "internal_error"))
        self._http = self._http or httpx.AsyncClient(timeout=_TIMEOUT, trust_env=False)
        model = gateway.model
        question = {"model": model.model, "messages": asked.get("messages", []), "stream": bool(asked.get("stream"))}
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
                said = f"the model's router answered {answer.status_code}"
                return await peer.answer(HTTPStatus.BAD_GATEWAY, _error(said, "model_error"))
            if question["stream"]:
                return await peer.stream(_pieces(answer))
            return await peer.answer(HTTPStatus.OK, json.loads(await answer.aread()))
        finally:
            await answer.aclose()


async def _pieces(answer: httpx.Response) -> AsyncIterator[bytes]:
    async for piece in answer.aiter_bytes():
        yield piece


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _error(message: str, code: str) -> dict[str, Any]:
    return {"error": {"message": message, "code": code}}
