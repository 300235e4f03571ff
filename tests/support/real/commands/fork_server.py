"""Programs of hermesops as forks of a process that has loaded it: each a process, without the second of loading.

``python -m tests.support.real.commands.fork_server FOLDER`` serves. A folder holds stand-ins for ``hermesops``, its
plugin and their Python (``fork_client``), beside links to everything else that is installed. The server has one thread,
keeps nothing of what its forks do, and ends with the process that started it.
"""

import atexit
import contextlib
import gc
import marshal
import os
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from tests.support.real.commands import loaded
from tests.support.worlds.local.left_worlds import remember_folder

_ROOT = Path(__file__).resolve().parents[4]
_CLIENT = Path(__file__).with_name("fork_client.py")
_MODULES = {"hermesops": loaded.COMMAND, "pulumi-resource-justavps": "hermesops.cli.provider"}
"""The modules of programs; any other is its own module."""

_USED = struct.Struct("<d")
_servers: list[Path] = []


@cache
def folder() -> Path:
    """A folder of programs, with a server behind it that ends with this process."""
    place = Path(tempfile.mkdtemp(prefix="hermesops-forks-"))
    remember_folder(place)
    _fill(place)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place / "socket"))
        listening.listen(100)
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.support.real.commands.fork_server", str(place), str(listening.fileno())],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(listening.fileno(),),
            start_new_session=True,
        )
    _servers.append(place)
    atexit.register(_end, server, place, os.getpid())
    return place


def used_s() -> float:
    """Processor seconds of all commands that have ended as forks of this process's server."""
    return sum(float(_USED.unpack((place / "used").read_bytes())[0]) for place in _servers)


def _write_used(place: Path, seconds: float) -> None:
    draft = place / "used.new"
    draft.write_bytes(_USED.pack(seconds))
    draft.rename(place / "used")


def _fill(place: Path) -> None:
    _write_used(place, 0.0)
    for installed in Path(sys.executable).parent.iterdir():
        (place / installed.name).symlink_to(installed)
    text = f"#!{sys.executable} -ISB\n{_CLIENT.read_text(encoding='utf-8')}\n\nmain({sys.executable!r})\n"
    for name in ("python", *_MODULES):
        (place / name).unlink()
        (place / name).write_text(text, encoding="utf-8")
        (place / name).chmod(0o755)


def _end(server: subprocess.Popen[bytes], place: Path, owner: int) -> None:
    if os.getpid() != owner:  # a fork of that process, which ends before it
        return
    assert server.stdin is not None
    server.stdin.close()
    server.wait()
    shutil.rmtree(place)


# What follows is the server itself.


@dataclass(frozen=True)
class Program:
    """What a fork is to be.

    Attributes:
        connection: To the process that stands for it.
        streams: Descriptors of its stdin, stdout and stderr.
    """

    connection: socket.socket
    streams: Sequence[int]
    name: str
    arguments: Sequence[str]
    environ: Mapping[str, str]
    folder: str

    @property
    def is_server(self) -> bool:
        """Whether it is a world's server, whose seconds are no test's."""
        return "serve" in self.arguments

    def be(self, place: Path) -> int:
        """Be it in a fork that was just made, in a session of its own; the exit code."""
        os.setsid()
        for number, descriptor in enumerate(self.streams):
            os.dup2(descriptor, number)
            os.close(descriptor)
        self.connection.sendall(os.getpid().to_bytes(4, "little"))
        self.connection.close()
        os.chdir(self.folder)
        os.environ.clear()  # noqa: TID251 - as an exec does
        os.environ.update(self.environ)  # noqa: TID251 - as above
        time.tzset()
        sys.argv = [self.name, *self.arguments]
        sys.modules["__main__"].__package__ = ""  # or messages would name this module as the program
        sys.executable = str(place / "python")
        code = import_module(_MODULES.get(self.name, self.name)).main()
        return int(code)


class _Server:
    def __init__(self, place: Path, listening: socket.socket) -> None:
        self._place, self._listening = place, listening
        self._selector = selectors.DefaultSelector()
        self._forks: dict[int, tuple[int, Program]] = {}  # by the descriptor of the process
        self._used_s = 0.0

    def serve(self) -> Program | None:
        """Make forks until stdin ends. Returns in each fork, with what it is to be."""
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        self._selector.register(self._listening, selectors.EVENT_READ, self._listening)
        while True:
            for key, _ in self._selector.select():
                if key.fd == sys.stdin.fileno():
                    self._kill_all()
                    return None
                if key.data is self._listening:
                    if program := self._fork():
                        return program
                elif key.fd in self._forks:
                    self._report(key.fd)
                elif key.data in self._forks:
                    self._kill(key.data)

    def _fork(self) -> Program | None:
        connection, _ = self._listening.accept()
        try:
            program = _asked(connection)
        except EOFError:  # killed before it said what it is
            connection.close()
            return None
        child = os.fork()
        if child == 0:
            self._leave()
            return program
        for descriptor in program.streams:
            os.close(descriptor)
        process = os.pidfd_open(child)
        self._forks[process] = child, program
        self._selector.register(process, selectors.EVENT_READ)
        self._selector.register(connection, selectors.EVENT_READ, process)
        return None

    def _leave(self) -> None:
        self._selector.close()
        self._listening.close()
        for process, (_, program) in self._forks.items():
            os.close(process)
            program.connection.close()

    def _report(self, process: int) -> None:
        child, program = self._forks.pop(process)
        connection = program.connection
        self._selector.unregister(process)
        with contextlib.suppress(KeyError):  # it was killed
            self._selector.unregister(connection)
        _, status, usage = os.wait4(child, 0)
        if not program.is_server:
            self._used_s += usage.ru_utime + usage.ru_stime
            _write_used(self._place, self._used_s)
        with contextlib.suppress(OSError):  # nobody waits for it
            connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "little", signed=True))
        connection.close()
        os.close(process)

    def _kill(self, process: int) -> None:
        """End a fork whose process was killed; its end is reported as any other."""
        child, program = self._forks[process]
        self._selector.unregister(program.connection)
        os.kill(child, signal.SIGKILL)

    def _kill_all(self) -> None:
        for child, _ in self._forks.values():
            os.kill(child, signal.SIGKILL)


def _asked(connection: socket.socket) -> Program:
    head, streams, _, _ = socket.recv_fds(connection, 4, 3)
    data = b""
    while not head or len(data) < int.from_bytes(head, "little"):
        if not (more := connection.recv(1 << 16)):
            raise EOFError
        data += more
    return Program(connection, streams, *marshal.loads(data))  # noqa: S302 - of this run's own processes


def main() -> int:
    """Serve, and in each fork, be what was asked for."""
    place, listening = Path(sys.argv[1]), socket.socket(fileno=int(sys.argv[2]))
    loaded.load()
    gc.freeze()  # or each fork would copy what its garbage collector visits
    program = _Server(place, listening).serve()
    return _ended(program.be(place)) if program else 0


def _ended(code: int) -> NoReturn:
    """End as Python does, but leave what is loaded to the kernel: taking it apart takes longer than most commands."""
    threading._shutdown()  # type: ignore[attr-defined]  # there is no other name for it
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
