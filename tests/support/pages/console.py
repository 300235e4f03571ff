"""The console over a container: its application in the test's process, or served on loopback."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from hermesops.app import Container
from hermesops.base.waiting import cancel
from hermesops.console.application import application
from hermesops.console.front import PREFIX
from hermesops.console.parts import Console
from hermesops.console.serve import gate_of, serve
from hermesops.observability.browser import BrowserGate
from hermesops.settings.environment import Environment

AUTHORITY = "127.0.0.1:4711"
OWN = {"origin": f"http://{AUTHORITY}", "hx-request": "true"}
"""Headers of a change that the console's own page asks for."""


def container_of(variables: Mapping[str, str]) -> Container:
    """The container of the local environment with these variables."""
    return Container(Environment.load("local", variables), lambda _: None)


def empty_container(home: Path) -> Container:
    """A container whose environment has no world and an empty registry."""
    return container_of({"HOME": str(home), "HERMESOPS_HOME": str(home)})


@asynccontextmanager
async def console_client(container: Container) -> AsyncIterator[httpx.AsyncClient]:
    """A browser's requests to the console, which runs in this process; it has the cookie already."""
    console, gate = Console.of(container, ""), BrowserGate(AUTHORITY, PREFIX)
    transport = httpx.ASGITransport(application(console, gate))
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{AUTHORITY}") as client:
        response = await client.get(gate.url)
        assert (response.status_code, response.headers["location"]) == (303, PREFIX)
        yield client
        await console.changes.close()


@asynccontextmanager
async def served_console(container: Container) -> AsyncIterator[str]:
    """The console on loopback; its address with the token."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        gate = gate_of(listener)
        serving = asyncio.ensure_future(serve(container, listener, gate, ""))
        try:
            yield gate.url
        finally:
            await cancel(serving)
