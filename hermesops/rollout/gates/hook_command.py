"""A command that keeps a gate: run in an environment made for it, for a time, and ended with all that it started."""

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


class HookCommand:
    """One run of a command.

    Args:
        words: The command and its arguments; never a shell's line.
        variables: Its environment beside ``HOME``, a folder made for this run, and ``LANG``.
        timeout_s: Seconds for all of it.
    """

    def __init__(self, words: Sequence[str], variables: Mapping[str, str], *, timeout_s: float) -> None:
        self._words = tuple(words)
        self._variables = variables
        self._timeout_s = timeout_s

    async def run(self, told: Mapping[str, object]) -> tuple[int | None, str]:
        """Run it, with ``told`` as JSON on its standard input.

        Returns:
            Its exit code, ``None`` where it did not come to one, and the last line of its output, fit to be shown.
        """
        with tempfile.TemporaryDirectory(prefix="hermesops-hook-", ignore_cleanup_errors=True) as home:
            output, end = os.pipe()
            try:
                process = await self._started(home, json.dumps(told).encode(), end)
            except OSError as error:
                os.close(output)
                return None, f"{self._words[0]}: {error.strerror}"
            finally:
                os.close(end)
            async with _Output(output) as said:
                try:
                    async with asyncio.timeout(self._timeout_s):
                        code = await process.wait()
                except TimeoutError:
                    return None, f"no answer in {self._timeout_s:g} s"
                finally:
                    await _end(process)
        return code, said.last_line()

    async def _started(self, home: str, given: bytes, output: int) -> asyncio.subprocess.Process:
        """Start it with descriptors and no pipes of asyncio's, which would wait for whoever else holds their ends."""
        with os.fdopen(os.memfd_create("told"), "w+b") as stdin:
            stdin.write(given)
            stdin.seek(0)
            return await asyncio.create_subprocess_exec(
                *_GUARD,
                *self._words,
                stdin=stdin,
                stdout=output,
                stderr=output,
                env={"LANG": "C.UTF-8", **self._variables, "HOME": home},
                cwd=home,
                start_new_session=True,
            )


class _Output:
    """What a command says, of which the end is kept.

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
        """Take what is still in the pipe; one who could not be ended may hold it open for ever."""
        await asyncio.wait({self._reading}, timeout=_REST_S)
        self._reading.cancel()
        self._transport.close()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while piece := await reader.read(_PIECE):
            self._kept = (self._kept + piece)[-_KEPT:]

    def last_line(self) -> str:
        """Its last line that says anything."""
        lines = self._kept.decode(errors="replace").strip().splitlines()
        return one_line(lines[-1]) if lines else ""


async def _end(process: asyncio.subprocess.Process) -> None:
    """Have the guard end all that the command started, and then itself; one that does not is ended."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_ENDING_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
