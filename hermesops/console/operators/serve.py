"""The served console as a process: pages for several operators, over a registry that it only reads."""

import asyncio
import socket
from typing import TYPE_CHECKING

from hermesops.console.application import application
from hermesops.console.live import Streams
from hermesops.console.operators.gate import CALLBACK, OperatorGate
from hermesops.console.operators.links import LinksOfOperators
from hermesops.console.operators.requested import RequestedActions
from hermesops.console.operators.sessions import Sessions
from hermesops.console.parts import Console
from hermesops.console.rendering import Pages
from hermesops.console.serve import Server
from hermesops.console.sources import Sources
from hermesops.console.topics.listings import OF_OPERATORS

if TYPE_CHECKING:
    from hermesops.app.console_container import ConsoleContainer

_STREAMS = 200


async def serve(container: "ConsoleContainer", listener: socket.socket) -> None:
    """Serve operators until cancelled. Closes the listener.

    Raises:
        UsageError: A setting is missing.
        RefusedError: The registry's tables are of another hermesops.
        UnavailableError: The registry does not answer.
    """
    gate = gate_of(container)
    await asyncio.to_thread(container.now)
    await Server(application(console_of(container), gate), listener).serve_until_cancelled()


def gate_of(container: "ConsoleContainer") -> OperatorGate:
    """The gate for operators of an environment. Raises ``UsageError`` where a setting is missing."""
    origin = container.env.settings.console.origin
    sessions = Sessions(container.issuer_client, container.operator_tokens, f"{origin}{CALLBACK}")
    return OperatorGate(origin, sessions)


def console_of(container: "ConsoleContainer") -> Console:
    """The parts of the served console: commands name the environment, and changes are requests to workers."""
    sources = Sources(container, frozenset(OF_OPERATORS))
    pages = Pages(container.env.name, container.env.name, is_served=True)
    streams, requested = Streams(sources, most=_STREAMS), RequestedActions(container)
    return Console(container, pages, sources, streams, requested, LinksOfOperators(requested), is_served=True)
