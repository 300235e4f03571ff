"""Commands of hermesops in the test's own process, over its container; no connection to JustAVPS is made."""

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import typer.main

from hermesops.app import Container
from hermesops.cli import context, interrupts, root
from hermesops.cli.printing import output
from tests.support.real.commands.command import Ran


def commands_over(container: Container, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Awaitable[Ran]]:
    """Runs commands that need no machine and no vendor, as pages of the container do."""

    @contextlib.asynccontextmanager
    async def connect() -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(container=container)

    monkeypatch.setitem(vars(container), "connect", connect)
    monkeypatch.setattr(context, "compose", lambda **_: container)
    monkeypatch.setattr(interrupts, "raise_it", lambda: None)  # signals are the main thread's

    async def run(*words: str) -> Ran:
        return await asyncio.to_thread(_run, words)

    return run


def _run(words: tuple[str, ...]) -> Ran:
    vars(output.mode).update(vars(output.Mode()))
    command: Any = typer.main.get_command(root.app)
    with contextlib.redirect_stdout(io.StringIO()) as stdout, contextlib.redirect_stderr(io.StringIO()) as stderr:
        try:
            code = command.main([*words], standalone_mode=False) or 0
        except Exception as failure:  # noqa: BLE001 - as at the command's own edge
            code = root._report(failure)
    vars(output.mode).update(vars(output.Mode()))
    return Ran(words, code, stdout.getvalue(), stderr.getvalue(), 0.0)
