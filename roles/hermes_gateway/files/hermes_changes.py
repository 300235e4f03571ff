"""Change hermes-agent in two places, each when the module with it is imported (decision 115).

- ``gateway.relay.ws_transport`` (0.19.0 to 0.22.2) handles each message of the connector within the loop that reads
  them. An answer to a command, given while a turn is under way, waits there for the connector's result, which that loop
  alone reads: for 30 s nothing of what the connector sends is read, and a request for approval fails after 15 s.
- ``agent.secret_scope`` (0.19.0) gives jobs the keys of the user's ``.env`` alone, without those of the managed one: no
  job reaches the router. 0.22.2 adds them in the same way.

A release has this file and ``hermes-changes.pth`` beside its packages, so each of its interpreters runs it, also those
whose import path others can fill: it imports nothing before hermes-agent imports these modules. An agent of another
shape is left as it is.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from logging import Logger
    from types import ModuleType


class Finder:
    """Finds a module of hermes-agent once, and changes it after it has run.

    Args:
        name: Of the module.
    """

    def __init__(self, name: str, change: "Callable[[ModuleType], None]") -> None:
        self._name = name
        self._change = change

    def find_spec(self, name: str, *_: object) -> "ModuleSpec | None":
        """The module's own spec, whose loader also changes it; see ``importlib.abc.MetaPathFinder``."""
        if name != self._name:
            return None
        from importlib.util import find_spec

        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: "ModuleType") -> None:
                execute(module)
                self._change(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def read_beside(module: "ModuleType") -> None:
    """Let the agent's connection read while it handles messages."""
    from logging import getLogger

    separate(getattr(module, "WebSocketRelayTransport", None), getLogger(module.__name__))


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
        last: dict[str, Task[None]] = connection.__dict__.setdefault("_hermes_last", {})
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


def with_managed_keys(module: "ModuleType") -> None:
    """Let keys of jobs include those of the managed scope, which win over the user's, as everywhere else."""
    build = getattr(module, "build_profile_secret_scope", None)
    if build is None:
        return

    def build_profile_secret_scope(*args: object, **options: object) -> dict[str, str]:
        keys: dict[str, str] = build(*args, **options)
        try:
            from hermes_cli.managed_scope import load_managed_env  # type: ignore[import-not-found]
        except ImportError:
            return keys
        return {**keys, **load_managed_env()}

    module.build_profile_secret_scope = build_profile_secret_scope  # type: ignore[attr-defined]


sys.meta_path[:0] = [
    Finder("gateway.relay.ws_transport", read_beside),
    Finder("agent.secret_scope", with_managed_keys),
]
