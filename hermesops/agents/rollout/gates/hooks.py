"""Hooks, the gates of other programs: commands that this computer's settings define, and web services they allow.

A rollout's row only names a hook: writing rows, or starting rollouts, runs no command of one's own on this computer.
"""

import asyncio
import contextlib
import json
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Self

from hermesops.agents.rollout.gates import hook_guard
from hermesops.agents.rollout.watch.webhooks import ask_service, message
from hermesops.errors import RefusedError, UsageError
from hermesops.model.rollout.records import GateResult, Rollout
from hermesops.model.rollout.spec import HOOK_FACTS, HookGate
from hermesops.wire.foreign_text import one_line

if TYPE_CHECKING:
    import httpx


LONGEST_S = 600.0
"""Seconds that a hook may take whatever its row says."""

_ANSWERS = {0: GateResult.PASS, 1: GateResult.FAIL}
_HTTPS_PORT = 443


_KEPT = 16 << 10
"""Bytes of its output that are kept, the last ones; it may write as much as it likes."""

_PIECE = 64 << 10

_REST_S = 1.0
"""Seconds to read the rest of the pipe after the command's end."""

_ENDING_S = hook_guard.ENDING_S + 1.0

_GUARD = (sys.executable, "-I", "-S", "-B", hook_guard.__file__)


@dataclass(frozen=True)
class AllowedHooks:
    """The hooks that the settings of this computer allow.

    Attributes:
        hosts: Of web services: ``host``, or ``host:port`` where that is not 443.
        is_local: Whether a service on this computer's loopback may be asked too, and without TLS.
    """

    commands: Mapping[str, str]
    hosts: Collection[str] = ()
    is_local: bool = False

    def words(self, name: str) -> tuple[str, ...]:
        """The command of that name; empty where there is none, or it cannot be split as a shell does."""
        try:
            return tuple(shlex.split(self.commands.get(name, "")))
        except ValueError:
            return ()

    def problem(self, hook: HookGate) -> str:
        """Why a hook cannot be asked here; empty when it can."""
        if hook.url:
            return self.url_problem(hook.url)
        if hook.name not in self.commands:
            return f"hook {hook.name} is not defined on this computer"
        return "" if self.words(hook.name) else f"hook {hook.name} is defined on this computer without a command"

    def url_problem(self, url: str) -> str:
        """Why a service must not be asked; names only its host, as the rest may hold a key."""
        parsed = _parsed(url)
        problem = self.cleartext_problem(url)
        if problem or parsed is None or (self.is_local and _is_loopback(parsed.host)):
            return problem
        host, port = parsed.host.lower(), parsed.port or _HTTPS_PORT
        if (host if port == _HTTPS_PORT else f"{host}:{port}") not in self.hosts:
            return f"{host} is not among the hosts of setting rollout.hook_hosts on this computer"
        return ""

    def cleartext_problem(self, url: str) -> str:
        """Why nothing must be sent to a URL: it has no TLS and is not on this computer's loopback in a local world."""
        parsed = _parsed(url)
        if parsed is None or parsed.scheme not in {"http", "https"}:
            return "the URL cannot be read"
        if parsed.scheme == "https" or (self.is_local and _is_loopback(parsed.host)):
            return ""
        return f"{parsed.host} has no TLS"

    def refuse_others(self, hooks: Sequence[HookGate]) -> None:
        """Refuse hooks that cannot be asked on this computer.

        Raises:
            RefusedError: One cannot; the hint names those that can.
        """
        for hook in hooks:
            if problem := self.problem(hook):
                known = ", ".join(sorted(self.hosts if hook.url else self.commands)) or "none"
                what = "hosts that setting rollout.hook_hosts allows" if hook.url else "hooks of [rollout.hooks]"
                raise RefusedError(problem, hint=f"{what}: {known}")


