"""``python -m tests.support.real.fork_server``: programs of hermesops as forks of a process that has loaded it.

Each is a process of its own, in a session of its own, without the second of loading. Lines of JSON on stdin say what to
run, lines on stdout what it ended with. Who forks has one thread and keeps nothing of what it runs.
"""

import asyncio
import json
import os
import selectors
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tests.support.real import forked
from tests.support.real.command import Command, Ran

_ROOT = Path(__file__).resolve().parents[3]


class Nursery:
    """The way to one; see ``raised``.

    Args:
        process: It.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[int]] = {}

    async def run(self, module: str, arguments: Sequence[str], environ: dict[str, str], out: Path, err: Path) -> int:
        """Run the ``main`` of a module in a fork; what the process ended with, negative for a signal.

        Args:
            module: Its name.
            arguments: Of its command line.
            environ: All of its environment.
            out: Where its stdout goes.
            err: Where its stderr goes.
        """
        number = next(self._numbers)
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[number] = ended
        asked = {
            "number": number,
            "module": module,
            "arguments": list(arguments),
            "environ": environ,
            "out": str(out),
            "err": str(err),
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        await self._process.stdin.drain()
        return await ended

    async def listen(self) -> None:
        """Hear of ends until there are no more."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            told = json.loads(line)
            self._waiting.pop(told["number"]).set_result(told["code"])
        for waiting in self._waiting.values():
            waiting.set_exception(RuntimeError("the nursery has ended"))


@asynccontextmanager
async def raised() -> AsyncIterator[Nursery]:
    """A nursery, which ends with its children's end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.real.fork_server"),
        cwd=_ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    nursery = Nursery(process)
    listening = asyncio.create_task(nursery.listen())
    try:
        yield nursery
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
        await listening


@dataclass(frozen=True)
class Nursed(Command):
    """Runs commands with one home, in forks."""

    nursery: Nursery | None = None

    @classmethod
    def of(cls, command: Command, nursery: Nursery) -> "Nursed":
        """The same commands, in forks."""
        return cls(command.home, command.variables, command.program, command.said, nursery)

    async def run(self, *arguments: str, timeout_s: float = 600, typed: str = "") -> Ran:
        assert not typed
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            async with asyncio.timeout(timeout_s):
                code = await self.be(forked.COMMAND, arguments, out, err)
            said = [file.read_text(encoding="utf-8") for file in (out, err)]
        ran = Ran(arguments, code, said[0], said[1], time.monotonic() - started)
        self.said.append(ran)
        return ran

    async def be(self, module: str, arguments: Sequence[str], out: Path, err: Path) -> int:
        """Run a module's ``main`` with this home; what it ended with."""
        assert self.nursery is not None
        return await self.nursery.run(module, arguments, self.environ, out, err)


# What follows is the nursery itself.


def _serve() -> None:
    forked.load()
    children: dict[int, tuple[int, int]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.buffer.fileno(), selectors.EVENT_READ)
        rest, is_open = b"", True
        while is_open or children:
            for key, _ in selector.select():
                if key.fd in children:
                    selector.unregister(key.fd)
                    _report_end(key.fd, *children.pop(key.fd))
                    continue
                data = os.read(key.fd, 1 << 20)
                if not data:
                    selector.unregister(key.fd)
                    is_open = False
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    asked = json.loads(line)
                    child = os.fork()
                    if child == 0:
                        out, err = Path(asked["out"]), Path(asked["err"])
                        forked.be(asked["module"], asked["arguments"], asked["environ"], out, err)
                    watched = os.pidfd_open(child)
                    children[watched] = child, asked["number"]
                    selector.register(watched, selectors.EVENT_READ)


def _report_end(watched: int, child: int, number: int) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(watched)
    sys.stdout.write(json.dumps({"number": number, "code": code}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _serve()
