"""Runs a command of hermesops as a child process and keeps its output."""

import asyncio
import codecs
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO

from hermesops.base.waiting import cancel

LONGEST_OUTPUT = 256 * 1024
"""Characters of a command's output that are kept and shown."""


@dataclass(frozen=True)
class Ended:
    """A command that ended.

    Attributes:
        output: What it wrote to both streams, in order; from a possibly hostile source.
        is_cut: Whether it wrote more.
    """

    exit_code: int
    output: str
    is_cut: bool = False


async def run_command(
    words: Sequence[str], *, environment: str, variables: Mapping[str, str], show: Callable[[str], None]
) -> Ended:
    """Run a command of hermesops as a child without a terminal, and wait for its end.

    It has a session of its own, so that Ctrl-C, which cancels this, reaches it once: it then cleans up, and a second
    one ends it.

    Args:
        words: After ``hermesops``.
        environment: Which one it acts on, by ``--env``.
        variables: Its environment.
        show: Takes its output as it comes, ``LONGEST_OUTPUT`` characters at most.
    """
    output, end = os.pipe()
    with os.fdopen(output, "rb", buffering=0) as stream:
        try:
            child = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "hermesops", "--env", environment, *words),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=end,
                stderr=end,
                env=variables,
                start_new_session=True,
            )
        finally:
            os.close(end)
        shown_output = _Output(show)
        ending = asyncio.create_task(_until_end(child, stream, shown_output))
        try:
            return Ended(await asyncio.shield(ending), "".join(shown_output.pieces), shown_output.is_cut)
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGINT)
            await ending
            raise
        finally:
            await cancel(ending)
            if child.returncode is None:
                child.kill()
            await child.wait()


async def _until_end(child: asyncio.subprocess.Process, stream: IO[bytes], output: "_Output") -> int:
    reader = asyncio.StreamReader()
    make = partial(asyncio.StreamReaderProtocol, reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(make, stream)
    try:
        while piece := await reader.read(65536):
            output.take(piece)
        return await child.wait()
    finally:
        transport.close()


class _Output:
    """A child's output: shown and kept up to a length; the rest is dropped."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._room = LONGEST_OUTPUT
        self.pieces: list[str] = []
        self.is_cut = False

    def take(self, piece: bytes) -> None:
        """Show and keep the part of a piece that fits into the remaining length."""
        text = self._decoder.decode(piece)
        head = text[: self._room]
        self.is_cut = self.is_cut or len(text) > len(head)
        self._room -= len(head)
        if head:
            self.pieces.append(head)
            self._show(head)
