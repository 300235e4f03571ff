"""Runs a command that is a gate: in an environment of its own, for a limited time, and ends all that it started."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Self

from hermesops.node.untrusted.foreign_text import one_line
from hermesops.rollout.gates import hook_guard

_KEPT = 16 << 10
"""Bytes of its output that are kept, the last ones; it may write as much as it likes."""

_PIECE = 64 << 10
_REST_S = 1.0
"""Seconds for what is still in the pipe when the command has ended."""

_ENDING_S = hook_guard.ENDING_S + 1.0
_GUARD = (sys.executable, "-I", "-S", "-B", hook_guard.__file__)


async def run_hook(
    words: Sequence[str], variables: Mapping[str, str], body: Mapping[str, object], *, timeout_s: float
) -> tuple[int | None, str]:
    """Run a command.

    Args:
        words: The command and its arguments; never a shell's line.
        variables: Its environment, beside ``LANG`` and ``HOME``, a folder made for this run.
        body: Is its standard input, as JSON.

    Returns:
        Its exit code, ``None`` where it came to none, and the last line of its output, fit to be shown.
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
        async with _Output(output) as kept:
            try:
                async with asyncio.timeout(timeout_s):
                    code = await process.wait()
            except TimeoutError:
                return None, f"no answer in {timeout_s:g} s"
            finally:
                await _end(process)
    return code, kept.last_line()


async def _start(
    words: Sequence[str], environment: Mapping[str, str], given: bytes, output: int
) -> asyncio.subprocess.Process:
    """Start it with descriptors and no pipes of asyncio's, which would wait for whoever else holds their ends."""
    with os.fdopen(os.memfd_create("stdin"), "w+b") as stdin:
        stdin.write(given)
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
    """The output of a command, of which the end is kept.

    Args:
        descriptor: Where it can be read.
    """

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
        """Take what is still in the pipe; a process that could not be ended may hold it open for ever."""
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
