"""The console over a container: its application in the test's process, or served on loopback."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from pathlib import Path

import httpx

from hermesops.app import Container
from hermesops.base.waiting import cancel
from hermesops.console.actions.served import action_of
from hermesops.console.application import application
from hermesops.console.front import PREFIX
from hermesops.console.operators.gate import LoopbackGate
from hermesops.console.parts import Console
from hermesops.console.serve import gate_of, serve
from hermesops.observability.browser import BrowserGate
from hermesops.settings.environment import Environment

AUTHORITY = "127.0.0.1:4711"
OWN = {"origin": f"http://{AUTHORITY}", "hx-request": "true"}
"""Headers of a change that the console's own page asks for."""


def container_of(variables: Mapping[str, str]) -> Container:
    """The container of the local environment with these variables."""
    container = Container(Environment.load("local", variables), lambda _: None)
    container.find_operator_action = action_of
    return container


def empty_container(home: Path) -> Container:
    """A container whose environment has no world and an empty registry."""
    return container_of({"HOME": str(home), "HERMESOPS_HOME": str(home)})


@asynccontextmanager
async def console_client(container: Container) -> AsyncIterator[httpx.AsyncClient]:
    """A browser's requests to the console, which runs in this process; it has the cookie already."""
    console, gate = Console.of(container, ""), LoopbackGate(BrowserGate(AUTHORITY, PREFIX))
    transport = httpx.ASGITransport(application(console, gate))
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{AUTHORITY}") as client:
        response = await client.get(gate.url)
        assert (response.status_code, response.headers["location"]) == (303, PREFIX)
        yield client
        await console.running.close()


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


class Elements(HTMLParser):
    """Elements and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def foreign(text: str) -> list[str]:
    """Whatever no page may have: scripts and styles in it, images, addresses beyond the console, invisible text."""
    wrong = [f"{char!r}" for char in set(text) if not char.isprintable() and char not in "\n\t"]
    for tag, attributes in Elements(text).elements:
        if tag in {"img", "iframe", "object", "style", "base"} or (tag == "script" and not attributes.get("src")):
            wrong.append(tag)
        for name, value in attributes.items():
            is_address = name in {"href", "src", "action"} or name.startswith(("hx-get", "hx-post"))
            if (
                name.startswith("on")
                or name == "style"
                or (is_address and not (value or "").startswith(("/console/", "#")))
            ):
                wrong.append(f"{tag} {name}={value}")
    return wrong