async def ask_hook(
    hook: HookGate, rollout: Rollout, *, environment: str, allowed: AllowedHooks, search: str
) -> tuple[GateResult, str]:
    """Its result and a line of detail; ``inconclusive`` without an answer in time, or if it is not allowed."""
    if problem := allowed.problem(hook):
        return GateResult.INCONCLUSIVE, problem
    body, timeout_s = message(rollout, None, environment=environment), min(hook.timeout_s, LONGEST_S)
    if hook.url:
        return await ask_service(hook.url, body, timeout_s=timeout_s)
    variables = {"PATH": search, **{name: str(body[fact]) for name, fact in HOOK_FACTS.items()}}
    code, output_line = await run_hook(allowed.words(hook.name), variables, body, timeout_s=timeout_s)
    if code is None:
        return GateResult.INCONCLUSIVE, output_line
    return _ANSWERS.get(code, GateResult.INCONCLUSIVE), output_line or f"exit code {code}"


def parse_hook(text: str, *, timeout_s: float = 60.0) -> HookGate:
    """A hook as an operator names it: ``NAME``, or ``NAME=https://…``.

    Raises:
        UsageError: It is neither.
    """
    name, equals, url = (part.strip() for part in text.partition("="))
    if not name or (equals and not url.startswith(("https://", "http://"))):
        raise UsageError(
            f"{text!r} is neither NAME nor NAME=https://…",
            hint="define a command in settings.toml of the computer that runs it: [rollout.hooks] NAME = 'COMMAND'",
            field="hook",
        )
    return HookGate(name, url=url, timeout_s=timeout_s)


def _parsed(url: str) -> "httpx.URL | None":
    """The URL as the client that will ask it reads it; ``None`` where it cannot."""
    import httpx  # noqa: PLC0415 - most rollouts have no hook

    try:
        return httpx.URL(url)
    except httpx.InvalidURL:
        return None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def run_hook(
    words: Sequence[str], variables: Mapping[str, str], body: Mapping[str, object], *, timeout_s: float
) -> tuple[int | None, str]:
    """Run the command of a hook and end all its processes.

    Args:
        words: The command and its arguments; never a shell's line.
        variables: Its environment, beside ``LANG`` and ``HOME``, a folder made for this run.
        body: Is its standard input, as JSON.

    Returns:
        Its exit code, ``None`` without one, and the last line of its output, safe to show.
    """
    with tempfile.TemporaryDirectory(prefix="hermesops-hook-", ignore_cleanup_errors=True) as home:
        output, end = os.pipe()
        environment = {"LANG": "C.UTF-8", **variables, "HOME": home}
        try:
            process = await _start(words, environment, json.dumps(body).encode(), end)
        except OSError as error:
            os.close(output)
            return None, f"{words[0]}: {error.strerror}"
        finally:
            os.close(end)
        async with _Output(output) as tail:
            try:
                async with asyncio.timeout(timeout_s):
                    code = await process.wait()
            except TimeoutError:
                return None, f"no answer in {timeout_s:g} s"
            finally:
                await _end(process)
    return code, tail.last_line()


async def _start(
    words: Sequence[str], environment: Mapping[str, str], request: bytes, output: int
) -> asyncio.subprocess.Process:
    """Start it with descriptors: pipes of asyncio's would wait for other processes that hold their ends."""
    with os.fdopen(os.memfd_create("stdin"), "w+b") as stdin:
        stdin.write(request)
        stdin.seek(0)
        return await asyncio.create_subprocess_exec(
            *_GUARD,
            *words,
            stdin=stdin,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=environment["HOME"],
            start_new_session=True,
        )


class _Output:
    """The end of a command's output."""

    def __init__(self, descriptor: int) -> None:
        self._stream = os.fdopen(descriptor, "rb", buffering=0)
        self._kept = b""

    async def __aenter__(self) -> Self:
        reader = asyncio.StreamReader()
        make = partial(asyncio.StreamReaderProtocol, reader)
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(make, self._stream)
        self._reading = asyncio.create_task(self._read(reader))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Read the rest of the pipe; a process that could not be ended may hold it open for ever."""
        await asyncio.wait({self._reading}, timeout=_REST_S)
        self._reading.cancel()
        self._transport.close()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while piece := await reader.read(_PIECE):
            self._kept = (self._kept + piece)[-_KEPT:]

    def last_line(self) -> str:
        """Its last line that is not empty."""
        lines = self._kept.decode(errors="replace").strip().splitlines()
        return one_line(lines[-1]) if lines else ""


async def _end(process: asyncio.subprocess.Process) -> None:
    """Have the guard end all that the command started, and then itself; a guard that does not is killed."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_ENDING_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
