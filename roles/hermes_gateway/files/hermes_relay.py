"""Handle each message of the connector beside the reader of hermes-agent's connection, in the order of its chat.

hermes-agent handles it within the reader (0.19.0 to 0.22.2, gateway/relay/ws_transport.py: ``_read_loop``). An answer
to a command, given while a turn is under way, waits there for the connector's result, which the reader alone reads: for
30 s nothing of what the connector sends is read, and a request for approval fails after 15 s.

A release has this file and ``hermes-relay.pth`` beside its packages, so each of its interpreters runs it, also those
whose import path others can fill: it imports nothing before hermes-agent's connection is imported. An agent of another
shape is left as it is.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Task
    from importlib.machinery import ModuleSpec
    from logging import Logger
    from types import ModuleType

_MODULE = "gateway.relay.ws_transport"


class Finder:
    """Finds hermes-agent's connection once, and changes its class after the module has run."""

    def find_spec(self, name: str, *_: object) -> "ModuleSpec | None":
        """The module's own spec, whose loader also changes the class; see ``importlib.abc.MetaPathFinder``."""
        if name != _MODULE:
            return None
        from importlib.util import find_spec

        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: "ModuleType") -> None:
                execute(module)
                separate(getattr(module, "WebSocketRelayTransport", None), module.logger)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def separate(transport: "type | None", logger: "Logger") -> None:
    """Let a class of connections handle messages in tasks, one at a time in each chat."""
    from asyncio import ensure_future, wait

    handle = getattr(transport, "_handle_frame", None)
    if transport is None or handle is None:
        return

    async def in_turn(before: "Task[None] | None", connection: object, line: str) -> None:
        if before is not None:
            await wait([before])
        try:
            await handle(connection, line)
        except Exception:
            logger.exception("relay: a message was not handled")

    async def handle_frame(connection: object, line: str) -> None:
        chat = _chat_of(line)
        if chat is None:
            await handle(connection, line)
            return
        last: dict[str, Task[None]] = connection.__dict__.setdefault("_hermes_relay_last", {})
        task = ensure_future(in_turn(last.get(chat), connection, line))
        last[chat] = task
        task.add_done_callback(lambda ended: last.pop(chat) if last.get(chat) is ended else None)

    transport._handle_frame = handle_frame  # type: ignore[attr-defined]  # noqa: SLF001 - between reader and handler


def _chat_of(line: str) -> str | None:
    """The chat of a message; ``None`` for any other frame."""
    from json import loads

    try:
        frame = loads(line)
        return str(frame["event"]["source"]["chat_id"]) if frame["type"] == "inbound" else None
    except (ValueError, TypeError, KeyError):
        return None


sys.meta_path.insert(0, Finder())
